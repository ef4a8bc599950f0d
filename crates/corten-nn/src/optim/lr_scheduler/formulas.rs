//! Schedules that fall, or follow a function.

use super::super::{Optimizer, Value};
use super::scheduled::{Field, Moment, RateRule, Scheduled, fields};
use corten_core::{Result, ensure};
use std::f64::consts::PI;
use std::sync::Arc;

/// `lr * gamma` every `step_size` epochs.
#[doc = schedule_example!("StepLR::new(&mut optimizer, 2, 0.5)?", "0.025")]
pub type StepLR = Scheduled<StepRule>;

/// The formula of [`StepLR`].
#[doc = formula_example!("StepLR::new(&mut optimizer, 2, 0.5)?", "step_size")]
#[derive(Clone, Debug)]
pub struct StepRule {
    /// Epochs between decays.
    pub step_size: i64,
    /// Factor of each decay.
    pub gamma: f64,
}

impl StepLR {
    /// PyTorch's default of `gamma` is 0.1.
    ///
    /// # Errors
    /// `Value` for a step size below 1.
    pub fn new(optimizer: &mut dyn Optimizer, step_size: i64, gamma: f64) -> Result<Self> {
        ensure!(step_size > 0, Value, "step_size must be positive, but got {step_size}");
        Self::of(optimizer, StepRule { step_size, gamma })
    }
}

impl RateRule for StepRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        let decays = at.epoch != 0 && at.epoch % self.step_size.max(1) == 0;
        Ok(if decays { at.rate * self.gamma } else { at.rate })
    }

    fn closed_form(&self, epoch: i64, base: f64, _: usize) -> Option<f64> {
        Some(base * self.gamma.powi((epoch / self.step_size.max(1)) as i32))
    }

    fields!("step_size" => step_size, "gamma" => gamma);
}

/// `lr * gamma` at each milestone.
#[doc = schedule_example!("MultiStepLR::new(&mut optimizer, &[2], 0.5)?", "0.05")]
pub type MultiStepLR = Scheduled<MultiStepRule>;

/// The formula of [`MultiStepLR`].
#[doc = formula_example!("MultiStepLR::new(&mut optimizer, &[2], 0.5)?", "milestones")]
#[derive(Clone, Debug)]
pub struct MultiStepRule {
    /// The epochs of decays, sorted; one that stands twice counts twice.
    pub milestones: Vec<i64>,
    /// Factor of each decay.
    pub gamma: f64,
}

impl MultiStepLR {
    /// PyTorch's default of `gamma` is 0.1.
    ///
    /// # Errors
    /// None of its own.
    pub fn new(optimizer: &mut dyn Optimizer, milestones: &[i64], gamma: f64) -> Result<Self> {
        let mut milestones = milestones.to_vec();
        milestones.sort_unstable();
        Self::of(optimizer, MultiStepRule { milestones, gamma })
    }
}

impl RateRule for MultiStepRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        let times = self.milestones.iter().filter(|&&milestone| milestone == at.epoch).count();
        Ok(if times == 0 { at.rate } else { at.rate * self.gamma.powi(times as i32) })
    }

    fn closed_form(&self, epoch: i64, base: f64, _: usize) -> Option<f64> {
        let passed = self.milestones.iter().filter(|&&milestone| milestone <= epoch).count();
        Some(base * self.gamma.powi(passed as i32))
    }

    fn fields(&self) -> Vec<(String, Value)> {
        // PyTorch holds how often each milestone stands in the list.
        let mut counts: Vec<(Value, Value)> = Vec::new();
        for milestones in self.milestones.chunk_by(|a, b| a == b) {
            counts.push((Value::Int(milestones[0]), Value::Int(milestones.len() as i64)));
        }
        let milestones = ("milestones".to_owned(), Value::Dict(counts));
        vec![milestones, ("gamma".to_owned(), Value::Float(self.gamma))]
    }

    fn set_field(&mut self, name: &str, value: &Value) -> bool {
        match (name, value) {
            ("gamma", value) => value.number().map(|gamma| self.gamma = gamma).is_some(),
            ("milestones", Value::Dict(counts)) => {
                let repeated = counts.iter().map(|pair| match pair {
                    (Value::Int(epoch), Value::Int(count)) => {
                        let count = usize::try_from(*count).ok()?.min(1 << 20);
                        Some(std::iter::repeat_n(*epoch, count).collect::<Vec<_>>())
                    }
                    _ => None,
                });
                let repeated = repeated.collect::<Option<Vec<_>>>();
                repeated.map(|repeated| self.milestones = repeated.concat()).is_some()
            }
            ("milestones", _) => false,
            _ => true,
        }
    }
}

/// `lr * factor` for the first `total_iters` epochs.
#[doc = schedule_example!("ConstantLR::new(&mut optimizer, 0.5, 5)?", "0.05")]
pub type ConstantLR = Scheduled<ConstantRule>;

/// The formula of [`ConstantLR`].
#[doc = formula_example!("ConstantLR::new(&mut optimizer, 0.5, 5)?", "factor")]
#[derive(Clone, Debug)]
pub struct ConstantRule {
    /// The factor of the first epochs.
    pub factor: f64,
    /// Number of these epochs.
    pub total_iters: i64,
}

impl ConstantLR {
    /// PyTorch's defaults are a factor of 1/3 and 5 epochs.
    ///
    /// # Errors
    /// `Value` for a factor outside [0, 1].
    pub fn new(optimizer: &mut dyn Optimizer, factor: f64, total_iters: i64) -> Result<Self> {
        ensure!(
            (0.0..=1.0).contains(&factor),
            Value,
            "Constant multiplicative factor expected to be between 0 and 1."
        );
        Self::of(optimizer, ConstantRule { factor, total_iters })
    }
}

impl RateRule for ConstantRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        Ok(match at.epoch {
            0 => at.rate * self.factor,
            epoch if epoch != self.total_iters => at.rate,
            _ if self.factor == 0.0 => at.base,
            _ => at.rate * (1.0 / self.factor),
        })
    }

    fn closed_form(&self, epoch: i64, base: f64, _: usize) -> Option<f64> {
        Some(base * if epoch >= self.total_iters { 1.0 } else { self.factor })
    }

    fields!("factor" => factor, "total_iters" => total_iters);
}

/// How much of a schedule is done; nothing that can be said of one without steps.
fn share(epoch: i64, total: i64) -> Option<f64> {
    (total > 0).then(|| epoch.min(total) as f64 / total as f64)
}

/// `lr` times a factor that goes linearly from `start_factor` to `end_factor`.
#[doc = schedule_example!("LinearLR::new(&mut optimizer, 0.5, 1.0, 4)?", "0.1")]
pub type LinearLR = Scheduled<LinearRule>;

/// The formula of [`LinearLR`].
#[doc = formula_example!("LinearLR::new(&mut optimizer, 0.5, 1.0, 4)?", "start_factor")]
#[derive(Clone, Debug)]
pub struct LinearRule {
    /// The first factor.
    pub start_factor: f64,
    /// The last factor.
    pub end_factor: f64,
    /// Number of epochs in between.
    pub total_iters: i64,
}

impl LinearLR {
    /// PyTorch's defaults are factors of 1/3 and 1, and 5 epochs.
    ///
    /// # Errors
    /// `Value` for factors outside (0, 1] and [0, 1].
    pub fn new(
        optimizer: &mut dyn Optimizer,
        start_factor: f64,
        end_factor: f64,
        total_iters: i64,
    ) -> Result<Self> {
        ensure!(
            start_factor > 0.0 && start_factor <= 1.0,
            Value,
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
        );
        ensure!(
            (0.0..=1.0).contains(&end_factor),
            Value,
            "Ending multiplicative factor expected to be between 0 and 1."
        );
        Self::of(optimizer, LinearRule { start_factor, end_factor, total_iters })
    }
}

impl RateRule for LinearRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        if at.epoch == 0 {
            return Ok(at.rate * self.start_factor);
        }
        if at.is_initial || at.epoch > self.total_iters {
            return Ok(at.rate);
        }
        let rise = self.end_factor - self.start_factor;
        let before = self.total_iters as f64 * self.start_factor + (at.epoch - 1) as f64 * rise;
        Ok(at.rate * (1.0 + rise / before))
    }

    fn closed_form(&self, epoch: i64, base: f64, _: usize) -> Option<f64> {
        let done = share(epoch, self.total_iters)?;
        Some(base * (self.start_factor + (self.end_factor - self.start_factor) * done))
    }

    fields!("start_factor" => start_factor, "end_factor" => end_factor, "total_iters" => total_iters);
}

/// `lr * gamma` every epoch.
#[doc = schedule_example!("ExponentialLR::new(&mut optimizer, 0.5)?", "0.00625")]
pub type ExponentialLR = Scheduled<ExponentialRule>;

/// The formula of [`ExponentialLR`].
#[doc = formula_example!("ExponentialLR::new(&mut optimizer, 0.5)?", "gamma")]
#[derive(Clone, Debug)]
pub struct ExponentialRule {
    /// Factor of each epoch.
    pub gamma: f64,
}

impl ExponentialLR {
    /// A schedule with this factor.
    ///
    /// # Errors
    /// None of its own.
    pub fn new(optimizer: &mut dyn Optimizer, gamma: f64) -> Result<Self> {
        Self::of(optimizer, ExponentialRule { gamma })
    }
}

impl RateRule for ExponentialRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        Ok(if at.is_initial { at.rate } else { at.rate * self.gamma })
    }

    fn closed_form(&self, epoch: i64, base: f64, _: usize) -> Option<f64> {
        Some(base * self.gamma.powf(epoch as f64))
    }

    fields!("gamma" => gamma);
}

/// `base_lr * (1 - epoch / total_iters)^power`.
#[doc = schedule_example!("PolynomialLR::new(&mut optimizer, 4, 1.0)?", "0.0")]
pub type PolynomialLR = Scheduled<PolynomialRule>;

/// The formula of [`PolynomialLR`].
#[doc = formula_example!("PolynomialLR::new(&mut optimizer, 4, 1.0)?", "power")]
#[derive(Clone, Debug)]
pub struct PolynomialRule {
    /// Number of epochs until the rate is zero.
    pub total_iters: i64,
    /// Power of what is left.
    pub power: f64,
}

impl PolynomialLR {
    /// PyTorch's defaults are 5 epochs and a power of 1.
    ///
    /// # Errors
    /// None of its own.
    pub fn new(optimizer: &mut dyn Optimizer, total_iters: i64, power: f64) -> Result<Self> {
        Self::of(optimizer, PolynomialRule { total_iters, power })
    }
}

impl RateRule for PolynomialRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        if at.is_initial || at.epoch > self.total_iters {
            return Ok(at.rate);
        }
        let left = |epoch: i64| 1.0 - epoch as f64 / self.total_iters as f64;
        Ok(at.rate * (left(at.epoch) / left(at.epoch - 1)).powf(self.power))
    }

    fn closed_form(&self, epoch: i64, base: f64, _: usize) -> Option<f64> {
        let done = share(epoch, self.total_iters)?;
        Some(base * (1.0 - done).powf(self.power))
    }

    fields!("total_iters" => total_iters, "power" => power);
}

/// From the base rate to `eta_min` along half a cosine of `T_max` epochs, and back.
#[doc = schedule_example!("CosineAnnealingLR::new(&mut optimizer, 4, 0.0)?", "0.0")]
pub type CosineAnnealingLR = Scheduled<CosineAnnealingRule>;

/// The formula of [`CosineAnnealingLR`].
#[doc = formula_example!("CosineAnnealingLR::new(&mut optimizer, 4, 0.0)?", "T_max")]
#[derive(Clone, Debug)]
pub struct CosineAnnealingRule {
    /// Length of the half cosine.
    pub t_max: i64,
    /// The least rate.
    pub eta_min: f64,
}

impl CosineAnnealingLR {
    /// PyTorch's default of `eta_min` is 0.
    ///
    /// # Errors
    /// `Value` for a length below 1.
    pub fn new(optimizer: &mut dyn Optimizer, t_max: i64, eta_min: f64) -> Result<Self> {
        ensure!(t_max > 0, Value, "T_max must be positive, but got {t_max}");
        Self::of(optimizer, CosineAnnealingRule { t_max, eta_min })
    }
}

impl RateRule for CosineAnnealingRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        let (low, t_max, epoch) = (self.eta_min, self.t_max.max(1), at.epoch);
        if at.is_initial {
            return Ok(at.rate);
        }
        if (epoch - 1 - t_max) % (2 * t_max) == 0 {
            let rise = (1.0 - (PI / t_max as f64).cos()) / 2.0;
            return Ok(at.rate + (at.base - low) * rise);
        }
        let height = |epoch: i64| 1.0 + (PI * epoch as f64 / t_max as f64).cos();
        Ok(height(epoch) / height(epoch - 1) * (at.rate - low) + low)
    }

    fn closed_form(&self, epoch: i64, base: f64, _: usize) -> Option<f64> {
        let height = (1.0 + (PI * epoch as f64 / self.t_max.max(1) as f64).cos()) / 2.0;
        Some(self.eta_min + (base - self.eta_min) * height)
    }

    fields!("T_max" => t_max, "eta_min" => eta_min);
}

/// A factor for each epoch.
pub type EpochFunction = Arc<dyn Fn(i64) -> f64 + Send + Sync>;

/// `base_lr` times a function of the epoch.
#[doc = schedule_example!("LambdaLR::new(&mut optimizer, |epoch| 1.0 / (1 + epoch) as f64)?", "0.02")]
pub type LambdaLR = Scheduled<LambdaRule>;

/// The formula of [`LambdaLR`].
#[doc = formula_example!("LambdaLR::new(&mut optimizer, |epoch| 1.0 / (1 + epoch) as f64)?", "lr_lambdas")]
#[derive(Clone)]
pub struct LambdaRule {
    functions: Vec<EpochFunction>,
}

/// `lr` times a function of the epoch.
#[doc = schedule_example!("MultiplicativeLR::new(&mut optimizer, |_| 0.5)?", "0.00625")]
pub type MultiplicativeLR = Scheduled<MultiplicativeRule>;

/// The formula of [`MultiplicativeLR`].
#[doc = formula_example!("MultiplicativeLR::new(&mut optimizer, |_| 0.5)?", "lr_lambdas")]
#[derive(Clone)]
pub struct MultiplicativeRule {
    functions: Vec<EpochFunction>,
}

/// One function for all groups, or one for each.
fn spread(optimizer: &dyn Optimizer, functions: Vec<EpochFunction>) -> Result<Vec<EpochFunction>> {
    let count = optimizer.group_count();
    if let [one] = functions.as_slice() {
        return Ok((0..count).map(|_| Arc::clone(one)).collect());
    }
    let given = functions.len();
    ensure!(given == count, Value, "Expected {count} lr_lambdas, but got {given}");
    Ok(functions)
}

impl LambdaLR {
    /// A schedule by one function.
    ///
    /// # Errors
    /// None of its own.
    pub fn new(
        optimizer: &mut dyn Optimizer,
        function: impl Fn(i64) -> f64 + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::by_group(optimizer, vec![Arc::new(function)])
    }

    /// A schedule by a function for each group.
    ///
    /// # Errors
    /// `Value` where there are not as many as groups.
    pub fn by_group(optimizer: &mut dyn Optimizer, functions: Vec<EpochFunction>) -> Result<Self> {
        let functions = spread(optimizer, functions)?;
        Self::of(optimizer, LambdaRule { functions })
    }
}

impl RateRule for LambdaRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        Ok(at.base * (self.functions[at.group])(at.epoch))
    }

    fn fields(&self) -> Vec<(String, Value)> {
        lambdas(&self.functions)
    }

    fn set_field(&mut self, _: &str, _: &Value) -> bool {
        true
    }
}

/// Functions are not saved; PyTorch's files have a place for each.
fn lambdas(functions: &[EpochFunction]) -> Vec<(String, Value)> {
    vec![("lr_lambdas".to_owned(), Value::List(functions.iter().map(|_| Value::None).collect()))]
}

impl MultiplicativeLR {
    /// A schedule by one function.
    ///
    /// # Errors
    /// None of its own.
    pub fn new(
        optimizer: &mut dyn Optimizer,
        function: impl Fn(i64) -> f64 + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::by_group(optimizer, vec![Arc::new(function)])
    }

    /// A schedule by a function for each group.
    ///
    /// # Errors
    /// `Value` where there are not as many as groups.
    pub fn by_group(optimizer: &mut dyn Optimizer, functions: Vec<EpochFunction>) -> Result<Self> {
        let functions = spread(optimizer, functions)?;
        Self::of(optimizer, MultiplicativeRule { functions })
    }
}

impl RateRule for MultiplicativeRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        Ok(if at.is_initial { at.rate } else { at.rate * (self.functions[at.group])(at.epoch) })
    }

    fn fields(&self) -> Vec<(String, Value)> {
        lambdas(&self.functions)
    }

    fn set_field(&mut self, _: &str, _: &Value) -> bool {
        true
    }
}
