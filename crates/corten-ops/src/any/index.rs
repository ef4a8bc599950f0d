//! Writing by index.

use crate::{Tensor, op};
use corten_core::{DType, Result, ensure};

/// Writes or adds values at the elements that index tensors select.
///
/// # Errors
/// Those of `index_put_`.
pub fn index_put_impl_(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
    _unsafe: bool,
) -> Result<Tensor> {
    op::index_put_(self_, indices, values, accumulate)
}

/// As `nonzero`, cut off or filled up to `size` rows.
///
/// # Errors
/// `Runtime` for a negative size, and those of `nonzero`.
pub fn nonzero_static(self_: &Tensor, size: i64, fill_value: i64) -> Result<Tensor> {
    ensure!(size >= 0, Runtime, "nonzero_static: 'size' must be an non-negative integer");
    let (rank, device) = (self_.dim() as i64, Some(self_.device()));
    let rows = op::full(&[size, rank], fill_value.into(), Some(DType::Int64), None, device, None)?;
    if self_.device().is_meta() {
        return Ok(rows);
    }
    let found = op::nonzero(self_)?;
    let count = size.min(found.size(0)?);
    op::copy_(&op::narrow(&rows, 0, 0, count)?, &op::narrow(&found, 0, 0, count)?, false)?;
    Ok(rows)
}
