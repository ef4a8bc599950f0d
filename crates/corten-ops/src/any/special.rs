//! Special functions with a gradient of their own.

use crate::Tensor;
use corten_core::Result;

/// The logarithm of the multivariate gamma function.
///
/// # Errors
/// `Runtime` for a dimension below 1, `NotImplemented` for complex numbers.
pub fn mvlgamma(self_: &Tensor, p: i64) -> Result<Tensor> {
    crate::composite::special::mvlgamma(self_, p)
}
