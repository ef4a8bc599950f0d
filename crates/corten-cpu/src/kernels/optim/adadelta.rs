//! Adadelta.

use super::{Rule, decayed, mean_square, step_all};
use crate::vec::Lanes;
use corten_core::{Result, try_vec};
use corten_ops::Tensor;

/// A step of Adadelta (Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012).
///
/// # Errors
/// `Runtime` where the lists do not belong together; `NotImplemented` for dtypes that are not
/// floating-point.
pub fn adadelta_step_(
    self_: &[Tensor],
    grads: &[Tensor],
    square_avgs: &[Tensor],
    acc_deltas: &[Tensor],
    lr: f64,
    rho: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let step = AdadeltaStep { lr, rho, eps, weight_decay, maximize };
    let lists = [self_, grads, square_avgs, acc_deltas];
    step_all("adadelta_step", lists, [grad_scale, found_inf], || try_vec(step, self_.len()))
}

#[derive(Clone, Copy)]
struct AdadeltaStep {
    lr: f64,
    rho: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
}

impl Rule<4> for AdadeltaStep {
    #[inline(always)]
    fn moved<V: Lanes>(&self, [param, grad, square, moved]: [V; 4]) -> [V; 4] {
        let own = decayed(param, grad, self.weight_decay, self.maximize);
        let eps = V::lit(self.eps);
        let square = mean_square(square, own, self.rho);
        let delta = (moved + eps).sqrt() / (square + eps).sqrt() * own;
        let moved = mean_square(moved, delta, self.rho);
        [delta.mul_add(V::lit(-self.lr), param), grad, square, moved]
    }
}
