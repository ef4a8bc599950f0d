//! Gradients of views and of the operators that rearrange elements.

use crate::engine::sum_to;
use crate::formulas::index::zeros_of;
use corten_core::{DType, Dims, Result, Scalar, TensorOptions, geometry};
use corten_ops::{Tensor, op};

fn wrap(dim: i64, rank: usize) -> Result<usize> {
    geometry::wrap_dim(dim, rank)
}

/// Sums broadcast dimensions to `sizes`.
///
/// # Errors
/// Those of the operators.
pub fn sum_to_size(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    sum_to(grad, sizes)
}

/// The inverse permutation.
///
/// # Errors
/// For dimensions out of range.
pub fn permute_backward(grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut inverse = Dims::from_elem(0, dims.len());
    for (to, &from) in dims.iter().enumerate() {
        inverse[wrap(from, dims.len())?] = to as i64;
    }
    op::permute(grad, &inverse)
}

/// Zeros with the gradient where the slice was.
///
/// # Errors
/// Those of the operators.
pub fn slice_grad(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    op::slice_backward(grad, sizes, dim, start.unwrap_or(0), end.unwrap_or(i64::MAX), step)
}

fn or_zeros(grad: &Tensor, sizes: &[i64], options: TensorOptions) -> Result<Tensor> {
    if grad.defined() {
        return Ok(grad.clone());
    }
    op::zeros(sizes, options.dtype, options.layout, options.device, None)
}

/// The gradients of the slices, stacked again.
///
/// # Errors
/// Those of the operators.
pub fn unbind_backward(
    grads: &[Tensor],
    sizes: &[i64],
    dim: i64,
    options: TensorOptions,
) -> Result<Tensor> {
    let mut slice = Dims::from_slice(sizes);
    slice.remove(wrap(dim, sizes.len())?);
    let grads = grads.iter().map(|grad| or_zeros(grad, &slice, options));
    op::stack(&grads.collect::<Result<Vec<_>>>()?, dim)
}

/// The gradients of the pieces, put together again.
///
/// # Errors
/// Those of the operators.
pub fn split_with_sizes_backward(
    grads: &[Tensor],
    split_sizes: &[i64],
    dim: i64,
    sizes: &[i64],
    options: TensorOptions,
) -> Result<Tensor> {
    let axis = wrap(dim, sizes.len())?;
    let piece = |(grad, &length): (&Tensor, &i64)| {
        let mut sizes = Dims::from_slice(sizes);
        sizes[axis] = length;
        or_zeros(grad, &sizes, options)
    };
    let pieces = grads.iter().zip(split_sizes).map(piece).collect::<Result<Vec<_>>>()?;
    op::cat(&pieces, dim)
}

/// As [`split_with_sizes_backward`], for pieces of one size but the last.
///
/// # Errors
/// Those of the operators.
pub fn split_backward(
    grads: &[Tensor],
    split_size: i64,
    dim: i64,
    sizes: &[i64],
    options: TensorOptions,
) -> Result<Tensor> {
    let length = sizes[wrap(dim, sizes.len())?];
    let piece = |i: usize| (length - i as i64 * split_size).clamp(0, split_size);
    let lengths: Vec<i64> = (0..grads.len()).map(piece).collect();
    split_with_sizes_backward(grads, &lengths, dim, sizes, options)
}

/// The sum over the repetitions.
///
/// # Errors
/// Those of the operators.
pub fn repeat_backward(grad: &Tensor, repeats: &[i64], sizes: &[i64]) -> Result<Tensor> {
    if repeats.contains(&0) {
        return zeros_of(grad, sizes);
    }
    let leading = repeats.len() - sizes.len();
    let mut grad = grad.clone();
    // One by one, so that 16-bit sums are rounded as often as PyTorch's.
    for _ in 0..leading {
        grad = op::sum_dim_intlist(&grad, Some(&[0]), false, None)?;
    }
    let mut shape = Dims::new();
    let mut summed = Dims::new();
    for (&repeat, &size) in repeats[leading..].iter().zip(sizes) {
        if repeat != 1 {
            summed.push(shape.len() as i64);
            shape.push(repeat);
        }
        shape.push(size);
    }
    if summed.is_empty() {
        return Ok(grad);
    }
    op::sum_dim_intlist(&op::reshape(&grad, &shape)?, Some(&summed), false, None)
}

/// Rolled back.
///
/// # Errors
/// Those of the operators.
pub fn roll_backward(grad: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    let back: Dims = shifts.iter().map(|shift| -shift).collect();
    op::roll(grad, &back, dims)
}

/// The gradient of `as_strided`: see [`as_strided_backward_geometry`].
///
/// # Errors
/// Those of the operators.
pub fn as_strided_backward(
    grad: &Tensor,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let view_offset = storage_offset.unwrap_or(offset);
    as_strided_backward_geometry(grad, (sizes, strides, offset), (size, stride, view_offset))
}

/// Sizes, strides and offset.
pub(crate) type Strided<'a> = (&'a [i64], &'a [i64], i64);

/// The gradient of a strided view with geometry `view` over an input with geometry `input`.
///
/// Note [Gradient of as_strided]: a buffer stands for the storage. The gradient is scattered into
/// it through the view's geometry (added where that overlaps itself), and read out through the
/// input's. Where the input overlaps itself, several of its elements are one element of storage,
/// and each gets an equal part.
pub(crate) fn as_strided_backward_geometry(
    grad: &Tensor,
    input: Strided<'_>,
    view: Strided<'_>,
) -> Result<Tensor> {
    if input.0.contains(&0) || view.0.contains(&0) {
        return zeros_of(grad, input.0);
    }
    let (grad, sizes, strides) = without_broadcast(grad, view.0, view.1)?;
    let shared = input.2.min(view.2);
    let (input_offset, view_offset) = (input.2 - shared, view.2 - shared);
    let needed = extent(input.0, input.1, input_offset).max(extent(&sizes, &strides, view_offset));
    let mut storage = zeros_of(&grad, &[needed])?;
    if may_overlap(&sizes, &strides) {
        let places = places(&grad, needed, &sizes, &strides, view_offset)?;
        let flat = op::reshape(&grad, &[-1])?;
        storage = op::index_add(&storage, 0, &places, &flat, Scalar::Int(1))?;
    } else {
        let region = op::as_strided(&storage, &sizes, &strides, Some(view_offset))?;
        op::copy_(&region, &grad, false)?;
    }
    if may_overlap(input.0, input.1) {
        let places = places(&grad, needed, input.0, input.1, input_offset)?;
        let ones = op::new_ones(&grad, &[places.numel()], None, None, None, None)?;
        let count = op::index_add(&zeros_of(&grad, &[needed])?, 0, &places, &ones, Scalar::Int(1))?;
        // Places that nothing reads are divided by zero and never looked at.
        storage = (&storage / &count)?;
    }
    op::as_strided(&storage, input.0, input.1, Some(input_offset))
}

/// Drops dimensions of size one and sums those of stride zero.
fn without_broadcast(
    grad: &Tensor,
    sizes: &[i64],
    strides: &[i64],
) -> Result<(Tensor, Dims, Dims)> {
    let (mut kept_sizes, mut kept_strides) = (Dims::new(), Dims::new());
    let mut summed = Dims::new();
    for (dim, (&size, &stride)) in sizes.iter().zip(strides).enumerate() {
        if size != 1 && stride != 0 {
            kept_sizes.push(size);
            kept_strides.push(stride);
        } else if stride == 0 {
            summed.push(dim as i64);
        }
    }
    let mut grad = grad.clone();
    if !summed.is_empty() {
        grad = op::sum_dim_intlist(&grad, Some(&summed), true, None)?;
    }
    Ok((op::reshape(&grad, &kept_sizes)?, kept_sizes, kept_strides))
}

fn extent(sizes: &[i64], strides: &[i64], offset: i64) -> i64 {
    offset + 1 + sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum::<i64>()
}

/// Whether two elements may share a place: true also for some geometries where none do.
fn may_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    let mut dims: Vec<(i64, i64)> =
        strides.iter().copied().zip(sizes.iter().copied()).filter(|&(_, size)| size > 1).collect();
    dims.sort_unstable();
    let mut reach = 0;
    for (stride, size) in dims {
        if stride <= reach {
            return true;
        }
        reach += stride * (size - 1);
    }
    false
}

/// The flat places of a geometry's elements, in row-major order.
fn places(
    like: &Tensor,
    needed: i64,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> Result<Tensor> {
    let all = op::arange(Scalar::Int(needed), Some(DType::Int64), None, Some(like.device()), None)?;
    op::reshape(&op::as_strided(&all, sizes, strides, Some(offset))?, &[-1])
}

/// The gradient with the dimension of size 1 put back that was removed.
///
/// # Errors
/// Those of the operators.
pub fn squeeze_dim_grad(grad: &Tensor, sizes: &[i64], dim: i64) -> Result<Tensor> {
    if grad.has_storage() || sizes.is_empty() {
        return op::reshape(grad, sizes);
    }
    if grad.dim() == sizes.len() { Ok(grad.clone()) } else { op::unsqueeze(grad, dim) }
}
