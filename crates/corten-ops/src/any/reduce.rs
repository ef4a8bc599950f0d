//! Reductions that are made of others, with a gradient of their own.

use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, default_dtype};

/// The logarithm of the sum of exponentials; the maximum is taken out first.
///
/// # Errors
/// Those of the operators.
pub fn logsumexp(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let input = match self_.dtype().is_integral(true) {
        true => op::to_dtype(self_, default_dtype(), false, false, None)?,
        false => self_.clone(),
    };
    if input.numel() == 0 {
        return op::log(&op::sum_dim_intlist(&op::exp(&input)?, Some(dim), keepdim, None)?);
    }
    let real = match input.dtype().is_complex() {
        true => op::real(&input)?,
        false => input.clone(),
    };
    let greatest = op::amax(&real, dim, true)?;
    // An infinite maximum would turn infinities into NaN.
    let infinite = op::isinf(&greatest)?;
    let greatest = op::masked_fill_scalar(&greatest, &infinite, Scalar::Int(0))?;
    let shifted = op::sub_tensor(&input, &greatest, Scalar::Int(1))?;
    let sum = op::sum_dim_intlist(&op::exp(&shifted)?, Some(dim), true, None)?;
    let result = op::add_tensor(&op::log(&sum)?, &greatest, Scalar::Int(1))?;
    match keepdim {
        true => Ok(result),
        false => squeezed(&result, dim),
    }
}

/// Without the dimensions that a reduction kept with size 1.
fn squeezed(tensor: &Tensor, dim: &[i64]) -> Result<Tensor> {
    match dim.is_empty() {
        true => op::reshape(tensor, &[]),
        false => op::squeeze_dims(tensor, dim),
    }
}

/// How many elements are not zero, over some dimensions.
///
/// # Errors
/// Those of the operators.
pub fn count_nonzero_dims(self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    let nonzero = match self_.dtype() {
        DType::Bool => self_.clone(),
        _ => op::ne_scalar(self_, Scalar::Int(0))?,
    };
    op::sum_dim_intlist(&nonzero, Some(dim), false, Some(DType::Int64))
}

/// How many elements are not zero, along a dimension or of all.
///
/// # Errors
/// Those of the operators.
pub fn count_nonzero(self_: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    match dim {
        Some(dim) => count_nonzero_dims(self_, &[dim]),
        None => count_nonzero_dims(self_, &[]),
    }
}

/// The norm of the difference of two tensors.
///
/// # Errors
/// Those of the operators.
pub fn dist(self_: &Tensor, other: &Tensor, p: Scalar) -> Result<Tensor> {
    let difference = op::sub_tensor(self_, other, Scalar::Int(1))?;
    op::linalg_vector_norm(&difference, p, None, false, None)
}
