//! Schedules that are a formula of the epoch.

use super::super::{Optimizer, Value};
use super::{LrScheduler, find, int, keep, kept, list, numbers};
use corten_core::{Result, ensure, err};

/// What a rate is computed from.
///
/// ```
/// use corten::nn::optim::lr_scheduler::{Moment, RateRule, StepRule};
///
/// let at = Moment { epoch: 2, group: 0, base: 0.1, rate: 0.1, is_initial: false, step_count: 3 };
/// assert_eq!(StepRule { step_size: 2, gamma: 0.5 }.rate(&at)?, 0.05);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The epoch, from 0.
    pub epoch: i64,
    /// The group.
    pub group: usize,
    /// The rate at epoch 0.
    pub base: f64,
    /// The rate now.
    pub rate: f64,
    /// Whether the schedule is just being made.
    pub is_initial: bool,
    /// How often the schedule has gone on, this time included.
    pub step_count: i64,
}

/// The formula of a schedule.
///
/// ```
/// use corten::nn::optim::Value;
/// use corten::nn::optim::lr_scheduler::{LrScheduler, Moment, RateRule, Scheduled};
/// use corten::prelude::*;
///
/// /// `base_lr / sqrt(epoch + 1)`.
/// struct InverseRoot;
///
/// impl RateRule for InverseRoot {
///     fn rate(&self, at: &Moment) -> Result<f64> {
///         Ok(at.base / ((at.epoch + 1) as f64).sqrt())
///     }
///
///     fn fields(&self) -> Vec<(String, Value)> {
///         Vec::new()
///     }
///
///     fn set_field(&mut self, _: &str, _: &Value) -> bool {
///         true
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;
/// let mut scheduler = Scheduled::of(&mut optimizer, InverseRoot)?;
/// for _ in 0..3 {
///     scheduler.step(&mut optimizer)?;
/// }
/// assert!((optimizer.lr() - 0.05).abs() < 1e-9);
/// # Ok(())
/// # }
/// ```
pub trait RateRule {
    /// The rate of an epoch.
    ///
    /// # Errors
    /// `Value` behind the end of a schedule.
    fn rate(&self, at: &Moment) -> Result<f64>;

    /// The rate of an epoch from the base rate alone, where there is such a formula.
    fn closed_form(&self, _epoch: i64, _base: f64, _group: usize) -> Option<f64> {
        None
    }

    /// Goes on to an epoch; `is_jump` says that it is not the next one.
    fn advance(&mut self, _epoch: i64, _is_jump: bool) {}

    /// Sets what the schedule governs beside the rates, for the epoch.
    fn govern(&self, _optimizer: &mut dyn Optimizer, _epoch: i64) {}

    /// The settings under PyTorch's names.
    fn fields(&self) -> Vec<(String, Value)>;

    /// Takes over a setting of a file; whether the value has the right type. Unknown names are left.
    fn set_field(&mut self, name: &str, value: &Value) -> bool;
}

/// A schedule of a formula. The schedules are aliases of it, such as [`StepLR`](super::StepLR).
///
/// ```
/// use corten::nn::optim::{Optimizer, Sgd, SgdOptions, lr_scheduler::*};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;
/// let scheduler = Scheduled::of(&mut optimizer, StepRule { step_size: 2, gamma: 0.5 })?;
/// assert_eq!(scheduler.rule.step_size, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Scheduled<R> {
    /// The formula with its settings.
    pub rule: R,
    base_lrs: Vec<f64>,
    last_epoch: i64,
    step_count: i64,
    last_lr: Vec<f64>,
}

impl<R: RateRule> Scheduled<R> {
    /// A schedule for an optimizer, whose rates are set to those of epoch 0.
    ///
    /// # Errors
    /// Those of the formula.
    pub fn of(optimizer: &mut dyn Optimizer, rule: R) -> Result<Self> {
        let groups = 0..optimizer.group_count();
        for group in groups.clone() {
            if kept(optimizer, group, "initial_lr").is_none() {
                let lr = optimizer.group_lr(group);
                keep(optimizer, group, "initial_lr", lr);
            }
        }
        let base_lrs = groups.map(|group| kept(optimizer, group, "initial_lr").unwrap_or(0.0));
        let base_lrs = base_lrs.collect();
        Self::with_bases(optimizer, rule, base_lrs)
    }

    /// As [`of`](Self::of) with other rates at epoch 0 than the optimizer's.
    pub(super) fn with_bases(
        optimizer: &mut dyn Optimizer,
        rule: R,
        base_lrs: Vec<f64>,
    ) -> Result<Self> {
        let mut made = Self { rule, base_lrs, last_epoch: -1, step_count: 0, last_lr: Vec::new() };
        made.begin(optimizer)?;
        Ok(made)
    }

    /// Sets the rates of an epoch, after [`RateRule::advance`].
    fn go(&mut self, optimizer: &mut dyn Optimizer, epoch: i64, is_initial: bool) -> Result<()> {
        self.check_groups(optimizer)?;
        self.step_count += 1;
        let mut rates = Vec::new();
        for (group, &base) in self.base_lrs.iter().enumerate() {
            let (rate, step_count) = (optimizer.group_lr(group), self.step_count);
            let at = Moment { epoch, group, base, rate, is_initial, step_count };
            rates.push(self.rule.rate(&at)?);
        }
        self.apply(optimizer, epoch, rates);
        Ok(())
    }

    fn check_groups(&self, optimizer: &dyn Optimizer) -> Result<()> {
        let (made_for, given) = (self.base_lrs.len(), optimizer.group_count());
        ensure!(
            given >= made_for,
            Value,
            "a scheduler made for {made_for} parameter groups was given an optimizer with {given}"
        );
        Ok(())
    }

    fn apply(&mut self, optimizer: &mut dyn Optimizer, epoch: i64, rates: Vec<f64>) {
        for (group, &rate) in rates.iter().enumerate() {
            optimizer.set_group_lr(group, rate);
        }
        self.rule.govern(optimizer, epoch);
        (self.last_epoch, self.last_lr) = (epoch, rates);
    }
}

impl<R: RateRule> LrScheduler for Scheduled<R> {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let epoch = self.last_epoch + 1;
        self.rule.advance(epoch, false);
        self.go(optimizer, epoch, false)
    }

    fn begin(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.step_count = 0;
        self.rule.advance(0, true);
        self.go(optimizer, 0, true)
    }

    fn restart(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.rule.advance(0, true);
        let bases = self.base_lrs.iter().enumerate();
        let closed = bases.map(|(group, &base)| self.rule.closed_form(0, base, group));
        match closed.collect::<Option<Vec<f64>>>() {
            Some(rates) => {
                self.check_groups(optimizer)?;
                self.step_count += 1;
                self.apply(optimizer, 0, rates);
                Ok(())
            }
            None => self.go(optimizer, 0, false),
        }
    }

    fn last_lr(&self) -> Vec<f64> {
        self.last_lr.clone()
    }

    fn last_epoch(&self) -> i64 {
        self.last_epoch
    }

    fn state_dict(&self) -> Vec<(String, Value)> {
        let mut fields = self.rule.fields();
        let own = [
            ("base_lrs", list(&self.base_lrs)),
            ("last_epoch", Value::Int(self.last_epoch)),
            ("_step_count", Value::Int(self.step_count)),
            ("_is_initial", Value::Bool(false)),
            ("_get_lr_called_within_step", Value::Bool(false)),
            ("_last_lr", list(&self.last_lr)),
        ];
        fields.extend(own.map(|(name, value)| (name.to_owned(), value)));
        fields
    }

    fn load_state_dict(&mut self, state: &[(String, Value)]) -> Result<()> {
        let refused = |name: &str| err!(Value, "the state of a scheduler has a wrong '{name}'");
        let number = |name: &str, now: i64| match find(state, name) {
            Some(value) => int(value).ok_or_else(|| refused(name)),
            None => Ok(now),
        };
        let rates = |name: &str, now: &[f64]| match find(state, name) {
            Some(value) => numbers(value).ok_or_else(|| refused(name)),
            None => Ok(now.to_vec()),
        };
        let (epoch, count) =
            (number("last_epoch", self.last_epoch)?, number("_step_count", self.step_count)?);
        let (bases, last) = (rates("base_lrs", &self.base_lrs)?, rates("_last_lr", &self.last_lr)?);
        ensure!(
            bases.len() == self.base_lrs.len() && last.len() >= bases.len(),
            Value,
            "the state of a scheduler is of {} parameter groups, but the scheduler has {}",
            bases.len(),
            self.base_lrs.len()
        );
        for (name, value) in state {
            if !self.rule.set_field(name, value) {
                return Err(refused(name));
            }
        }
        (self.last_epoch, self.step_count) = (epoch, count);
        (self.base_lrs, self.last_lr) = (bases, last);
        Ok(())
    }
}

/// Writes [`RateRule::fields`] and [`RateRule::set_field`] for named fields.
macro_rules! fields {
    ($($name:literal => $field:ident),* $(,)?) => {
        fn fields(&self) -> Vec<(String, Value)> {
            vec![$(($name.to_owned(), Field::to_value(&self.$field)),)*]
        }

        fn set_field(&mut self, name: &str, value: &Value) -> bool {
            match name {
                $($name => Field::from_value(value).map(|value| self.$field = value).is_some(),)*
                _ => true,
            }
        }
    };
}
pub(super) use fields;

/// What a field of a formula is in a file.
pub(super) trait Field: Sized {
    fn to_value(&self) -> Value;
    fn from_value(value: &Value) -> Option<Self>;
}

impl Field for i64 {
    fn to_value(&self) -> Value {
        Value::Int(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Int(value) => Some(*value),
            // Sizes of cycles are floats in PyTorch.
            Value::Float(value) if value.fract() == 0.0 => Some(*value as Self),
            _ => None,
        }
    }
}

impl Field for f64 {
    fn to_value(&self) -> Value {
        Value::Float(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        value.number()
    }
}

impl Field for bool {
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl Field for Vec<f64> {
    fn to_value(&self) -> Value {
        list(self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        numbers(value)
    }
}
