//! Adam, and Adam with decoupled weight decay.

use super::{Rule, decayed, mean_square, step_all};
use crate::vec::Lanes;
use crate::vec::expr::Expr;
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// How parameters shrink.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decay {
    /// By what is added to their gradients.
    Gradient,
    /// By themselves.
    Decoupled,
}

/// The settings that all parameters share.
#[derive(Clone, Copy)]
struct Settings {
    decay: Decay,
    lr: f64,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
    eps: f64,
    amsgrad: bool,
    maximize: bool,
}

/// What is updated: per parameter the number itself, its gradient and its state.
#[derive(Clone, Copy)]
struct Lists<'a> {
    params: &'a [Tensor],
    grads: &'a [Tensor],
    means: &'a [Tensor],
    squares: &'a [Tensor],
    largest: &'a [Tensor],
    steps: &'a [Tensor],
}

/// Defines a step for lists of parameters with the way in which they shrink.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident $decay:ident;)+) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Runtime` where the lists do not belong together; `NotImplemented` for dtypes that are
        /// not floating-point.
        pub fn $name(
            self_: &[Tensor],
            grads: &[Tensor],
            exp_avgs: &[Tensor],
            exp_avg_sqs: &[Tensor],
            max_exp_avg_sqs: &[Tensor],
            state_steps: &[Tensor],
            lr: f64,
            beta1: f64,
            beta2: f64,
            weight_decay: f64,
            eps: f64,
            amsgrad: bool,
            maximize: bool,
            grad_scale: Option<&Tensor>,
            found_inf: Option<&Tensor>,
        ) -> Result<()> {
            let decay = Decay::$decay;
            let settings = Settings { decay, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize };
            let lists = Lists {
                params: self_,
                grads,
                means: exp_avgs,
                squares: exp_avg_sqs,
                largest: max_exp_avg_sqs,
                steps: state_steps,
            };
            step(settings, lists, grad_scale, found_inf)
        }
    )+};
}

steps! {
    /// A step of Adam.
    fused_adam_ Gradient;
    /// A step of Adam with decoupled weight decay.
    fused_adamw_ Decoupled;
}

fn step(
    settings: Settings,
    lists: Lists<'_>,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let Lists { params, grads, means, squares, largest, steps } = lists;
    let rules = || {
        ensure!(
            steps.len() == params.len(),
            Runtime,
            "a fused step needs as many counts of steps as parameters"
        );
        let rule = |step| Ok(AdamStep::new(settings, op::item(step)?.to_f64()));
        steps.iter().map(rule).collect()
    };
    let scaling = [grad_scale, found_inf];
    match settings.amsgrad {
        true => step_all(NAME, [params, grads, means, squares, largest], scaling, rules),
        false => step_all(NAME, [params, grads, means, squares], scaling, rules),
    }
}

const NAME: &str = "fused_adam";

/// The numbers of a step.
#[derive(Clone, Copy)]
struct AdamStep {
    settings: Settings,
    /// The corrections of the running means for their start at zero.
    rate: f64,
    root: f64,
}

impl AdamStep {
    fn new(settings: Settings, step: f64) -> Self {
        let rate = settings.lr / (1.0 - settings.beta1.powf(step));
        let root = (1.0 - settings.beta2.powf(step)).sqrt();
        Self { settings, rate, root }
    }

    /// The parameter and its gradient after the decay.
    #[inline(always)]
    fn decayed<V: Lanes>(&self, param: V, grad: V) -> (V, V) {
        let Settings { decay, lr, weight_decay, maximize, .. } = self.settings;
        match decay {
            Decay::Gradient => (param, decayed(param, grad, weight_decay, maximize)),
            Decay::Decoupled => {
                let shrunk = param * V::lit(1.0 - lr * weight_decay);
                (shrunk, decayed(param, grad, 0.0, maximize))
            }
        }
    }

    /// `lerp` of the mean to the gradient.
    #[inline(always)]
    fn mean<V: Lanes>(&self, mean: V, grad: V) -> V {
        let weight = 1.0 - self.settings.beta1;
        match weight.abs() < 0.5 {
            true => V::lit(weight).mul_add(grad - mean, mean),
            false => (V::lit(weight) - V::lit(1.0)).mul_add(grad - mean, grad),
        }
    }

    /// The parameter moved by a mean, and a bound of the square.
    #[inline(always)]
    fn moved_by<V: Lanes>(&self, param: V, mean: V, bound: V) -> V {
        let divisor = bound.sqrt() / V::lit(self.root) + V::lit(self.settings.eps);
        param + V::lit(-self.rate) * mean / divisor
    }
}

impl Rule<4> for AdamStep {
    #[inline(always)]
    fn moved<V: Lanes>(&self, [param, grad, mean, square]: [V; 4]) -> [V; 4] {
        let (param, own) = self.decayed(param, grad);
        let mean = self.mean(mean, own);
        let square = mean_square(square, own, self.settings.beta2);
        [self.moved_by(param, mean, square), grad, mean, square]
    }
}

/// With the largest squares so far.
impl Rule<5> for AdamStep {
    #[inline(always)]
    fn moved<V: Lanes>(&self, [param, grad, mean, square, largest]: [V; 5]) -> [V; 5] {
        let (param, own) = self.decayed(param, grad);
        let mean = self.mean(mean, own);
        let square = mean_square(square, own, self.settings.beta2);
        let largest = Expr::max(largest, square);
        [self.moved_by(param, mean, largest), grad, mean, square, largest]
    }
}
