//! Gradients of special functions.

use corten_core::{Result, Scalar};
use corten_ops::composite::special::mvlgamma_arguments;
use corten_ops::{Tensor, op};

/// `lower - result / x`, the slope of functions of order 1 in terms of order 0; 1/2 at zero.
///
/// # Errors
/// Those of the operators.
pub fn order_one_slope(x: &Tensor, lower: &Tensor, result: &Tensor) -> Result<Tensor> {
    let zero = op::eq_scalar(x, Scalar::Int(0))?;
    let slope = (lower - result / away_from_zero(x, &zero)?)?;
    op::where_scalarself(&zero, Scalar::Float(0.5), &slope)
}

/// As [`order_one_slope`] for functions times exp(-|x|).
///
/// # Errors
/// Those of the operators.
pub fn scaled_order_one_slope(x: &Tensor, lower: &Tensor, result: &Tensor) -> Result<Tensor> {
    let zero = op::eq_scalar(x, Scalar::Int(0))?;
    let away = away_from_zero(x, &zero)?;
    let factor = op::add_tensor(&op::sgn(x)?, &op::reciprocal(&away)?, Scalar::Int(1))?;
    let slope = (lower - result * factor)?;
    op::where_scalarself(&zero, Scalar::Float(0.5), &slope)
}

/// As [`order_one_slope`] for functions that are infinite at zero.
///
/// # Errors
/// Those of the operators.
pub fn singular_slope(x: &Tensor, lower: &Tensor, result: &Tensor) -> Result<Tensor> {
    let zero = op::eq_scalar(x, Scalar::Int(0))?;
    let slope = (lower - result / x)?;
    op::where_scalarself(&zero, Scalar::Float(f64::INFINITY), &slope)
}

/// The tensor with ones in place of zeros, so that no gradient meets a division by zero.
fn away_from_zero(x: &Tensor, zero: &Tensor) -> Result<Tensor> {
    op::where_scalarself(zero, Scalar::Float(1.0), x)
}

/// The gradient of `mvlgamma`.
///
/// # Errors
/// Those of the operators.
pub fn mvlgamma_grad(grad: &Tensor, self_: &Tensor, p: i64) -> Result<Tensor> {
    let slopes = op::digamma(&mvlgamma_arguments(self_, p)?)?;
    grad * op::sum_dim_intlist(&slopes, Some(&[-1]), false, None)?
}

/// log(1 + y), 0 where x is 0 and y at most -1.
///
/// # Errors
/// Those of the operators.
pub fn xlog1py_self_grad(grad: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let at_zero = self_.eq_scalar(0)?.logical_and(&other.le_scalar(-1)?)?;
    op::masked_fill_scalar(&op::special_xlog1py(grad, other)?, &at_zero, Scalar::Int(0))
}

/// The gradients of `_prelu_kernel`.
///
/// # Errors
/// Those of the operators.
pub fn prelu_grads(
    needs: &[bool],
    grad: &Tensor,
    self_: &Tensor,
    weight: &Tensor,
) -> Result<Vec<Tensor>> {
    let (to_self, to_weight) = op::_prelu_kernel_backward(grad, self_, weight)?;
    let both = [to_self, to_weight].into_iter().zip(needs);
    Ok(both.map(|(grad, &needed)| if needed { grad } else { Tensor::undefined() }).collect())
}

/// The gradients of `_prelu_kernel_backward`.
///
/// # Errors
/// Those of the operators.
pub fn prelu_double_grads(
    needs: &[bool],
    grads: &[Tensor],
    grad_output: &Tensor,
    self_: &Tensor,
    weight: &Tensor,
) -> Result<Vec<Tensor>> {
    let positive = op::gt_scalar(self_, Scalar::Int(0))?;
    let below = |tensor: Tensor| op::masked_fill_scalar(&tensor, &positive, Scalar::Int(0));
    let given = |i: usize| grads.get(i).filter(|grad| grad.defined());
    let add = |a: Option<Tensor>, b: Option<Tensor>| match (a, b) {
        (Some(a), Some(b)) => a + b,
        (a, b) => Ok(a.or(b).unwrap_or_else(Tensor::undefined)),
    };
    let mut results = vec![Tensor::undefined(); 3];
    if needs[0] {
        let slopes = op::where_self(
            &positive,
            &op::ones_like(weight, None, None, None, None, None)?,
            weight,
        )?;
        let from_self = given(0).map(|grad| grad * slopes).transpose()?;
        let from_weight = given(1).map(|grad| below((grad * self_)?)).transpose()?;
        results[0] = add(from_self, from_weight)?;
    }
    if needs[1]
        && let Some(grad) = given(1)
    {
        results[1] = below((grad * grad_output)?)?;
    }
    if needs[2]
        && let Some(grad) = given(0)
    {
        results[2] = below((grad * grad_output)?)?;
    }
    Ok(results)
}
