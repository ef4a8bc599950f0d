//! Views of some elements: positions, ranges, diagonals, windows.

use super::{geometry_of, with_geometry};
use crate::Tensor;
use corten_core::{Result, ensure, geometry};

/// One position of a dimension, which goes.
///
/// # Errors
/// `Index` for a dimension or position out of range.
pub fn select(self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    if let Ok(dim) = usize::try_from(dim)
        && let Some(view) = self_.view_of_position(dim, index)
    {
        return Ok(view.into());
    }
    let (mut sizes, mut strides) = geometry_of(self_);
    ensure!(!sizes.is_empty(), Index, "select() cannot be applied to a 0-dim tensor.");
    let dim = geometry::wrap_dim(dim, sizes.len())?;
    let index = selected(&sizes, dim, dim as i64, index)?;
    let offset = self_.storage_offset() + index * strides[dim];
    sizes.remove(dim);
    strides.remove(dim);
    with_geometry(self_, &sizes, &strides, offset)
}

/// The position that an index of `select` means in a dimension, which messages call `shown`.
///
/// # Errors
/// `Index` for a position that there is not.
pub(crate) fn selected(sizes: &[i64], dim: usize, shown: i64, index: i64) -> Result<i64> {
    let size = sizes[dim];
    ensure!(
        -size <= index && index < size,
        Index,
        "select(): index {index} out of range for tensor of size {sizes:?} at dimension {shown}"
    );
    Ok(if index < 0 { index + size } else { index })
}

/// Every `step`-th position of a range of a dimension; bounds are clamped.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for a step that is not positive.
pub fn slice(
    self_: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    if step > 0
        && let Ok(place) = usize::try_from(dim)
        && let Ok(size) = self_.size(dim)
    {
        let (start, end) = clamped_range(size, start, end);
        if let Some(view) = self_.view_of_range(place, start, stepped(start, end, step), step) {
            return Ok(view.into());
        }
    }
    let (mut sizes, mut strides) = geometry_of(self_);
    ensure!(!sizes.is_empty(), Index, "slice() cannot be applied to a 0-dim tensor.");
    let dim = geometry::wrap_dim(dim, sizes.len())?;
    ensure!(step > 0, Runtime, "slice step must be positive");
    let size = sizes[dim];
    let (start, end) = clamped_range(size, start, end);
    let offset = self_.storage_offset() + start * strides[dim];
    sizes[dim] = stepped(start, end, step);
    strides[dim] = strides[dim].wrapping_mul(step);
    with_geometry(self_, &sizes, &strides, offset)
}

/// How many positions there are from `start` to `end`, every `step`-th.
fn stepped(start: i64, end: i64, step: i64) -> i64 {
    (end - start).saturating_add(step - 1) / step
}

/// The range of positions that `start` and `end` mean.
pub(crate) fn clamped_range(size: i64, start: Option<i64>, end: Option<i64>) -> (i64, i64) {
    let wrap = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
    let start = wrap(start.unwrap_or(0)).clamp(0, size);
    let end = wrap(end.unwrap_or(i64::MAX)).clamp(start, size);
    (start, end)
}

/// The first position of a narrowed dimension, checked.
pub(crate) fn narrow_start(self_: &Tensor, dim: i64, start: i64, length: i64) -> Result<i64> {
    ensure!(self_.dim() > 0, Runtime, "narrow() cannot be applied to a 0-dim tensor.");
    ensure!(length >= 0, Runtime, "narrow(): length must be non-negative.");
    let size = self_.size(dim)?;
    ensure!(
        -size <= start && start <= size,
        Index,
        "start out of range (expected to be in range of [{}, {size}], but got {start})",
        -size
    );
    let start = if start < 0 { start + size } else { start };
    ensure!(
        start <= size - length,
        Runtime,
        "start ({start}) + length ({length}) exceeds dimension size ({size})."
    );
    Ok(start)
}

/// The diagonal of two dimensions, which becomes the last dimension.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` when they are the same.
pub fn diagonal(self_: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let (mut sizes, mut strides) = geometry_of(self_);
    let rank = sizes.len();
    let (a, b) = (geometry::wrap_dim(dim1, rank)?, geometry::wrap_dim(dim2, rank)?);
    ensure!(a != b, Runtime, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    let length = if offset >= 0 {
        sizes[a].min(sizes[b].saturating_sub(offset))
    } else {
        sizes[a].saturating_add(offset).min(sizes[b])
    };
    let length = length.max(0);
    let skipped = match (length > 0, offset >= 0) {
        (false, _) => 0,
        (true, true) => offset * strides[b],
        (true, false) => -offset * strides[a],
    };
    let start = self_.storage_offset() + skipped;
    let stride = strides[a] + strides[b];
    for dim in [a.max(b), a.min(b)] {
        sizes.remove(dim);
        strides.remove(dim);
    }
    sizes.push(length);
    strides.push(stride);
    with_geometry(self_, &sizes, &strides, start)
}

/// Windows of a dimension, `step` apart, as an additional last dimension.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for a window or step that does not fit.
pub fn unfold(self_: &Tensor, dimension: i64, size: i64, step: i64) -> Result<Tensor> {
    let (mut sizes, mut strides) = geometry_of(self_);
    let rank = sizes.len();
    let dim = geometry::wrap_dim(dimension, rank)?;
    let (whole, stride) = if rank == 0 { (1, 1) } else { (sizes[dim], strides[dim]) };
    ensure!(size >= 0, Runtime, "size is {size} but must be >= 0");
    ensure!(
        size <= whole,
        Runtime,
        "maximum size for tensor at dimension {dim} is {whole} but size is {size}"
    );
    ensure!(step > 0, Runtime, "step is {step} but must be > 0");
    if rank > 0 {
        sizes[dim] = (whole - size) / step + 1;
        // A step beyond the storage leaves one window, whose stride no element needs.
        strides[dim] = stride.wrapping_mul(step);
    }
    sizes.push(size);
    strides.push(stride);
    with_geometry(self_, &sizes, &strides, self_.storage_offset())
}
