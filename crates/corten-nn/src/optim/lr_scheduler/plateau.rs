//! The schedule that watches a metric.

use super::super::{Optimizer, Value};
use super::scheduled::Field;
use super::{list, rates};
use corten_core::{Result, ensure, err};

/// Whether a metric is to fall or to rise.
///
/// ```
/// use corten::nn::optim::lr_scheduler::{PlateauMode, PlateauOptions};
///
/// let of_accuracy = PlateauOptions { mode: PlateauMode::Max, ..Default::default() };
/// assert_eq!(of_accuracy.patience, 10);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlateauMode {
    /// Less is better.
    #[default]
    Min,
    /// More is better.
    Max,
}

/// What the threshold of an improvement is a share of.
///
/// ```
/// use corten::nn::optim::lr_scheduler::{PlateauOptions, ThresholdMode};
///
/// let absolute = PlateauOptions { threshold: 0.01, threshold_mode: ThresholdMode::Abs, ..Default::default() };
/// assert_eq!(absolute.factor, 0.1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThresholdMode {
    /// Of the best metric.
    #[default]
    Rel,
    /// Nothing: it is a difference.
    Abs,
}

/// Settings of [`ReduceLROnPlateau`].
///
/// ```
/// assert_eq!(corten::nn::optim::lr_scheduler::PlateauOptions::default().factor, 0.1);
/// ```
#[derive(Clone, Debug)]
pub struct PlateauOptions {
    /// Whether the metric is to fall or to rise.
    pub mode: PlateauMode,
    /// Factor of each reduction.
    pub factor: f64,
    /// Epochs without improvement that are waited.
    pub patience: i64,
    /// What counts as an improvement.
    pub threshold: f64,
    /// How the threshold is meant.
    pub threshold_mode: ThresholdMode,
    /// Epochs after a reduction that do not count.
    pub cooldown: i64,
    /// The least rate.
    pub min_lr: f64,
    /// Reductions by less are not made.
    pub eps: f64,
}

impl Default for PlateauOptions {
    fn default() -> Self {
        Self {
            mode: PlateauMode::Min,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            threshold_mode: ThresholdMode::Rel,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
        }
    }
}

/// `lr * factor` when a metric has not improved for more than `patience` epochs.
///
/// ```
/// use corten::nn::optim::{Optimizer, Sgd, SgdOptions, lr_scheduler::*};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;
/// let options = PlateauOptions { patience: 1, ..Default::default() };
/// let mut scheduler = ReduceLROnPlateau::new(&optimizer, options)?;
/// for loss in [1.0, 1.0, 1.0] {
///     scheduler.step(&mut optimizer, loss);
/// }
/// assert!((optimizer.lr() - 0.01).abs() < 1e-9);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReduceLROnPlateau {
    /// The settings.
    pub options: PlateauOptions,
    best: f64,
    bad_epochs: i64,
    cooldown: i64,
    last_epoch: i64,
    last_lr: Vec<f64>,
}

impl ReduceLROnPlateau {
    /// A schedule for an optimizer.
    ///
    /// # Errors
    /// `Value` for a factor of 1 or more.
    pub fn new(optimizer: &dyn Optimizer, options: PlateauOptions) -> Result<Self> {
        ensure!(options.factor < 1.0, Value, "Factor should be < 1.0.");
        let best = worst(options.mode);
        let last_lr = rates(optimizer);
        Ok(Self { options, best, bad_epochs: 0, cooldown: 0, last_epoch: 0, last_lr })
    }

    /// Goes on by one epoch, in which the metric was `metric`.
    pub fn step(&mut self, optimizer: &mut dyn Optimizer, metric: f64) {
        self.last_epoch += 1;
        if self.is_better(metric) {
            (self.best, self.bad_epochs) = (metric, 0);
        } else {
            self.bad_epochs += 1;
        }
        if self.cooldown > 0 {
            self.cooldown -= 1;
            self.bad_epochs = 0;
        }
        if self.bad_epochs > self.options.patience {
            self.reduce(optimizer);
            (self.cooldown, self.bad_epochs) = (self.options.cooldown, 0);
        }
        self.last_lr = rates(optimizer);
    }

    /// The rates last set, by group.
    pub fn last_lr(&self) -> &[f64] {
        &self.last_lr
    }

    fn reduce(&self, optimizer: &mut dyn Optimizer) {
        for group in 0..optimizer.group_count() {
            let old = optimizer.group_lr(group);
            let new = (old * self.options.factor).max(self.options.min_lr);
            if old - new > self.options.eps {
                optimizer.set_group_lr(group, new);
            }
        }
    }

    fn is_better(&self, metric: f64) -> bool {
        let PlateauOptions { mode, threshold, threshold_mode, .. } = self.options;
        let sign = if mode == PlateauMode::Max { 1.0 } else { -1.0 };
        let limit = match threshold_mode {
            ThresholdMode::Rel => self.best * (1.0 + sign * threshold),
            ThresholdMode::Abs => self.best + sign * threshold,
        };
        if mode == PlateauMode::Max { metric > limit } else { metric < limit }
    }

    /// All fields under PyTorch's names.
    pub fn state_dict(&self) -> Vec<(String, Value)> {
        let options = &self.options;
        let text = |text: &str| Value::Text(text.to_owned());
        let mode = text(if options.mode == PlateauMode::Min { "min" } else { "max" });
        let threshold_mode =
            text(if options.threshold_mode == ThresholdMode::Rel { "rel" } else { "abs" });
        let fields = [
            ("factor", Value::Float(options.factor)),
            (
                "min_lrs",
                Value::List(self.last_lr.iter().map(|_| Value::Float(options.min_lr)).collect()),
            ),
            ("default_min_lr", Value::Float(options.min_lr)),
            ("patience", Value::Int(options.patience)),
            ("cooldown", Value::Int(options.cooldown)),
            ("eps", Value::Float(options.eps)),
            ("mode", mode),
            ("threshold", Value::Float(options.threshold)),
            ("threshold_mode", threshold_mode),
            ("mode_worse", Value::Float(worst(options.mode))),
            ("last_epoch", Value::Int(self.last_epoch)),
            ("_last_lr", list(&self.last_lr)),
            ("best", Value::Float(self.best)),
            ("cooldown_counter", Value::Int(self.cooldown)),
            ("num_bad_epochs", Value::Int(self.bad_epochs)),
        ];
        fields.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// Takes back what [`state_dict`](Self::state_dict) gave, or PyTorch's.
    ///
    /// # Errors
    /// `Value` for fields of another type.
    pub fn load_state_dict(&mut self, state: &[(String, Value)]) -> Result<()> {
        let mut loaded = self.clone();
        for (name, value) in state {
            if !loaded.set(name, value) {
                return Err(err!(Value, "the state of a scheduler has a wrong '{name}'"));
            }
        }
        *self = loaded;
        Ok(())
    }

    fn set(&mut self, name: &str, value: &Value) -> bool {
        fn put<T: Field>(place: &mut T, value: &Value) -> bool {
            T::from_value(value).map(|value| *place = value).is_some()
        }
        let options = &mut self.options;
        match (name, value) {
            ("factor", value) => put(&mut options.factor, value),
            ("patience", value) => put(&mut options.patience, value),
            ("cooldown", value) => put(&mut options.cooldown, value),
            ("eps", value) => put(&mut options.eps, value),
            ("threshold", value) => put(&mut options.threshold, value),
            ("default_min_lr", Value::None) => true,
            ("default_min_lr", value) => put(&mut options.min_lr, value),
            ("last_epoch", value) => put(&mut self.last_epoch, value),
            ("_last_lr", value) => put(&mut self.last_lr, value),
            ("best", value) => put(&mut self.best, value),
            ("cooldown_counter", value) => put(&mut self.cooldown, value),
            ("num_bad_epochs", value) => put(&mut self.bad_epochs, value),
            ("mode", Value::Text(name)) => {
                options.mode = if name == "max" { PlateauMode::Max } else { PlateauMode::Min };
                true
            }
            ("threshold_mode", Value::Text(name)) => {
                options.threshold_mode =
                    if name == "abs" { ThresholdMode::Abs } else { ThresholdMode::Rel };
                true
            }
            ("mode" | "threshold_mode", _) => false,
            _ => true,
        }
    }
}

fn worst(mode: PlateauMode) -> f64 {
    if mode == PlateauMode::Min { f64::INFINITY } else { f64::NEG_INFINITY }
}
