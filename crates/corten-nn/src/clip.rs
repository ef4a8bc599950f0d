//! Limiting gradients.

use corten_autograd::{Autograd, no_grad};
use corten_core::{Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// Options of [`clip_grad_norm_with`].
///
/// ```
/// assert_eq!(corten::nn::ClipGradOptions::default().norm_type, 2.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClipGradOptions {
    /// The order of the norm; infinity for the largest element.
    pub norm_type: f64,
    /// Whether a norm that is not finite is an error.
    pub error_if_nonfinite: bool,
}

impl Default for ClipGradOptions {
    fn default() -> Self {
        Self { norm_type: 2.0, error_if_nonfinite: false }
    }
}

/// Scales all gradients so that their total 2-norm is at most `max_norm`; returns the norm.
///
/// # Errors
/// Those of the operators.
pub fn clip_grad_norm_(parameters: &[Tensor], max_norm: f64) -> Result<Tensor> {
    clip_grad_norm_with(parameters, max_norm, ClipGradOptions::default())
}

/// Scales all gradients so that their total norm is at most `max_norm`; returns the norm.
///
/// # Errors
/// `Runtime` for a norm that is not finite where that is asked for; those of the operators.
#[doc = example!("let layer = Linear::new(2, 1)?;
layer.forward(&op::ones(&[4, 2], None, None, None, None)?)?.sum()?.backward()?;
let options = ClipGradOptions { norm_type: f64::INFINITY, ..Default::default() };
let largest = clip_grad_norm_with(&layer.parameters(), 1.0, options)?;
assert_eq!(largest.to_element::<f32>()?, 4.0);
assert!(layer.weight.grad().unwrap().to_vec::<f32>()?[0] <= 1.0);")]
pub fn clip_grad_norm_with(
    parameters: &[Tensor],
    max_norm: f64,
    options: ClipGradOptions,
) -> Result<Tensor> {
    let grads: Vec<Tensor> = parameters.iter().filter_map(Autograd::grad).collect();
    let total = total_norm(&grads, options)?;
    scale_down(&grads, max_norm, &total)?;
    Ok(total)
}

/// The norm of the norms of tensors, on the device of the first; 0 where there are none.
///
/// # Errors
/// As [`clip_grad_norm_with`].
#[doc = example!("let tensors = [tensor![3.0]?, tensor![0.0, 4.0]?];
assert_eq!(total_norm(&tensors, ClipGradOptions::default())?.to_element::<f32>()?, 5.0);")]
pub fn total_norm(tensors: &[Tensor], options: ClipGradOptions) -> Result<Tensor> {
    let ClipGradOptions { norm_type, error_if_nonfinite } = options;
    let Some(device) = tensors.first().map(|tensor| tensor.device()) else {
        return op::zeros(&[], None, None, None, None);
    };
    let norm = |tensor: &Tensor| {
        op::linalg_vector_norm(tensor, Scalar::Float(norm_type), None, false, None)
    };
    no_grad(|| {
        let norms = tensors.iter().map(|tensor| {
            let norm = norm(tensor)?;
            op::to_device(&norm, device, norm.dtype(), false, false, None)
        });
        let total = norm(&op::stack(&norms.collect::<Result<Vec<_>>>()?, 0)?)?;
        ensure!(
            !error_if_nonfinite || op::item(&total)?.to_f64().is_finite(),
            Runtime,
            "The total norm of order {norm_type:?} for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        );
        Ok(total)
    })
}

/// Scales the gradients by which a norm of theirs is larger than `max_norm`.
fn scale_down(grads: &[Tensor], max_norm: f64, total: &Tensor) -> Result<()> {
    no_grad(|| {
        let factor = (max_norm / (total + 1e-6)?)?;
        let factor = op::clamp(&factor, None, Some(Scalar::Float(1.0)))?;
        grads.iter().try_for_each(|grad| {
            let factor = op::to_device(&factor, grad.device(), factor.dtype(), false, false, None)?;
            op::mul__tensor(grad, &factor).map(drop)
        })
    })
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
