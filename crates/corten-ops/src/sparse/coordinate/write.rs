//! What changes a sparse tensor in place, and tensors without entries.

use super::parts::{check_dims, with_dims};
use crate::sparse::{Coo, store};
use crate::{Tensor, op};
use corten_core::{DType, Device, Layout, MemoryFormat, Result, bail, ensure};

/// Removes all entries.
///
/// # Errors
/// Those of making a tensor.
pub fn zero_(self_: &Tensor) -> Result<Tensor> {
    let sizes = self_.sizes();
    without_entries(&Coo::expect(self_, "zero_")?)?.put(self_, &sizes)?;
    Ok(self_.clone())
}

fn without_entries(parts: &Coo) -> Result<Coo> {
    let (indices, values) =
        (op::narrow_copy(&parts.indices, 1, 0, 0)?, op::narrow_copy(&parts.values, 0, 0, 0)?);
    Ok(Coo { indices, values, coalesced: true })
}

/// Takes over the size and copies of the entries of another sparse tensor.
///
/// # Errors
/// `Runtime` where one of the two is not sparse.
pub fn copy_(self_: &Tensor, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
    let (true, Some(parts)) = (self_.is_sparse(), Coo::of(src)) else {
        bail!(
            Runtime,
            "copy_() between dense and sparse Tensors is not implemented! Found self type = {} and src \
             type = {}",
            self_.layout(),
            src.layout()
        );
    };
    if self_.is_same(src) {
        return Ok(self_.clone());
    }
    let device = Some(self_.device());
    let copied = |part: &Tensor, dtype: DType| {
        op::_to_copy(part, Some(dtype), None, device, None, non_blocking, None)
    };
    let (indices, values) =
        (copied(&parts.indices, DType::Int64)?, copied(&parts.values, self_.dtype())?);
    Coo { indices, values, ..parts }.put(self_, &src.sizes())?;
    Ok(self_.clone())
}

const OPTIONS: &str = "
You could try the following options:
1. If you need an empty sparse tensor of this size, call `x = torch.sparse_coo_tensor(size)`.
2. If you need to resize this tensor, you have the following options:
    1. For both sparse and dense dimensions, keep the number of them constant and the size of them \
     non-shrinking, and then try the same call again.
    2. Or, create a new sparse tensor with the correct indices and values from this sparse tensor.";

fn check_growth(parts: &Coo, old: &[i64], size: &[i64], counts: [i64; 2]) -> Result<()> {
    for (kind, mine, wanted) in
        [("sparse", parts.sparse_dim(), counts[0]), ("dense", parts.dense_dim(), counts[1])]
    {
        ensure!(
            mine == wanted,
            Runtime,
            "changing the number of {kind} dimensions (from {mine} to {wanted}) on a non-empty sparse \
             tensor is not supported.{OPTIONS}"
        );
    }
    let split = counts[0] as usize;
    for (kind, old, new) in
        [("sparse", &old[..split], &size[..split]), ("dense", &old[split..], &size[split..])]
    {
        ensure!(
            old.iter().zip(new).all(|(old, new)| new >= old),
            Runtime,
            "shrinking the size of {kind} dimensions (from {old:?} to {new:?}) on a non-empty sparse \
             tensor is not supported.{OPTIONS}"
        );
    }
    Ok(())
}

/// Another size, which must not be smaller where there are entries. As of a dense tensor the values
/// stay where they are in memory; new ones are 0.
///
/// # Errors
/// `Runtime` where the size would shrink, or dimensions do not add up.
pub fn resize_(self_: &Tensor, size: &[i64], sparse_dim: i64, dense_dim: i64) -> Result<Tensor> {
    check_dims(sparse_dim, dense_dim, size)?;
    let parts = Coo::expect(self_, "sparse_resize_")?;
    if parts.nnz() == 0 {
        return resize_and_clear_(self_, size, sparse_dim, dense_dim);
    }
    check_growth(&parts, &self_.sizes(), size, [sparse_dim, dense_dim])?;
    let mut shape = vec![parts.nnz()];
    shape.extend_from_slice(&size[sparse_dim as usize..]);
    let values = if parts.values.sizes().as_slice() == shape {
        parts.values.clone()
    } else {
        let device = Some(parts.values.device());
        let larger = op::zeros(&shape, Some(parts.values.dtype()), None, device, None)?;
        let start = op::narrow(&op::view(&larger, &[-1])?, 0, 0, parts.values.numel())?;
        op::copy_(&start, &op::reshape(&parts.values, &[-1])?, false)?;
        larger
    };
    Coo { values, ..parts }.put(self_, size)?;
    Ok(self_.clone())
}

/// Another size, without entries.
///
/// # Errors
/// `Runtime` where dimensions do not add up.
pub fn resize_and_clear_(
    self_: &Tensor,
    size: &[i64],
    sparse_dim: i64,
    dense_dim: i64,
) -> Result<Tensor> {
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    let empty = with_dims(sparse_dim, dense_dim, size, dtype, None, device, None)?;
    store(self_, &empty)
}

/// The size of another sparse tensor.
///
/// # Errors
/// As [`resize_`].
pub fn resize_as_sparse_(self_: &Tensor, the_template: &Tensor) -> Result<Tensor> {
    let Some(parts) = Coo::of(the_template).filter(|_| self_.is_sparse()) else {
        bail!(
            Runtime,
            "resize_as_sparse_: self and other are expected to be sparse coordinate tensors, but got {} \
             and {}",
            self_.layout(),
            the_template.layout()
        );
    };
    resize_(self_, &the_template.sizes(), parts.sparse_dim(), parts.dense_dim())
}

/// A tensor without entries of the size of another one.
///
/// # Errors
/// `Runtime` for a memory format, which such tensors do not have.
pub fn empty_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
    let sizes = self_.sizes();
    if let Some(layout) = layout.filter(|&layout| layout != Layout::Sparse) {
        let format = memory_format.filter(|&format| format != MemoryFormat::Preserve);
        return op::empty_memory_format(
            &sizes,
            Some(dtype),
            Some(layout),
            Some(device),
            pin_memory,
            format,
        );
    }
    ensure!(
        memory_format.is_none_or(|format| format == MemoryFormat::Preserve),
        Runtime,
        "memory format option is only supported by strided tensors"
    );
    let (sparse_dim, dense_dim) = (op::sparse_dim(self_)?, op::dense_dim(self_)?);
    with_dims(sparse_dim, dense_dim, &sizes, Some(dtype), None, Some(device), None)
}

/// A tensor of zeros of the size of another one.
///
/// # Errors
/// As [`empty_like`].
pub fn zeros_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let made = empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    if made.layout() == Layout::Strided { op::zero_(&made) } else { Ok(made) }
}

/// Zeros: a tensor without entries.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn zeros(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    super::parts::empty(size, dtype, layout, device, pin_memory, None)
}

/// A tensor without entries of another size, with the dtype and device of a given one.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn new_empty(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let layout = layout.unwrap_or(self_.layout());
    let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
    op::empty_memory_format(size, Some(dtype), Some(layout), Some(device), pin_memory, None)
}

/// [`new_empty`] of zeros.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn new_zeros(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let layout = layout.unwrap_or(self_.layout());
    let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
    op::zeros(size, Some(dtype), Some(layout), Some(device), pin_memory)
}
