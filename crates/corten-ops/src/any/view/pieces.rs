//! Several views of one tensor.

use super::select::select;
use super::{geometry_of, with_geometry};
use crate::{Tensor, op};
use corten_core::{Dims, Result, ensure, geometry, try_with_capacity};

/// All positions of a dimension, one view each.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn unbind(self_: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let wrapped = geometry::wrap_dim(dim, self_.dim())?;
    ensure!(
        self_.dim() > 0,
        Index,
        "Dimension specified as {wrapped} but tensor has no dimensions"
    );
    let size = self_.size(dim)?;
    let mut pieces = room_for_pieces(size as usize)?;
    for index in 0..size {
        pieces.push(select(self_, dim, index)?);
    }
    Ok(pieces)
}

/// Pieces of `split_size` positions; the last one may be shorter.
///
/// # Errors
/// `Runtime` for a size that is negative, or zero on a dimension that is not empty.
pub fn split(self_: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(self_.dim() != 0, Runtime, "split expects at least a 1-dimensional tensor");
    ensure!(
        split_size >= 0,
        Runtime,
        "split expects split_size be non-negative, but got split_size={split_size}"
    );
    let size = self_.size(dim)?;
    ensure!(
        split_size > 0 || size == 0,
        Runtime,
        "split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
    );
    let count =
        if split_size == 0 { 1 } else { (size.saturating_add(split_size - 1) / split_size).max(1) };
    let rest = size - split_size.saturating_mul(count - 1);
    let piece = |i| if i < count - 1 { split_size } else { rest };
    pieces(self_, dim, (0..count).map(piece))
}

/// Pieces of the given numbers of positions.
///
/// # Errors
/// `Runtime` when a size is negative or they do not add up to the dimension.
pub fn split_with_sizes(self_: &Tensor, split_sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    ensure!(self_.dim() != 0, Runtime, "split expects at least a 1-dimensional tensor");
    let size = self_.size(dim)?;
    ensure!(
        split_sizes.iter().all(|&piece| piece >= 0),
        Runtime,
        "split_with_sizes expects split_sizes have only non-negative entries, but got \
         split_sizes={split_sizes:?}"
    );
    ensure!(
        split_sizes.iter().try_fold(0i64, |sum, &piece| sum.checked_add(piece)) == Some(size),
        Runtime,
        "split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at \
         dimension {dim}), but got split_sizes={split_sizes:?}"
    );
    pieces(self_, dim, split_sizes.iter().copied())
}

fn pieces(self_: &Tensor, dim: i64, lengths: impl Iterator<Item = i64>) -> Result<Vec<Tensor>> {
    let mut pieces = room_for_pieces(lengths.size_hint().0)?;
    let (mut sizes, strides): (Dims, Dims) = geometry_of(self_);
    let dim = geometry::wrap_dim(dim, sizes.len())?;
    let mut offset = self_.storage_offset();
    for length in lengths {
        sizes[dim] = length;
        pieces.push(with_geometry(self_, &sizes, &strides, offset)?);
        offset = offset.wrapping_add(length.wrapping_mul(strides[dim]));
    }
    Ok(pieces)
}

/// Room for a list of pieces. Many of them are an error rather than the end of the process where there
/// is no memory for the tensors either.
///
/// # Errors
/// `Runtime` when there is not as much memory.
pub(crate) fn room_for_pieces(count: usize) -> Result<Vec<Tensor>> {
    /// More than a list of this length is rare.
    const MANY: usize = 1 << 12;
    /// What a view and its handle take, generously.
    const BYTES: usize = 512;
    if count > MANY {
        drop(try_with_capacity::<[u8; BYTES]>(count)?);
    }
    try_with_capacity(count)
}

/// Writes copies of views into as many tensors; another dtype is refused where `exact` says so.
fn write_copies(name: &str, views: &[Tensor], out: &[Tensor], exact: bool) -> Result<()> {
    ensure!(
        views.len() == out.len(),
        Runtime,
        "{name} expected an out= argument of size {}, got size {}",
        views.len(),
        out.len()
    );
    for (view, out) in views.iter().zip(out) {
        match exact {
            true => crate::derived::write_exact_out(out, view)?,
            false => crate::derived::write_out(out, view)?,
        };
    }
    Ok(())
}

/// Copies of the slices of one dimension, into given tensors.
///
/// # Errors
/// Those of [`unbind`]; `Runtime` for another number of tensors or another dtype.
pub fn unbind_copy_out(self_: &Tensor, dim: i64, out: &[Tensor]) -> Result<()> {
    write_copies("unbind_copy_int_out", &op::unbind_int(self_, dim)?, out, true)
}

/// Copies of pieces of one size, into given tensors.
///
/// # Errors
/// Those of `split`; `Runtime` for another number of tensors.
pub fn split_copy_out(self_: &Tensor, split_size: i64, dim: i64, out: &[Tensor]) -> Result<()> {
    let views = op::split_tensor(self_, split_size, dim)?;
    write_copies("split_copy_Tensor_out()", &views, out, false)
}

/// Copies of pieces of given sizes, into given tensors.
///
/// # Errors
/// Those of [`split_with_sizes`]; `Runtime` for another number of tensors or another dtype.
pub fn split_with_sizes_copy_out(
    self_: &Tensor,
    split_sizes: &[i64],
    dim: i64,
    out: &[Tensor],
) -> Result<()> {
    let views = op::split_with_sizes(self_, split_sizes, dim)?;
    write_copies("split_with_sizes_copy_out", &views, out, true)
}
