//! Stochastic gradient descent.

use super::{Rule, decayed, step_all};
use crate::vec::Lanes;
use corten_core::{Result, try_vec};
use corten_ops::Tensor;

/// A step of stochastic gradient descent, which begins the momentum with the gradient if it is the
/// first.
///
/// # Errors
/// `Runtime` where the lists do not belong together; `NotImplemented` for dtypes that are not
/// floating-point.
pub fn fused_sgd_(
    self_: &[Tensor],
    grads: &[Tensor],
    momentum_buffer_list: &[Tensor],
    weight_decay: f64,
    momentum: f64,
    lr: f64,
    dampening: f64,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let step = SgdStep { weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step };
    let (scaling, rules) = ([grad_scale, found_inf], || try_vec(step, self_.len()));
    match momentum == 0.0 {
        true => step_all(NAME, [self_, grads], scaling, rules),
        false => step_all(NAME, [self_, grads, momentum_buffer_list], scaling, rules),
    }
}

const NAME: &str = "fused_sgd";

#[derive(Clone, Copy)]
struct SgdStep {
    weight_decay: f64,
    momentum: f64,
    lr: f64,
    dampening: f64,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
}

impl Rule<2> for SgdStep {
    #[inline(always)]
    fn moved<V: Lanes>(&self, [param, grad]: [V; 2]) -> [V; 2] {
        let own = decayed(param, grad, self.weight_decay, self.maximize);
        [own.mul_add(V::lit(-self.lr), param), grad]
    }
}

impl Rule<3> for SgdStep {
    #[inline(always)]
    fn moved<V: Lanes>(&self, [param, grad, buffer]: [V; 3]) -> [V; 3] {
        let own = decayed(param, grad, self.weight_decay, self.maximize);
        let momentum = V::lit(self.momentum);
        let buffer = match self.is_first_step {
            true => own,
            false => own.mul_add(V::lit(1.0 - self.dampening), buffer * momentum),
        };
        let step = if self.nesterov { buffer.mul_add(momentum, own) } else { buffer };
        [step.mul_add(V::lit(-self.lr), param), grad, buffer]
    }
}
