//! Limiting gradients.

use corten_autograd::{Autograd, no_grad};
use corten_core::{Result, Scalar};
use corten_ops::{Tensor, op};

/// Scales all gradients so that their total 2-norm is at most `max_norm`; returns the norm.
///
/// # Errors
/// Those of the operators.
pub fn clip_grad_norm_(parameters: &[Tensor], max_norm: f64) -> Result<Tensor> {
    let grads: Vec<Tensor> = parameters.iter().filter_map(Autograd::grad).collect();
    no_grad(|| {
        let norms: Vec<Tensor> = grads.iter().map(norm).collect::<Result<_>>()?;
        if norms.is_empty() {
            return op::zeros(&[], None, None, None, None);
        }
        let total = norm(&op::stack(&norms, 0)?)?;
        let factor = (max_norm / (&total + 1e-6)?)?;
        let factor = op::clamp(&factor, None, Some(Scalar::Float(1.0)))?;
        grads.iter().try_for_each(|grad| op::mul__tensor(grad, &factor).map(drop))?;
        Ok(total)
    })
}

fn norm(tensor: &Tensor) -> Result<Tensor> {
    op::linalg_vector_norm(tensor, Scalar::Float(2.0), None, false, None)
}

/// Clamps every gradient element to `[-limit, limit]`.
///
/// # Errors
/// Those of the operator.
pub fn clip_grad_value_(parameters: &[Tensor], limit: f64) -> Result<()> {
    let (low, high) = (Some(Scalar::Float(-limit)), Some(Scalar::Float(limit)));
    no_grad(|| {
        parameters
            .iter()
            .filter_map(Autograd::grad)
            .try_for_each(|grad| op::clamp_(&grad, low, high).map(drop))
    })
}
