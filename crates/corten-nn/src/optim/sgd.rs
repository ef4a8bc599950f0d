//! Stochastic gradient descent, and its average.

use super::by_parameter::{
    ByParameter, ParameterState, Rule, Together, new_step, real, zeros_like,
};
use super::checks::check_not_negative;
use super::group::settings;
use corten_core::{DType, Result, Scalar, ensure};
use corten_io::Value;
use corten_ops::{Tensor, op};

settings! {
    /// Settings of [`Sgd`].
    SgdOptions {
        /// Learning rate.
        lr: f64 = 1e-3,
        /// How much of the last step is repeated.
        momentum: f64 = 0.0,
        /// How much of a gradient is left out of the momentum.
        dampening: f64 = 0.0,
        /// Factor of the parameters added to gradients.
        weight_decay: f64 = 0.0,
        /// Whether to look ahead by the momentum.
        nesterov: bool = false,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: momentum;
    maximize: maximize;
    files: { foreach = Value::None, differentiable = Value::Bool(false), fused = Value::None }
}

/// `p -= lr * g`, with momentum, weight decay and Nesterov's look-ahead if asked for.
#[doc = optimizer_example!("Sgd", "SgdOptions")]
pub type Sgd = ByParameter<SgdRule>;

/// The formula of [`Sgd`].
#[doc = rule_example!("SgdRule", "SGD")]
pub struct SgdRule;

impl Rule for SgdRule {
    type Options = SgdOptions;
    const NAME: &'static str = "SGD";

    fn check(options: &SgdOptions) -> Result<()> {
        check_not_negative("momentum", options.momentum)?;
        check_not_negative("weight_decay", options.weight_decay)?;
        ensure!(
            !options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0),
            Value,
            "Nesterov momentum requires a momentum and zero dampening"
        );
        Ok(())
    }

    fn begin(_: &Tensor, _: &Tensor, options: &SgdOptions) -> Result<ParameterState> {
        let mut state = ParameterState::default();
        if options.momentum != 0.0 {
            state.set("momentum_buffer", Value::None);
        }
        Ok(state)
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &SgdOptions,
    ) -> Result<()> {
        let mut grad = decayed(grad, parameter, options.weight_decay)?;
        if options.momentum != 0.0 {
            let held = match state.get("momentum_buffer").and_then(Value::tensor) {
                Some(held) => {
                    op::mul__scalar(held, options.momentum.into())?;
                    op::add__tensor(held, &grad, (1.0 - options.dampening).into())?
                }
                // The first step takes the gradient undamped.
                None => op::clone(&op::detach(&grad)?, None)?,
            };
            grad = match options.nesterov {
                true => op::add_tensor(&grad, &held, options.momentum.into())?,
                false => held.clone(),
            };
            state.set("momentum_buffer", Value::Tensor(held));
        }
        op::add__tensor(parameter, &grad, Scalar::Float(-options.lr)).map(drop)
    }

    fn fused(together: &Together<'_>, options: &SgdOptions) -> Result<bool> {
        let SgdOptions { lr, momentum, dampening, weight_decay, nesterov, maximize } = *options;
        let mut buffers = Vec::new();
        if momentum != 0.0 {
            // The first step of a parameter makes its buffer.
            let Ok(held) = together.state("momentum_buffer") else { return Ok(false) };
            buffers = held;
        }
        op::_fused_sgd_(
            together.params,
            together.grads,
            &buffers,
            weight_decay,
            momentum,
            lr,
            dampening,
            nesterov,
            maximize,
            false,
            None,
            None,
        )?;
        Ok(true)
    }
}

/// A gradient with that of the weight decay.
pub(super) fn decayed(grad: Tensor, parameter: &Tensor, weight_decay: f64) -> Result<Tensor> {
    match weight_decay == 0.0 {
        true => Ok(grad),
        false => op::add_tensor(&grad, parameter, weight_decay.into()),
    }
}

settings! {
    /// Settings of [`Asgd`].
    AsgdOptions {
        /// Learning rate.
        lr: f64 = 1e-2,
        /// How fast parameters and the rate decay.
        lambd: f64 = 1e-4,
        /// Power of the decay of the rate.
        alpha: f64 = 0.75,
        /// Step at which averaging begins.
        t0: f64 = 1e6,
        /// Factor of the parameters added to gradients.
        weight_decay: f64 = 0.0,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: none;
    maximize: maximize;
    files: { foreach = Value::None, differentiable = Value::Bool(false), capturable = Value::Bool(false) }
}

/// Gradient descent that also keeps the average of its iterates under `ax` (Polyak and Juditsky).
#[doc = optimizer_example!("Asgd", "AsgdOptions")]
pub type Asgd = ByParameter<AsgdRule>;

/// The formula of [`Asgd`].
#[doc = rule_example!("AsgdRule", "ASGD")]
pub struct AsgdRule;

fn number(value: f64) -> Result<Tensor> {
    op::scalar_tensor(value.into(), Some(DType::Float32), None, None, None)
}

impl Rule for AsgdRule {
    type Options = AsgdOptions;
    const NAME: &'static str = "ASGD";

    fn check(options: &AsgdOptions) -> Result<()> {
        check_not_negative("weight_decay", options.weight_decay)
    }

    fn begin(parameter: &Tensor, _: &Tensor, options: &AsgdOptions) -> Result<ParameterState> {
        Ok(ParameterState::of([
            ("step", new_step()?),
            ("eta", number(options.lr)?),
            ("mu", number(1.0)?),
            ("ax", zeros_like(parameter)?),
        ]))
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &AsgdOptions,
    ) -> Result<()> {
        let AsgdOptions { lr, lambd, alpha, t0, weight_decay, .. } = *options;
        let step = state.count_step()?;
        let (parameter, grad) = (real(parameter)?, real(&grad)?);
        let grad = decayed(grad, &parameter, weight_decay)?;
        let eta = op::item(&state.tensor("eta")?)?.to_f64();
        op::mul__scalar(&parameter, (1.0 - lambd * eta).into())?;
        op::add__tensor(&parameter, &grad, (-eta).into())?;
        let (average, mu) = (state.real("ax")?, op::item(&state.tensor("mu")?)?.to_f64());
        match mu == 1.0 {
            true => op::copy_(&average, &parameter, false)?,
            false => {
                let apart = op::sub_tensor(&parameter, &average, 1.into())?;
                op::add__tensor(&average, &op::mul_scalar(&apart, mu.into())?, 1.into())?
            }
        };
        state.set("eta", Value::Tensor(number(lr / (1.0 + lambd * lr * step).powf(alpha))?));
        state.set("mu", Value::Tensor(number(1.0 / (step - t0).max(1.0))?));
        Ok(())
    }
}
