//! Adam for gradients in coordinate format.

use super::by_parameter::{ByParameter, ParameterState, Rule, zeros_like};
use super::checks::check_betas;
use super::group::settings;
use corten_core::{Result, Scalar, bail, ensure};
use corten_io::Value;
use corten_ops::sparse::Coo;
use corten_ops::{Tensor, op};

settings! {
    /// Settings of [`SparseAdam`].
    SparseAdamOptions {
        /// Learning rate.
        lr: f64 = 1e-3,
        /// How long the means of gradients and of their squares remember.
        betas: (f64, f64) = (0.9, 0.999),
        /// Added to the root of the mean square.
        eps: f64 = 1e-8,
        /// Whether parameters are moved along their gradients instead of against them.
        maximize: bool = false,
    }
    momentum: betas;
    maximize: maximize;
    files: {}
}

/// Adam that moves only the elements that have a gradient, and their means: for gradients in coordinate
/// format, such as those of an embedding with `sparse`.
///
/// ```
/// use corten::nn::optim::{Optimizer, SparseAdam, SparseAdamOptions};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let table = Tensor::ones([4, 2])?.requires_grad_(true)?;
/// let rows = op::embedding(&table, &tensor![1, 3]?, -1, false, true)?;
/// op::sum(&rows, None)?.backward()?;
///
/// let mut optimizer = SparseAdam::new([table.clone()], SparseAdamOptions::default())?;
/// optimizer.step()?;
/// # Ok(())
/// # }
/// ```
pub type SparseAdam = ByParameter<SparseAdamRule>;

/// The formula of [`SparseAdam`].
#[doc = rule_example!("SparseAdamRule", "SparseAdam")]
pub struct SparseAdamRule;

impl Rule for SparseAdamRule {
    type Options = SparseAdamOptions;
    const NAME: &'static str = "SparseAdam";

    fn check(options: &SparseAdamOptions) -> Result<()> {
        ensure!(options.lr > 0.0, Value, "Invalid learning rate: {}", options.lr);
        ensure!(options.eps > 0.0, Value, "Invalid epsilon value: {}", options.eps);
        check_betas(options.betas)
    }

    fn check_parameter(parameter: &Tensor) -> Result<()> {
        ensure!(
            !parameter.dtype().is_complex(),
            Value,
            "SparseAdam does not support complex parameters"
        );
        ensure!(
            parameter.has_storage(),
            Value,
            "SparseAdam requires dense parameter tensors, but one has the layout {}",
            parameter.layout()
        );
        Ok(())
    }

    fn begin(parameter: &Tensor, _: &Tensor, _: &SparseAdamOptions) -> Result<ParameterState> {
        let mut state = ParameterState::default();
        state.set("step", Value::Int(0));
        state.set("exp_avg", Value::Tensor(zeros_like(parameter)?));
        state.set("exp_avg_sq", Value::Tensor(zeros_like(parameter)?));
        Ok(state)
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &SparseAdamOptions,
    ) -> Result<()> {
        ensure!(
            grad.is_sparse(),
            Runtime,
            "SparseAdam does not support dense gradients, please consider Adam instead"
        );
        let Some(Value::Int(step)) = state.get("step") else {
            bail!(Runtime, "the state of a parameter has no number 'step'")
        };
        let step = step + 1;
        state.set("step", Value::Int(step));
        let grad = op::coalesce(&grad)?;
        let parts = Coo::expect(&grad, "SparseAdam")?;
        if parts.values.numel() == 0 {
            return Ok(());
        }
        let at_places = |dense: &Tensor| op::_values(&op::sparse_mask(dense, &grad)?);
        let add = |dense: &Tensor, values: Tensor, factor: f64| {
            let update = Coo { values, ..parts.clone() }.tensor(&grad.sizes())?;
            op::add__tensor(dense, &update, Scalar::Float(factor))
        };
        let (beta1, beta2) = options.betas;
        let (mean, square) = (state.tensor("exp_avg")?, state.tensor("exp_avg_sq")?);
        let old_mean = at_places(&mean)?;
        let mean_update = (&(&parts.values - &old_mean)? * (1.0 - beta1))?;
        add(&mean, mean_update.clone(), 1.0)?;
        let old_square = at_places(&square)?;
        let squares = (&parts.values * &parts.values)?;
        let square_update = (&(&squares - &old_square)? * (1.0 - beta2))?;
        add(&square, square_update.clone(), 1.0)?;
        let root = (&op::sqrt(&(&square_update + &old_square)?)? + options.eps)?;
        let steps = step as f64;
        let corrected = (1.0 - beta2.powf(steps)).sqrt() / (1.0 - beta1.powf(steps));
        let ratio = (&(&mean_update + &old_mean)? / &root)?;
        add(parameter, (&ratio * (-options.lr * corrected))?, 1.0).map(drop)
    }
}
