//! Shapes given in other ways than to `view` and `expand`.

use crate::{Tensor, derived, op, opaque};
use corten_core::{
    DType, Dims, DispatchKey, Error, ErrorKind, Layout, MemoryFormat, Result, bail, ensure, err,
    geometry,
};

/// The same elements in another shape: a view where strides can express it, else a copy.
///
/// # Errors
/// `Runtime` when the numbers of elements differ.
pub fn reshape(self_: &Tensor, shape: &[i64]) -> Result<Tensor> {
    if self_.is_dense_cpu() {
        return op::view(self_, shape);
    }
    if opaque::is_opaque(self_) {
        return op::_mkldnn_reshape(self_, shape);
    }
    // The shape is handed on as it was given: a size that is left open stays so in recorded programs.
    if self_.layout() == Layout::Strided && self_.is_contiguous() {
        return op::view(self_, shape);
    }
    let sizes = match geometry::infer_size(shape, self_.numel()) {
        // Sizes of tensors without data may stand for others, of which that rest is a whole number.
        Err(_) if self_.key_set().has(DispatchKey::Python) && shape.contains(&-1) => {
            return op::_unsafe_view(&op::clone(self_, Some(MemoryFormat::Contiguous))?, shape);
        }
        sizes => sizes?,
    };
    let (old_sizes, old_strides) = (self_.sizes(), self_.strides());
    if geometry::compute_view_strides(&old_sizes, &old_strides, &sizes).is_some() {
        return op::view(self_, &sizes);
    }
    op::_unsafe_view(&op::clone(self_, Some(MemoryFormat::Contiguous))?, &sizes)
}

/// `reshape` to the shape of another tensor.
///
/// # Errors
/// Those of [`reshape`].
pub fn reshape_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    op::reshape(self_, &other.sizes())
}

/// `view` in the shape of another tensor.
///
/// # Errors
/// Those of `view`.
pub fn view_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    op::view(self_, &other.sizes())
}

/// A range of dimensions as one.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for a range that ends before it starts.
pub fn flatten(self_: &Tensor, start_dim: i64, end_dim: i64) -> Result<Tensor> {
    let sizes = self_.sizes();
    let start = geometry::wrap_dim(start_dim, sizes.len())?;
    let end = geometry::wrap_dim(end_dim, sizes.len())?;
    ensure!(
        start <= end,
        Runtime,
        "flatten() has invalid args: start_dim cannot come after end_dim"
    );
    if sizes.is_empty() {
        return op::reshape(self_, &[1]);
    }
    if start == end {
        return Ok(self_.clone());
    }
    let mut shape: Dims = sizes[..start].into();
    shape.push(sizes[start..=end].iter().product());
    shape.extend_from_slice(&sizes[end + 1..]);
    op::reshape(self_, &shape)
}

/// One dimension as several; one of the sizes may be -1.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for sizes that do not multiply to it.
pub fn unflatten(self_: &Tensor, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    ensure!(!sizes.is_empty(), Runtime, "unflatten: sizes must be non-empty");
    let old = self_.sizes();
    let dim = geometry::wrap_dim(dim, old.len())?;
    let Some(&whole) = old.get(dim) else {
        bail!(
            Runtime,
            "unflatten got an unexpected error:\nDimension specified as {dim} but tensor has no \
             dimensions"
        )
    };
    let parts = geometry::infer_size(sizes, whole)
        .map_err(|error| unflatten_error(error, sizes, dim, whole))?;
    let mut shape: Dims = old[..dim].into();
    shape.extend_from_slice(&parts);
    shape.extend_from_slice(&old[dim + 1..]);
    op::view(self_, &shape)
}

fn unflatten_error(error: Error, sizes: &[i64], dim: usize, whole: i64) -> Error {
    if error.kind() == ErrorKind::Runtime
        && error.message().contains("is invalid for input of size")
    {
        return err!(
            Runtime,
            "unflatten: Provided sizes {sizes:?} don't multiply up to the size of dim {dim} \
             ({whole}) in the input tensor"
        );
    }
    err!(Runtime, "unflatten got an unexpected error:\n{}", error.message())
}

/// All elements in one dimension.
///
/// # Errors
/// `OutOfMemory`.
pub fn ravel(self_: &Tensor) -> Result<Tensor> {
    op::reshape(&op::contiguous(self_, MemoryFormat::Contiguous)?, &[-1])
}

/// `expand` to the shape of another tensor.
///
/// # Errors
/// Those of `expand`.
pub fn expand_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    op::expand(self_, &other.sizes(), false)
}

/// `expand` under numpy's name.
///
/// # Errors
/// Those of `expand`.
pub fn broadcast_to(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    op::expand(self_, size, false)
}

/// Summed over the dimensions that a tensor of this shape would broadcast along.
///
/// # Errors
/// `Runtime` unless the shape expands to the tensor's.
pub fn sum_to_size(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = self_.sizes();
    let expandable = size.len() <= sizes.len()
        && size.iter().rev().zip(sizes.iter().rev()).all(|(&to, &from)| to == from || to == 1);
    ensure!(expandable, Runtime, "size {{{size:?}}} is not expandable to size {{{sizes:?}}}.");
    if size.is_empty() {
        return op::sum(self_, None);
    }
    let leading = sizes.len() - size.len();
    let ones = (leading..sizes.len()).filter(|&dim| size[dim - leading] == 1 && sizes[dim] != 1);
    let dims: Dims = (0..leading).chain(ones).map(|dim| dim as i64).collect();
    let sum = if dims.is_empty() {
        op::alias(self_)?
    } else {
        op::sum_dim_intlist(self_, Some(&dims), true, None)?
    };
    if leading > 0 { op::view(&sum, size) } else { Ok(sum) }
}

/// `length` positions of a dimension, from `start` on.
///
/// # Errors
/// `Index` or `Runtime` when the range is not within the dimension.
pub fn narrow(self_: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    let start = crate::any::view::narrow_start(self_, dim, start, length)?;
    op::slice_tensor(self_, dim, Some(start), Some(start + length), 1)
}

/// As [`narrow`], copied.
///
/// # Errors
/// As for [`narrow`].
pub fn narrow_copy(self_: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    if self_.is_sparse() {
        let start = crate::any::view::narrow_start(self_, dim, start, length)?;
        let (first, end, step) = (start.into(), (start + length).into(), 1.into());
        let (dtype, device) = (Some(DType::Int64), Some(self_.device()));
        let places = op::arange_start_step(first, end, step, dtype, None, device, None)?;
        return op::index_select(self_, dim, &places);
    }
    derived::copy(&op::narrow(self_, dim, start, length)?)
}

/// As [`narrow`], with the start in a tensor.
///
/// # Errors
/// Those of [`narrow`]; `Runtime` unless the start is an integer of rank 0.
pub fn narrow_tensor(self_: &Tensor, dim: i64, start: &Tensor, length: i64) -> Result<Tensor> {
    ensure!(
        start.dim() == 0 && start.dtype().is_integral(false),
        Runtime,
        "start must be an 0-dim integral Tensor."
    );
    op::narrow(self_, dim, op::item(start)?.to_i64(), length)
}

/// The tensor itself where it has the memory format, else a copy that has.
///
/// # Errors
/// `Runtime` for a format that the rank does not allow.
pub fn contiguous(self_: &Tensor, memory_format: MemoryFormat) -> Result<Tensor> {
    if self_.is_contiguous_for(memory_format) {
        return Ok(self_.clone());
    }
    ensure!(
        memory_format != MemoryFormat::Preserve,
        Runtime,
        "preserve memory format is unsupported by the contiguous operator"
    );
    op::clone(self_, Some(memory_format))
}
