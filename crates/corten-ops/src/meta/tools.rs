//! Shapes of hashes.

use super::Reduce;
use crate::Tensor;
use crate::iter::allocate;
use corten_core::{DType, Result, ensure};

/// `hash_tensor`.
///
/// # Errors
/// `Runtime` for an unknown mode and for nothing to hash, `Index` for dimensions out of range.
pub fn hash_tensor(self_: &Tensor, dim: &[i64], keepdim: bool, mode: i64) -> Result<Tensor> {
    ensure!(mode == 0, Runtime, "Unknown hash_tensor mode: {mode}");
    if self_.numel() == 0 {
        ensure!(
            !dim.is_empty(),
            Runtime,
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify \
             the reduction dim with the 'dim' argument."
        );
        Reduce::over(self_, Some(dim), keepdim)?.check_not_empty("hash_tensor")?;
    }
    let reduce = Reduce::over_or_all(self_, Some(dim), keepdim)?;
    allocate(&reduce.shape(), None, DType::UInt64, self_.device())
}
