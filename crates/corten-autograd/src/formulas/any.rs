//! Formulas of no particular family.

use corten_core::{Result, Scalar, bail};
use corten_ops::{Tensor, op};

/// The gradient that nobody has derived yet.
///
/// # Errors
/// Always.
pub fn not_implemented(what: &str) -> Result<Tensor> {
    bail!(NotImplemented, "the derivative for '{what}' is not implemented.")
}

/// The conjugate; of real tensors, the tensor itself.
///
/// # Errors
/// Those of the operators.
pub fn conjugate(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype().is_complex() { op::conj(tensor) } else { Ok(tensor.clone()) }
}

/// The conjugate of a number.
pub fn conjugate_number(number: Scalar) -> Scalar {
    match number {
        Scalar::Complex(value) => Scalar::Complex(value.conj()),
        real => real,
    }
}
