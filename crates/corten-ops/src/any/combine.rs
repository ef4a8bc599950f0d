//! Stacking.

use crate::{Tensor, op};
use corten_core::{DType, Result, bail, ensure, geometry, try_with_capacity};

/// Tensors of one shape along a new dimension.
///
/// # Errors
/// `Runtime` without tensors or when shapes differ; `Index` for a dimension out of range.
pub fn stack(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        bail!(Runtime, "stack expects a non-empty TensorList")
    };
    let dim = geometry::wrap_dim(dim, first.dim() + 1)? as i64;
    for (position, tensor) in tensors.iter().enumerate() {
        ensure!(
            tensor.sizes() == first.sizes(),
            Runtime,
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at \
             entry {position}",
            first.sizes().as_slice(),
            tensor.sizes().as_slice()
        );
    }
    if (dim as usize) < first.dim() {
        // A dimension can always be split by a view, which keeps the memory format of the joined.
        let mut sizes = first.sizes();
        sizes.insert(dim as usize, tensors.len() as i64);
        return op::view(&op::cat(tensors, dim)?, &sizes);
    }
    let lifted: Vec<Tensor> =
        tensors.iter().map(|tensor| op::unsqueeze(tensor, dim)).collect::<Result<_>>()?;
    op::cat(&lifted, dim)
}

/// Each index as often as `repeats` says.
///
/// # Errors
/// `Runtime` for repeats that are negative or no vector; `NotImplemented` unless they are signed
/// integers or bytes.
pub fn repeat_interleave_tensor(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    ensure!(repeats.dim() == 1, Runtime, "repeat_interleave only accept 1D vector as repeat");
    let dtype = repeats.dtype();
    ensure!(
        dtype.is_integral(false) && (dtype.is_signed() || dtype == DType::UInt8),
        NotImplemented,
        "\"repeat_interleave_cpu\" not implemented for '{}'",
        dtype.type_name()
    );
    if repeats.device().is_meta() {
        let Some(size) = output_size else {
            bail!(Runtime, "cannot repeat_interleave a meta tensor without output_size")
        };
        return op::new_empty(repeats, &[size], None, None, None, None);
    }
    let counts = repeats.to_vec::<i64>()?;
    ensure!(counts.iter().all(|&count| count >= 0), Runtime, "repeats can not be negative");
    let total = counts.iter().try_fold(0i64, |sum, &count| sum.checked_add(count));
    ensure!(total.is_some(), Runtime, "repeats are too many: their sum is larger than an int64_t");
    let total = total.unwrap_or(0);
    ensure!(
        output_size.is_none_or(|given| given == total),
        Runtime,
        "allocated size does not match required size"
    );
    let mut indices = try_with_capacity(total as usize)?;
    for (index, &count) in counts.iter().enumerate() {
        indices.extend(std::iter::repeat_n(index as i64, count as usize));
    }
    let indices = Tensor::from_vec(indices, &[total])?;
    op::to_dtype_layout(
        &indices,
        Some(dtype),
        None,
        Some(repeats.device()),
        None,
        false,
        false,
        None,
    )
}
