//! Optimizers that scale steps by past gradients: Adadelta, Adagrad, RMSprop, Rprop, Adafactor.

use super::by_parameter::{
    ByParameter, ParameterState, Rule, Together, new_step, real, zeros_like,
};
use super::checks::check_not_negative;
use super::group::settings;
use super::sgd::decayed;
use corten_core::{Complex, Result, Scalar, ensure};
use corten_io::Value;
use corten_ops::{Tensor, op};

settings! {
    /// Settings of [`Adadelta`].
    AdadeltaOptions {
        /// Learning rate.
        lr: f64 = 1.0,
        /// How long the means of squares remember.
        rho: f64 = 0.9,
        /// Added to both means.
        eps: f64 = 1e-6,
        /// Factor of the parameters added to gradients.
        weight_decay: f64 = 0.0,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: none;
    maximize: maximize;
    files: { capturable = Value::Bool(false), foreach = Value::None, differentiable = Value::Bool(false) }
}

/// Steps scaled by running means of squared updates over squared gradients (Zeiler).
#[doc = optimizer_example!("Adadelta", "AdadeltaOptions")]
pub type Adadelta = ByParameter<AdadeltaRule>;

/// The formula of [`Adadelta`].
#[doc = rule_example!("AdadeltaRule", "Adadelta")]
pub struct AdadeltaRule;

impl Rule for AdadeltaRule {
    type Options = AdadeltaOptions;
    const NAME: &'static str = "Adadelta";

    fn check(options: &AdadeltaOptions) -> Result<()> {
        let rho = options.rho;
        ensure!((0.0..=1.0).contains(&rho), Value, "Invalid rho value: {rho}");
        check_not_negative("epsilon", options.eps)?;
        check_not_negative("weight_decay", options.weight_decay)
    }

    fn begin(parameter: &Tensor, _: &Tensor, _: &AdadeltaOptions) -> Result<ParameterState> {
        Ok(ParameterState::of([
            ("step", new_step()?),
            ("square_avg", zeros_like(parameter)?),
            ("acc_delta", zeros_like(parameter)?),
        ]))
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &AdadeltaOptions,
    ) -> Result<()> {
        let AdadeltaOptions { lr, rho, eps, weight_decay, .. } = *options;
        state.count_step()?;
        let grad = decayed(grad, parameter, weight_decay)?;
        let (parameter, grad) = (real(parameter)?, real(&grad)?);
        let (square, moved) = (state.real("square_avg")?, state.real("acc_delta")?);
        remember_square(&square, &grad, rho)?;
        let root = op::sqrt_(&op::add_scalar(&square, eps.into(), 1.into())?)?;
        let delta = op::sqrt_(&op::add_scalar(&moved, eps.into(), 1.into())?)?;
        op::mul__tensor(&op::div__tensor(&delta, &root)?, &grad)?;
        remember_square(&moved, &delta, rho)?;
        op::add__tensor(&parameter, &delta, (-lr).into()).map(drop)
    }

    fn fused(together: &Together<'_>, options: &AdadeltaOptions) -> Result<bool> {
        let AdadeltaOptions { lr, rho, eps, weight_decay, maximize } = *options;
        let (squares, moved) = (together.state("square_avg")?, together.state("acc_delta")?);
        together.count_steps()?;
        let (params, grads) = (together.params, together.grads);
        op::adadelta_step_(
            params,
            grads,
            &squares,
            &moved,
            lr,
            rho,
            eps,
            weight_decay,
            maximize,
            None,
            None,
        )?;
        Ok(true)
    }
}

/// `square = memory * square + (1 - memory) * grad^2`.
fn remember_square(square: &Tensor, grad: &Tensor, memory: f64) -> Result<()> {
    op::mul__scalar(square, memory.into())?;
    op::addcmul_(square, grad, grad, (1.0 - memory).into()).map(drop)
}

settings! {
    /// Settings of [`Adagrad`].
    AdagradOptions {
        /// Learning rate.
        lr: f64 = 1e-2,
        /// By how much the rate shrinks with each step.
        lr_decay: f64 = 0.0,
        /// Added to the root of the sum.
        eps: f64 = 1e-10,
        /// Factor of the parameters added to gradients.
        weight_decay: f64 = 0.0,
        /// What sums begin with.
        initial_accumulator_value: f64 = 0.0,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: none;
    maximize: maximize;
    files: { foreach = Value::None, differentiable = Value::Bool(false), fused = Value::None }
}

/// Steps divided by the root of the sum of all squared gradients (Duchi and others).
#[doc = optimizer_example!("Adagrad", "AdagradOptions")]
pub type Adagrad = ByParameter<AdagradRule>;

/// The formula of [`Adagrad`].
#[doc = rule_example!("AdagradRule", "Adagrad")]
pub struct AdagradRule;

/// A tensor like another one with a number in both parts of complex elements.
fn filled_like(tensor: &Tensor, value: f64) -> Result<Tensor> {
    let fill = match tensor.dtype().is_complex() {
        true => Scalar::Complex(Complex::new(value, value)),
        false => Scalar::Float(value),
    };
    op::full_like(tensor, fill, None, None, None, None, None)
}

impl Rule for AdagradRule {
    type Options = AdagradOptions;
    const NAME: &'static str = "Adagrad";

    fn check(options: &AdagradOptions) -> Result<()> {
        check_not_negative("lr_decay", options.lr_decay)?;
        check_not_negative("weight_decay", options.weight_decay)?;
        check_not_negative("initial_accumulator_value", options.initial_accumulator_value)?;
        check_not_negative("epsilon", options.eps)
    }

    fn begin(parameter: &Tensor, _: &Tensor, options: &AdagradOptions) -> Result<ParameterState> {
        let sum = filled_like(parameter, options.initial_accumulator_value)?;
        Ok(ParameterState::of([("step", new_step()?), ("sum", sum)]))
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &AdagradOptions,
    ) -> Result<()> {
        let step = state.count_step()?;
        let grad = decayed(grad, parameter, options.weight_decay)?;
        let rate = options.lr / (1.0 + (step - 1.0) * options.lr_decay);
        let (parameter, grad, sum) = (real(parameter)?, real(&grad)?, state.real("sum")?);
        op::addcmul_(&sum, &grad, &grad, 1.into())?;
        let root = op::add__scalar(&op::sqrt(&sum)?, options.eps.into(), 1.into())?;
        op::addcdiv_(&parameter, &grad, &root, (-rate).into()).map(drop)
    }
}

settings! {
    /// Settings of [`RmsProp`].
    RmsPropOptions {
        /// Learning rate.
        lr: f64 = 1e-2,
        /// How much of the last step is repeated.
        momentum: f64 = 0.0,
        /// How long the mean of squares remembers.
        alpha: f64 = 0.99,
        /// Added to the root of the mean square.
        eps: f64 = 1e-8,
        /// Whether the mean gradient is taken from the mean square.
        centered: bool = false,
        /// Factor of the parameters added to gradients.
        weight_decay: f64 = 0.0,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: momentum;
    maximize: maximize;
    files: { capturable = Value::Bool(false), foreach = Value::None, differentiable = Value::Bool(false) }
}

/// Steps divided by the root of a running mean of squared gradients (Hinton).
#[doc = optimizer_example!("RmsProp", "RmsPropOptions")]
pub type RmsProp = ByParameter<RmsPropRule>;

/// The formula of [`RmsProp`].
#[doc = rule_example!("RmsPropRule", "RMSprop")]
pub struct RmsPropRule;

impl Rule for RmsPropRule {
    type Options = RmsPropOptions;
    const NAME: &'static str = "RMSprop";

    fn check(options: &RmsPropOptions) -> Result<()> {
        check_not_negative("epsilon", options.eps)?;
        check_not_negative("momentum", options.momentum)?;
        check_not_negative("weight_decay", options.weight_decay)?;
        check_not_negative("alpha", options.alpha)
    }

    fn begin(parameter: &Tensor, _: &Tensor, options: &RmsPropOptions) -> Result<ParameterState> {
        let mut state =
            ParameterState::of([("step", new_step()?), ("square_avg", zeros_like(parameter)?)]);
        for (wanted, name) in
            [(options.momentum > 0.0, "momentum_buffer"), (options.centered, "grad_avg")]
        {
            if wanted {
                state.set(name, Value::Tensor(zeros_like(parameter)?));
            }
        }
        Ok(state)
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &RmsPropOptions,
    ) -> Result<()> {
        let RmsPropOptions { lr, momentum, alpha, eps, weight_decay, .. } = *options;
        state.count_step()?;
        let grad = decayed(grad, parameter, weight_decay)?;
        let (parameter, grad, square) = (real(parameter)?, real(&grad)?, state.real("square_avg")?);
        remember_square(&square, &grad, alpha)?;
        let root = match state.get("grad_avg") {
            Some(_) => {
                let mean = state.real("grad_avg")?;
                op::lerp__scalar(&mean, &grad, (1.0 - alpha).into())?;
                op::sqrt_(&op::addcmul(&square, &mean, &mean, (-1).into())?)?
            }
            None => op::sqrt(&square)?,
        };
        op::add__scalar(&root, eps.into(), 1.into())?;
        if state.get("momentum_buffer").is_none() {
            return op::addcdiv_(&parameter, &grad, &root, (-lr).into()).map(drop);
        }
        let buffer = state.real("momentum_buffer")?;
        op::mul__scalar(&buffer, momentum.into())?;
        op::addcdiv_(&buffer, &grad, &root, 1.into())?;
        op::add__tensor(&parameter, &buffer, (-lr).into()).map(drop)
    }
}

settings! {
    /// Settings of [`Rprop`].
    RpropOptions {
        /// The first length of steps.
        lr: f64 = 1e-2,
        /// Factors of the length where the sign of a gradient turns, and where it stays.
        etas: (f64, f64) = (0.5, 1.2),
        /// The least and the most length.
        step_sizes: (f64, f64) = (1e-6, 50.0),
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: none;
    maximize: maximize;
    files: { foreach = Value::None, differentiable = Value::Bool(false), capturable = Value::Bool(false) }
}

/// Steps by the signs of gradients, longer while signs agree (Riedmiller and Braun).
#[doc = optimizer_example!("Rprop", "RpropOptions")]
pub type Rprop = ByParameter<RpropRule>;

/// The formula of [`Rprop`].
#[doc = rule_example!("RpropRule", "Rprop")]
pub struct RpropRule;

impl Rule for RpropRule {
    type Options = RpropOptions;
    const NAME: &'static str = "Rprop";

    fn check(options: &RpropOptions) -> Result<()> {
        let (shrink, grow) = options.etas;
        let fits = 0.0 < shrink && shrink < 1.0 && 1.0 < grow;
        ensure!(fits, Value, "Invalid eta values: {shrink}, {grow}");
        Ok(())
    }

    fn begin(parameter: &Tensor, _: &Tensor, options: &RpropOptions) -> Result<ParameterState> {
        Ok(ParameterState::of([
            ("step", new_step()?),
            ("prev", zeros_like(parameter)?),
            ("step_size", filled_like(parameter, options.lr)?),
        ]))
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &RpropOptions,
    ) -> Result<()> {
        state.count_step()?;
        let (parameter, grad) = (real(parameter)?, real(&grad)?);
        let (previous, size) = (state.real("prev")?, state.real("step_size")?);
        let agreement = op::mul_tensor(&grad, &previous)?;
        let (grows, turns) =
            (op::gt_scalar(&agreement, 0.into())?, op::lt_scalar(&agreement, 0.into())?);
        let factor = op::ones_like(&agreement, None, None, None, None, None)?;
        op::masked_fill__scalar(&factor, &grows, options.etas.1.into())?;
        op::masked_fill__scalar(&factor, &turns, options.etas.0.into())?;
        op::mul__tensor(&size, &factor)?;
        let (least, most) = options.step_sizes;
        op::clamp_(&size, Some(least.into()), Some(most.into()))?;
        // After a turn, one step is waited.
        let grad = op::masked_fill_scalar(&grad, &turns, 0.into())?;
        op::addcmul_(&parameter, &op::sign(&grad)?, &size, (-1).into())?;
        op::copy_(&previous, &grad, false).map(drop)
    }
}

settings! {
    /// Settings of [`Adafactor`].
    AdafactorOptions {
        /// The most relative step.
        lr: f64 = 1e-2,
        /// Power with which the memory of squares grows.
        beta2_decay: f64 = -0.8,
        /// What squares are at least (by default the epsilon of the dtype), and the least size of a parameter.
        eps: (Option<f64>, f64) = (None, 1e-3),
        /// The size beyond which updates are shortened.
        d: f64 = 1.0,
        /// By how much of the learning rate parameters shrink.
        weight_decay: f64 = 0.0,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: none;
    maximize: maximize;
    files: { foreach = Value::None }
}

/// Adam's scaling with row and column means in place of full matrices (Shazeer and Stern).
#[doc = optimizer_example!("Adafactor", "AdafactorOptions")]
pub type Adafactor = ByParameter<AdafactorRule>;

/// The formula of [`Adafactor`].
#[doc = rule_example!("AdafactorRule", "Adafactor")]
pub struct AdafactorRule;

impl Rule for AdafactorRule {
    type Options = AdafactorOptions;
    const NAME: &'static str = "Adafactor";

    fn check(options: &AdafactorOptions) -> Result<()> {
        let AdafactorOptions { beta2_decay, eps, d, weight_decay, .. } = *options;
        ensure!(beta2_decay <= 0.0, Value, "beta2_decay should be <= 0, but got {beta2_decay}");
        let first = eps.0.unwrap_or(0.0);
        ensure!(first >= 0.0, Value, "epsilon1 should be >= 0, but got {first}");
        check_not_negative("epsilon2", eps.1)?;
        ensure!(d >= 1.0, Value, "Clipping threshold d should be >= 1, but got {d}");
        check_not_negative("weight_decay", weight_decay)
    }

    fn begin(_: &Tensor, grad: &Tensor, _: &AdafactorOptions) -> Result<ParameterState> {
        let sizes = grad.sizes();
        let rank = sizes.len();
        if rank < 2 {
            return Ok(ParameterState::of([
                ("step", new_step()?),
                ("variance", zeros_like(grad)?),
            ]));
        }
        let (mut rows, mut columns) = (sizes.to_vec(), sizes.to_vec());
        (rows[rank - 1], columns[rank - 2]) = (1, 1);
        let zeros = |sizes: &[i64]| op::new_zeros(grad, sizes, None, None, None, None);
        Ok(ParameterState::of([
            ("step", new_step()?),
            ("row_var", zeros(&rows)?),
            ("col_var", zeros(&columns)?),
        ]))
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &AdafactorOptions,
    ) -> Result<()> {
        let dtype = parameter.dtype();
        ensure!(!dtype.is_complex(), Runtime, "Adafactor does not support complex parameters");
        let least = options.eps.0.unwrap_or_else(|| dtype.float_limits().eps);
        let step = state.count_step()?;
        let size = root_mean_square(parameter)?;
        let rate = options.eps.1.max(size) * options.lr.min(1.0 / step.sqrt());
        if options.weight_decay != 0.0 {
            op::mul__scalar(parameter, (1.0 - options.lr * options.weight_decay).into())?;
        }
        let variance = variance(&grad, state, step.powf(options.beta2_decay), least)?;
        op::clamp_(&variance, Some((least * least).into()), None)?;
        let update = op::mul__tensor(&op::rsqrt_(&variance)?, &grad)?;
        let length = root_mean_square(&update)? / options.d;
        op::add__tensor(parameter, &update, (-rate / length.max(1.0)).into()).map(drop)
    }
}

fn root_mean_square(tensor: &Tensor) -> Result<f64> {
    let norm = op::linalg_vector_norm(tensor, 2.0.into(), None, false, None)?;
    Ok(op::item(&norm)?.to_f64() / (tensor.numel() as f64).sqrt())
}

/// The running mean of squared gradients; for matrices the product of its marginals.
fn variance(grad: &Tensor, state: &ParameterState, weight: f64, least: f64) -> Result<Tensor> {
    if grad.dim() < 2 {
        let held = state.tensor("variance")?;
        op::lerp__scalar(&held, &op::square(grad)?, weight.into())?;
        return op::clone(&held, None);
    }
    for (name, dim) in [("row_var", -1), ("col_var", -2)] {
        let norm = op::linalg_vector_norm(grad, 2.0.into(), Some(&[dim]), true, None)?;
        let mean = op::div_scalar(&op::square(&norm)?, grad.size(dim)?.into())?;
        op::lerp__scalar(&state.tensor(name)?, &mean, weight.into())?;
    }
    let (rows, columns) = (state.tensor("row_var")?, state.tensor("col_var")?);
    let mean = op::mean_dim(&rows, Some(&[-2]), true, None)?;
    let mean = op::clamp(&mean, Some(least.into()), None)?;
    op::div_tensor(&op::matmul(&rows, &columns)?, &mean)
}
