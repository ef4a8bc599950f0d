//! Shapes of special functions.

use super::{Domain, Promote, pointwise};
use crate::Tensor;
use crate::iter::{TensorIterator, allocate_like};
use corten_core::{DType, Result, ensure};

/// `polygamma`.
///
/// # Errors
/// `Runtime` for a negative order, and those of [`pointwise`].
pub fn polygamma(n: i64, self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    ensure!(n >= 0, Runtime, "polygamma(n, x) does not support negative n.");
    pointwise("polygamma", Promote::Float, Domain::Float, &[self_], out)
}

/// `frexp`.
///
/// # Errors
/// `Runtime` for dtypes other than floating point.
pub fn frexp(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let floating = self_.dtype().is_floating_point();
    ensure!(floating, Runtime, "torch.frexp() only supports floating-point dtypes");
    Ok((allocate_like(self_, self_.dtype())?, allocate_like(self_, DType::Int32)?))
}
