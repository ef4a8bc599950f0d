//! Operators that are computed by the values of the entries alone: what is zero stays zero.

use super::{Compressed, Coo, coordinate::entries};
use crate::Tensor;
use corten_core::{Result, bail, ensure};

/// The entries with other values. In coordinate format the values at the same place are added up first.
///
/// # Errors
/// Those of `compute`.
pub fn of_values(
    self_: &Tensor,
    compute: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let sizes = self_.sizes();
    if let Some(parts) = Coo::of(self_) {
        let parts = entries::coalesced(&parts, &sizes)?;
        return Coo { values: compute(&parts.values)?, ..parts }.tensor(&sizes);
    }
    match Compressed::of(self_) {
        Some(parts) => Compressed { values: compute(&parts.values)?, ..parts }.tensor(&sizes),
        None => bail!(Runtime, "expected a sparse tensor, but got layout {}", self_.layout()),
    }
}

/// The entries with other values, whether their places differ or not: for linear operators.
///
/// # Errors
/// Those of `compute`.
pub fn of_raw_values(
    self_: &Tensor,
    compute: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let Some(parts) = Coo::of(self_) else { return of_values(self_, compute) };
    Coo { values: compute(&parts.values)?, ..parts }.tensor(&self_.sizes())
}

/// Writes to the values of the entries, whose places must differ.
///
/// # Errors
/// `Runtime` for a tensor that is not coalesced; those of `write`.
pub fn write_values(
    self_: &Tensor,
    operator: &str,
    write: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let values = if let Some(parts) = Coo::of(self_) {
        ensure!(parts.coalesced, Runtime, "{operator} requires coalesced input");
        parts.values
    } else {
        match Compressed::of(self_) {
            Some(parts) => parts.values,
            None => bail!(Runtime, "expected a sparse tensor, but got layout {}", self_.layout()),
        }
    };
    write(&values)?;
    Ok(self_.clone())
}
