//! Formulas of no particular family.

use corten_core::{Error, MemoryFormat, Result, Scalar, bail, err};
use corten_ops::{Tensor, batched, op};

/// The gradient that nobody has derived: of an operator, or with a colon, of one argument.
///
/// # Errors
/// Always.
pub fn not_implemented(_grad: &Tensor, what: &str) -> Result<Tensor> {
    Err(underived(what))
}

/// [`not_implemented`] for all arguments at once.
///
/// # Errors
/// Always.
pub fn gradients_not_implemented(_needs: &[bool], what: &str) -> Result<Vec<Tensor>> {
    Err(underived(what))
}

fn underived(what: &str) -> Error {
    if what.contains(':') {
        return err!(NotImplemented, "the derivative for '{what}' is not implemented.");
    }
    err!(NotImplemented, "derivative for aten::{what} is not implemented")
}

/// The gradient of an operator that has none.
///
/// # Errors
/// Always.
pub fn no_derivative(_grad: &Tensor, what: &str) -> Result<Tensor> {
    bail!(NotImplemented, "the derivative for '{what}' is not implemented.")
}

/// The conjugate of a number.
pub(crate) fn conjugate_number(number: Scalar) -> Scalar {
    match number {
        Scalar::Complex(value) => Scalar::Complex(value.conj()),
        real => real,
    }
}

pub(crate) fn zeros_like(tensor: &Tensor) -> Result<Tensor> {
    op::zeros_like(tensor, None, None, None, None, Some(MemoryFormat::Preserve))
}

/// `tensor` with zeros where the mask is true.
pub(crate) fn zero_where(tensor: &Tensor, mask: &Tensor) -> Result<Tensor> {
    op::masked_fill_scalar(tensor, mask, Scalar::Int(0))
}

/// `tensor` with zeros where the mask is false.
pub(crate) fn keep_where(tensor: &Tensor, mask: &Tensor) -> Result<Tensor> {
    zero_where(tensor, &op::logical_not(mask)?)
}

/// Multiplied with the conjugate of a number.
///
/// # Errors
/// Those of the operators.
pub fn scaled(grad: &Tensor, factor: Scalar) -> Result<Tensor> {
    if matches!(factor, Scalar::Int(1)) {
        return Ok(grad.clone());
    }
    op::mul_scalar(grad, conjugate_number(factor))
}

/// Whether any of these is true; without data none is.
pub(crate) fn has_any(these: &Tensor) -> Result<bool> {
    Ok(!these.device().is_meta() && op::item(&op::any(&batched::all_items(these))?)?.to_bool())
}
