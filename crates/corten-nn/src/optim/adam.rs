//! Adam and its relatives.

use super::by_parameter::{
    ByParameter, ParameterState, Rule, Together, new_step, real, zeros_like,
};
use super::checks::{check_betas, check_not_negative};
use super::group::settings;
use corten_core::{DType, Result, Scalar};
use corten_io::Value;
use corten_ops::{Tensor, op};

settings! {
    /// Settings of [`Adam`].
    AdamOptions {
        /// Learning rate.
        lr: f64 = 1e-3,
        /// How long the means of gradients and of their squares remember.
        betas: (f64, f64) = (0.9, 0.999),
        /// Added to the root of the mean square.
        eps: f64 = 1e-8,
        /// Factor of the parameters added to gradients, or shrinking the parameters.
        weight_decay: f64 = 0.0,
        /// Whether the largest mean square so far counts.
        amsgrad: bool = false,
        /// Whether weight decay shrinks the parameters (Loshchilov and Hutter).
        decoupled_weight_decay: bool = false,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: betas;
    maximize: maximize;
    files: {
        foreach = Value::None, capturable = Value::Bool(false), differentiable = Value::Bool(false),
        fused = Value::None,
    }
}

settings! {
    /// Settings of [`AdamW`].
    AdamWOptions {
        /// Learning rate.
        lr: f64 = 1e-3,
        /// How long the means of gradients and of their squares remember.
        betas: (f64, f64) = (0.9, 0.999),
        /// Added to the root of the mean square.
        eps: f64 = 1e-8,
        /// By how much of the learning rate parameters shrink.
        weight_decay: f64 = 1e-2,
        /// Whether the largest mean square so far counts.
        amsgrad: bool = false,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: betas;
    maximize: maximize;
    files: {
        foreach = Value::None, capturable = Value::Bool(false), differentiable = Value::Bool(false),
        fused = Value::None, decoupled_weight_decay = Value::Bool(true),
    }
}

impl From<&AdamWOptions> for AdamOptions {
    fn from(from: &AdamWOptions) -> Self {
        let AdamWOptions { lr, betas, eps, weight_decay, amsgrad, maximize } = *from;
        Self { lr, betas, eps, weight_decay, amsgrad, decoupled_weight_decay: true, maximize }
    }
}

/// Steps scaled by running means of gradients and of their squares (Kingma and Ba).
///
/// ```
/// use corten::nn::optim::{Adam, AdamOptions, Optimizer};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(3, 1)?;
/// let mut optimizer = Adam::new(model.parameters(), AdamOptions { lr: 1e-2, ..Default::default() })?;
/// optimizer.zero_grad()?;
/// optimizer.step()
/// # }
/// ```
pub type Adam = ByParameter<AdamRule>;

/// [`Adam`] whose weight decay shrinks the parameters instead of adding to the gradients (Loshchilov and Hutter).
#[doc = optimizer_example!("AdamW", "AdamWOptions")]
pub type AdamW = ByParameter<AdamWRule>;

/// The formula of [`Adam`].
#[doc = rule_example!("AdamRule", "Adam")]
pub struct AdamRule;

/// The formula of [`AdamW`].
#[doc = rule_example!("AdamWRule", "AdamW")]
pub struct AdamWRule;

impl Rule for AdamRule {
    type Options = AdamOptions;
    const NAME: &'static str = "Adam";

    fn check(options: &AdamOptions) -> Result<()> {
        check_not_negative("epsilon", options.eps)?;
        check_betas(options.betas)?;
        check_not_negative("weight_decay", options.weight_decay)
    }

    fn begin(parameter: &Tensor, _: &Tensor, options: &AdamOptions) -> Result<ParameterState> {
        begin(parameter, options.amsgrad)
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &AdamOptions,
    ) -> Result<()> {
        update(parameter, grad, state, options)
    }

    fn fused(together: &Together<'_>, options: &AdamOptions) -> Result<bool> {
        fused(together, options)
    }
}

impl Rule for AdamWRule {
    type Options = AdamWOptions;
    const NAME: &'static str = "AdamW";

    fn check(options: &AdamWOptions) -> Result<()> {
        AdamRule::check(&options.into())
    }

    fn begin(parameter: &Tensor, _: &Tensor, options: &AdamWOptions) -> Result<ParameterState> {
        begin(parameter, options.amsgrad)
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &AdamWOptions,
    ) -> Result<()> {
        update(parameter, grad, state, &options.into())
    }

    fn fused(together: &Together<'_>, options: &AdamWOptions) -> Result<bool> {
        fused(together, &options.into())
    }
}

fn begin(parameter: &Tensor, amsgrad: bool) -> Result<ParameterState> {
    let mut state = moments(parameter)?;
    if amsgrad {
        state.set("max_exp_avg_sq", Value::Tensor(zeros_like(parameter)?));
    }
    Ok(state)
}

/// No steps, and the means of gradients and of their squares.
fn moments(parameter: &Tensor) -> Result<ParameterState> {
    Ok(ParameterState::of([
        ("step", new_step()?),
        ("exp_avg", zeros_like(parameter)?),
        ("exp_avg_sq", zeros_like(parameter)?),
    ]))
}

/// Shrinks the parameter, or gives the gradient with that of the weight decay.
fn decayed(
    parameter: &Tensor,
    grad: Tensor,
    lr: f64,
    weight_decay: f64,
    decoupled: bool,
) -> Result<Tensor> {
    if weight_decay == 0.0 {
        return Ok(grad);
    }
    if decoupled {
        op::mul__scalar(parameter, (1.0 - lr * weight_decay).into())?;
        return Ok(grad);
    }
    op::add_tensor(&grad, parameter, weight_decay.into())
}

/// Takes a gradient into both running means, which are returned.
fn remember(state: &ParameterState, grad: &Tensor, betas: (f64, f64)) -> Result<(Tensor, Tensor)> {
    let (mean, square) = (state.real("exp_avg")?, state.real("exp_avg_sq")?);
    op::lerp__scalar(&mean, grad, (1.0 - betas.0).into())?;
    op::mul__scalar(&square, betas.1.into())?;
    op::addcmul_(&square, grad, grad, (1.0 - betas.1).into())?;
    Ok((mean, square))
}

fn update(
    parameter: &Tensor,
    grad: Tensor,
    state: &mut ParameterState,
    options: &AdamOptions,
) -> Result<()> {
    let AdamOptions { lr, betas, eps, weight_decay, amsgrad, decoupled_weight_decay, .. } =
        *options;
    let step = state.count_step()?;
    let grad = decayed(parameter, grad, lr, weight_decay, decoupled_weight_decay)?;
    let (parameter, grad) = (real(parameter)?, real(&grad)?);
    let (mean, mut square) = remember(state, &grad, betas)?;
    if amsgrad {
        let largest = state.real("max_exp_avg_sq")?;
        square = op::copy_(&largest, &op::maximum(&largest, &square)?, false)?;
    }
    let root = op::div_scalar(&op::sqrt(&square)?, (1.0 - betas.1.powf(step)).sqrt().into())?;
    let root = op::add__scalar(&root, eps.into(), 1.into())?;
    op::addcdiv_(&parameter, &mean, &root, (-lr / (1.0 - betas.0.powf(step))).into()).map(drop)
}

fn fused(together: &Together<'_>, options: &AdamOptions) -> Result<bool> {
    let AdamOptions { lr, betas, eps, weight_decay, amsgrad, .. } = *options;
    let move_ = if options.decoupled_weight_decay { op::_fused_adamw_ } else { op::_fused_adam_ };
    let largest = if amsgrad { together.state("max_exp_avg_sq")? } else { Vec::new() };
    let (means, squares) = (together.state("exp_avg")?, together.state("exp_avg_sq")?);
    let steps = together.count_steps()?;
    move_(
        together.params,
        together.grads,
        &means,
        &squares,
        &largest,
        &steps,
        lr,
        betas.0,
        betas.1,
        weight_decay,
        eps,
        amsgrad,
        options.maximize,
        None,
        None,
    )?;
    Ok(true)
}

settings! {
    /// Settings of [`NAdam`].
    NAdamOptions {
        /// Learning rate.
        lr: f64 = 2e-3,
        /// How long the means of gradients and of their squares remember.
        betas: (f64, f64) = (0.9, 0.999),
        /// Added to the root of the mean square.
        eps: f64 = 1e-8,
        /// Factor of the parameters added to gradients, or shrinking the parameters.
        weight_decay: f64 = 0.0,
        /// How fast the momentum grows to the first beta.
        momentum_decay: f64 = 4e-3,
        /// Whether weight decay shrinks the parameters.
        decoupled_weight_decay: bool = false,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: betas;
    maximize: maximize;
    files: { foreach = Value::None, capturable = Value::Bool(false), differentiable = Value::Bool(false) }
}

/// [`Adam`] with Nesterov's look-ahead (Dozat).
#[doc = optimizer_example!("NAdam", "NAdamOptions")]
pub type NAdam = ByParameter<NAdamRule>;

/// The formula of [`NAdam`].
#[doc = rule_example!("NAdamRule", "NAdam")]
pub struct NAdamRule;

impl Rule for NAdamRule {
    type Options = NAdamOptions;
    const NAME: &'static str = "NAdam";

    fn check(options: &NAdamOptions) -> Result<()> {
        check_not_negative("epsilon", options.eps)?;
        check_betas(options.betas)?;
        check_not_negative("weight_decay", options.weight_decay)?;
        check_not_negative("momentum_decay", options.momentum_decay)
    }

    fn begin(parameter: &Tensor, _: &Tensor, _: &NAdamOptions) -> Result<ParameterState> {
        Ok(ParameterState::of([
            ("step", new_step()?),
            ("mu_product", op::ones(&[], Some(DType::Float32), None, None, None)?),
            ("exp_avg", zeros_like(parameter)?),
            ("exp_avg_sq", zeros_like(parameter)?),
        ]))
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &NAdamOptions,
    ) -> Result<()> {
        let NAdamOptions { lr, betas, eps, weight_decay, momentum_decay, .. } = *options;
        let step = state.count_step()?;
        let grad = decayed(parameter, grad, lr, weight_decay, options.decoupled_weight_decay)?;
        let (parameter, grad) = (real(parameter)?, real(&grad)?);
        let momentum = |step: f64| betas.0 * (1.0 - 0.5 * 0.96_f64.powf(step * momentum_decay));
        let (now, next) = (momentum(step), momentum(step + 1.0));
        let product = state.tensor("mu_product")?;
        op::mul__scalar(&product, now.into())?;
        let product = op::item(&product)?.to_f64();
        let (mean, square) = remember(state, &grad, betas)?;
        let square = op::div_scalar(&square, (1.0 - betas.1.powf(step)).into())?;
        let root = op::add__scalar(&op::sqrt(&square)?, eps.into(), 1.into())?;
        let rate: Scalar = (-lr * (1.0 - now) / (1.0 - product)).into();
        op::addcdiv_(&parameter, &grad, &root, rate)?;
        let rate: Scalar = (-lr * next / (1.0 - product * next)).into();
        op::addcdiv_(&parameter, &mean, &root, rate).map(drop)
    }
}

settings! {
    /// Settings of [`RAdam`].
    RAdamOptions {
        /// Learning rate.
        lr: f64 = 1e-3,
        /// How long the means of gradients and of their squares remember.
        betas: (f64, f64) = (0.9, 0.999),
        /// Added to the root of the mean square.
        eps: f64 = 1e-8,
        /// Factor of the parameters added to gradients, or shrinking the parameters.
        weight_decay: f64 = 0.0,
        /// Whether weight decay shrinks the parameters.
        decoupled_weight_decay: bool = false,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: betas;
    maximize: maximize;
    files: { foreach = Value::None, capturable = Value::Bool(false), differentiable = Value::Bool(false) }
}

/// [`Adam`] whose first steps, of uncertain scale, are corrected or left unscaled (Liu and others).
#[doc = optimizer_example!("RAdam", "RAdamOptions")]
pub type RAdam = ByParameter<RAdamRule>;

/// The formula of [`RAdam`].
#[doc = rule_example!("RAdamRule", "RAdam")]
pub struct RAdamRule;

impl Rule for RAdamRule {
    type Options = RAdamOptions;
    const NAME: &'static str = "RAdam";

    fn check(options: &RAdamOptions) -> Result<()> {
        check_not_negative("epsilon", options.eps)?;
        check_betas(options.betas)?;
        check_not_negative("weight_decay", options.weight_decay)
    }

    fn begin(parameter: &Tensor, _: &Tensor, _: &RAdamOptions) -> Result<ParameterState> {
        moments(parameter)
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &RAdamOptions,
    ) -> Result<()> {
        let RAdamOptions { lr, betas, eps, weight_decay, .. } = *options;
        let step = state.count_step()?;
        let grad = decayed(parameter, grad, lr, weight_decay, options.decoupled_weight_decay)?;
        let (parameter, grad) = (real(parameter)?, real(&grad)?);
        let (mean, square) = remember(state, &grad, betas)?;
        let corrected = op::div_scalar(&mean, (1.0 - betas.0.powf(step)).into())?;
        let correction2 = 1.0 - betas.1.powf(step);
        let longest = 2.0 / (1.0 - betas.1) - 1.0;
        let length = longest - 2.0 * step * betas.1.powf(step) / correction2;
        if length <= 5.0 {
            return op::add__tensor(&parameter, &corrected, (-lr).into()).map(drop);
        }
        let rectified = ((length - 4.0) * (length - 2.0) * longest
            / ((longest - 4.0) * (longest - 2.0) * length))
            .sqrt();
        let root = op::add__scalar(&op::sqrt(&square)?, eps.into(), 1.into())?;
        let scale = op::mul__scalar(&op::reciprocal(&root)?, correction2.sqrt().into())?;
        let moved = op::mul_tensor(&corrected, &scale)?;
        op::mul__scalar(&moved, rectified.into())?;
        op::add__tensor(&parameter, &moved, (-lr).into()).map(drop)
    }
}

settings! {
    /// Settings of [`Adamax`].
    AdamaxOptions {
        /// Learning rate.
        lr: f64 = 2e-3,
        /// How long the mean of gradients and their maximum remember.
        betas: (f64, f64) = (0.9, 0.999),
        /// Added to the size of the gradient.
        eps: f64 = 1e-8,
        /// Factor of the parameters added to gradients.
        weight_decay: f64 = 0.0,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: betas;
    maximize: maximize;
    files: { foreach = Value::None, differentiable = Value::Bool(false), capturable = Value::Bool(false) }
}

/// [`Adam`] with the largest recent gradient in place of the mean square (Kingma and Ba).
#[doc = optimizer_example!("Adamax", "AdamaxOptions")]
pub type Adamax = ByParameter<AdamaxRule>;

/// The formula of [`Adamax`].
#[doc = rule_example!("AdamaxRule", "Adamax")]
pub struct AdamaxRule;

impl Rule for AdamaxRule {
    type Options = AdamaxOptions;
    const NAME: &'static str = "Adamax";

    fn check(options: &AdamaxOptions) -> Result<()> {
        check_not_negative("epsilon", options.eps)?;
        check_betas(options.betas)?;
        check_not_negative("weight_decay", options.weight_decay)
    }

    fn begin(parameter: &Tensor, _: &Tensor, _: &AdamaxOptions) -> Result<ParameterState> {
        Ok(ParameterState::of([
            ("step", new_step()?),
            ("exp_avg", zeros_like(parameter)?),
            ("exp_inf", zeros_like(parameter)?),
        ]))
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &AdamaxOptions,
    ) -> Result<()> {
        let AdamaxOptions { lr, betas, eps, weight_decay, .. } = *options;
        let step = state.count_step()?;
        let grad = decayed(parameter, grad, lr, weight_decay, false)?;
        let (parameter, grad) = (real(parameter)?, real(&grad)?);
        let (mean, largest) = (state.real("exp_avg")?, state.real("exp_inf")?);
        op::lerp__scalar(&mean, &grad, (1.0 - betas.0).into())?;
        op::mul__scalar(&largest, betas.1.into())?;
        let size = op::add__scalar(&op::abs(&grad)?, eps.into(), 1.into())?;
        op::copy_(&largest, &op::maximum(&largest, &size)?, false)?;
        op::addcdiv_(&parameter, &mean, &largest, (-lr / (1.0 - betas.0.powf(step))).into())
            .map(drop)
    }
}
