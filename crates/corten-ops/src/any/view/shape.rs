//! Views that keep every element: order, number and size of dimensions.

use super::{geometry_of, with_geometry};
use crate::Tensor;
use corten_core::{Dims, Result, VersionCounter, bail, ensure, geometry};
use smallvec::{SmallVec, smallvec};

/// The tensor under another handle.
///
/// # Errors
/// `OutOfMemory`.
pub fn alias(self_: &Tensor) -> Result<Tensor> {
    if self_.is_sparse() || self_.is_sparse_compressed() {
        return Ok(self_.shallow_copy_and_detach(VersionCounter::Shared, true)?.into());
    }
    let (sizes, strides) = geometry_of(self_);
    with_geometry(self_, &sizes, &strides, self_.storage_offset())
}

/// The same elements in another shape, if strides can express it.
///
/// # Errors
/// `Runtime` when the numbers of elements differ or the layout does not allow it.
pub fn view(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    if let Some(view) = self_.view_in_order(size) {
        return Ok(view.into());
    }
    let sizes = geometry::infer_size(size, self_.numel())?;
    let (old_sizes, old_strides) = geometry_of(self_);
    let Some(strides) = geometry::compute_view_strides(&old_sizes, &old_strides, &sizes) else {
        bail!(
            Runtime,
            "view size is not compatible with input tensor's size and stride (at least one \
             dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    };
    with_geometry(self_, &sizes, &strides, self_.storage_offset())
}

/// As [`view`], for a fresh tensor: the result does not count as a view of it.
///
/// # Errors
/// Those of [`view`].
pub fn unsafe_view(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    view(self_, size)
}

/// Dimensions of size 1 repeated; -1 keeps a size.
///
/// # Errors
/// `Runtime` when a size other than 1 would change.
pub fn expand(self_: &Tensor, size: &[i64], _implicit: bool) -> Result<Tensor> {
    if let Some(view) = self_.view_expanded(size) {
        return Ok(view.into());
    }
    let (old_sizes, old_strides) = geometry_of(self_);
    ensure!(
        size.len() >= old_sizes.len(),
        Runtime,
        "expand({}{{{:?}}}, size={size:?}): the number of sizes provided ({}) must be greater or \
         equal to the number of dimensions in the tensor ({})",
        legacy_type(self_),
        old_sizes,
        size.len(),
        old_sizes.len()
    );
    let new = size.len() - old_sizes.len();
    let (mut sizes, mut strides): (Dims, Dims) = (size.into(), smallvec![0; size.len()]);
    for dim in (0..size.len()).rev() {
        let wanted = size[dim];
        if dim < new {
            // What PyTorch says of a number of elements below zero.
            let kept = wanted == -1 && !old_sizes.is_empty();
            ensure!(wanted >= 0 || kept, Runtime, "numel: integer multiplication overflow");
            ensure!(
                wanted >= 0,
                Runtime,
                "The expanded size of the tensor ({wanted}) isn't allowed in a leading, \
                 non-existing dimension {dim}"
            );
            // All strides over a rank-0 tensor are 0, also those of size 1.
            let inner = if dim + 1 < size.len() { sizes[dim + 1] * strides[dim + 1] } else { 0 };
            strides[dim] = if wanted == 1 { inner } else { 0 };
            continue;
        }
        let (old, stride) = (old_sizes[dim - new], old_strides[dim - new]);
        ensure!(
            wanted == -1 || wanted == old || old == 1,
            Runtime,
            "The expanded size of the tensor ({wanted}) must match the existing size ({old}) at \
             non-singleton dimension {dim}.  Target sizes: {size:?}.  Tensor sizes: {old_sizes:?}"
        );
        ensure!(wanted >= -1, Runtime, "numel: integer multiplication overflow");
        sizes[dim] = if wanted == -1 { old } else { wanted };
        strides[dim] = if sizes[dim] == old { stride } else { 0 };
    }
    with_geometry(self_, &sizes, &strides, self_.storage_offset())
}

/// The name of the tensor's type in messages of long ago: `torch.FloatTensor`.
fn legacy_type(self_: &Tensor) -> String {
    let (device, name) = (self_.device().device_type.name(), self_.dtype().type_name());
    if self_.dtype().is_complex() {
        return format!("{}{name}Type", device.to_ascii_uppercase());
    }
    let module = if self_.device().is_cpu() { String::new() } else { format!("{device}.") };
    format!("torch.{module}{name}Tensor")
}

/// Dimensions in another order.
///
/// # Errors
/// `Runtime` unless `dims` names every dimension once.
pub fn permute(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    const FEW: usize = 5;
    let mut order = [0; FEW];
    if let Some(order) = order.get_mut(..dims.len()) {
        for (from, &dim) in order.iter_mut().zip(dims) {
            // One below zero stays too large, and is left to what follows.
            *from = if dim < 0 { dim.wrapping_add(dims.len() as i64) } else { dim } as usize;
        }
        if let Some(view) = self_.view_permuted(order) {
            return Ok(view.into());
        }
    }
    let (old_sizes, old_strides) = geometry_of(self_);
    let rank = old_sizes.len();
    ensure!(
        dims.len() == rank,
        Runtime,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length \
         of the desired ordering of dimensions i.e. input.dim() = {rank} is not equal to \
         len(dims) = {}",
        dims.len()
    );
    let (mut sizes, mut strides): (Dims, Dims) = (Dims::new(), Dims::new());
    let mut seen: SmallVec<[bool; 8]> = smallvec![false; rank];
    for &dim in dims {
        let dim = geometry::wrap_dim(dim, rank)?;
        let repeated = std::mem::replace(&mut seen[dim], true);
        ensure!(!repeated, Runtime, "permute(): duplicate dims are not allowed.");
        sizes.push(old_sizes[dim]);
        strides.push(old_strides[dim]);
    }
    with_geometry(self_, &sizes, &strides, self_.storage_offset())
}

/// Two dimensions exchanged.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn transpose(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let rank = self_.dim();
    let (a, b) = (geometry::wrap_dim(dim0, rank)?, geometry::wrap_dim(dim1, rank)?);
    if let Some(view) = self_.view_transposed(a, b) {
        return Ok(view.into());
    }
    let (sizes, strides) = transposed(self_, dim0, dim1)?;
    with_geometry(self_, &sizes, &strides, self_.storage_offset())
}

pub(super) fn transposed(self_: &Tensor, dim0: i64, dim1: i64) -> Result<(Dims, Dims)> {
    let (mut sizes, mut strides) = geometry_of(self_);
    let (a, b) = (geometry::wrap_dim(dim0, sizes.len())?, geometry::wrap_dim(dim1, sizes.len())?);
    if a != b {
        sizes.swap(a, b);
        strides.swap(a, b);
    }
    Ok((sizes, strides))
}

/// A matrix transposed; vectors and scalars as they are.
///
/// # Errors
/// `Runtime` above rank 2.
pub fn t(self_: &Tensor) -> Result<Tensor> {
    check_matrix("t()", self_)?;
    if self_.dim() < 2 { alias(self_) } else { transpose(self_, 0, 1) }
}

pub(super) fn check_matrix(name: &str, self_: &Tensor) -> Result<()> {
    ensure!(
        self_.dim() <= 2,
        Runtime,
        "{name} expects a tensor with <= 2 dimensions, but self is {}D",
        self_.dim()
    );
    Ok(())
}

/// A dimension of size 1 inserted.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn unsqueeze(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let place = geometry::wrap_dim(dim, self_.dim() + 1)?;
    if let Some(view) = self_.view_unsqueezed(place) {
        return Ok(view.into());
    }
    let (sizes, strides) = unsqueezed(self_, dim)?;
    with_geometry(self_, &sizes, &strides, self_.storage_offset())
}

pub(super) fn unsqueezed(self_: &Tensor, dim: i64) -> Result<(Dims, Dims)> {
    let (mut sizes, mut strides) = geometry_of(self_);
    let dim = geometry::wrap_dim(dim, sizes.len() + 1)?;
    let stride = if dim < sizes.len() { sizes[dim] * strides[dim] } else { 1 };
    sizes.insert(dim, 1);
    strides.insert(dim, stride);
    Ok((sizes, strides))
}

/// All dimensions of size 1 dropped.
///
/// # Errors
/// `OutOfMemory`.
pub fn squeeze(self_: &Tensor) -> Result<Tensor> {
    let (sizes, strides) = squeezed(self_, |_| true);
    with_geometry(self_, &sizes, &strides, self_.storage_offset())
}

/// One dimension dropped if it has size 1.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn squeeze_dim(self_: &Tensor, dim: i64) -> Result<Tensor> {
    if let Ok(place) = usize::try_from(dim)
        && self_.size(dim).is_ok_and(|size| size == 1)
        && let Some(view) = self_.view_of_position(place, 0)
    {
        return Ok(view.into());
    }
    squeeze_dims(self_, &[dim])
}

/// The given dimensions dropped where they have size 1.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for one given twice.
pub fn squeeze_dims(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mask = dim_mask(dims, self_.dim())?;
    let (sizes, strides) = squeezed(self_, |dim| mask & (1 << dim) != 0);
    with_geometry(self_, &sizes, &strides, self_.storage_offset())
}

pub(super) fn squeezed(self_: &Tensor, asked: impl Fn(usize) -> bool) -> (Dims, Dims) {
    let (sizes, strides) = geometry_of(self_);
    let kept = (0..sizes.len()).filter(|&dim| sizes[dim] != 1 || !asked(dim));
    kept.map(|dim| (sizes[dim], strides[dim])).unzip()
}

/// The dimensions as a set of bits.
pub(super) fn dim_mask(dims: &[i64], rank: usize) -> Result<u64> {
    ensure!(rank <= u64::BITS as usize, Runtime, "only tensors with up to 64 dims are supported");
    let mut mask = 0_u64;
    for &dim in dims {
        let dim = geometry::wrap_dim(dim, rank)?;
        ensure!(
            mask & (1 << dim) == 0,
            Runtime,
            "dim {dim} appears multiple times in the list of dims"
        );
        mask |= 1 << dim;
    }
    Ok(mask)
}
