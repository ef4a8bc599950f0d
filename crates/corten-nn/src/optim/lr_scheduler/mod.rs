//! Schedules of learning rates.
//!
//! A scheduler is made for an optimizer, whose rates it sets, and goes on by one epoch (or step) with
//! [`LrScheduler::step`], after the optimizer's step:
//!
//! ```
//! use corten::nn::optim::lr_scheduler::{LrScheduler, StepLR};
//! use corten::nn::optim::{Optimizer, Sgd, SgdOptions};
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let model = Linear::new(2, 1)?;
//! let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;
//! let mut scheduler = StepLR::new(&mut optimizer, 2, 0.5)?;
//! for _ in 0..4 {
//!     optimizer.step()?;
//!     scheduler.step(&mut optimizer)?;
//! }
//! assert_eq!(optimizer.lr(), 0.025);
//! # Ok(())
//! # }
//! ```

/// An example of a schedule: the rate that began as 0.1, after four epochs.
macro_rules! schedule_example {
    ($new:literal, $rate:literal) => {
        concat!(
            "\n```\nuse corten::nn::optim::lr_scheduler::*;\nuse corten::prelude::*;\n\n",
            "# fn main() -> Result<()> {\nlet model = Linear::new(2, 1)?;\n",
            "let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;\n",
            "let mut scheduler = ", $new, ";\n",
            "for _ in 0..4 {\n    optimizer.step()?;\n    scheduler.step(&mut optimizer)?;\n}\n",
            "assert!((optimizer.lr() - ", $rate, ").abs() < 1e-9);\n# Ok(())\n# }\n```"
        )
    };
}

/// An example of the formula of a schedule: what files keep of it.
macro_rules! formula_example {
    ($new:literal, $field:literal) => {
        concat!(
            "\n```\nuse corten::nn::optim::lr_scheduler::*;\nuse corten::prelude::*;\n\n",
            "# fn main() -> Result<()> {\nlet model = Linear::new(2, 1)?;\n",
            "let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;\n",
            "let scheduler = ", $new, ";\n",
            "assert!(scheduler.rule.fields().iter().any(|(name, _)| name == \"", $field, "\"));\n",
            "# Ok(())\n# }\n```"
        )
    };
}

mod chains;
mod cyclic;
mod formulas;
mod plateau;
mod scheduled;

pub use chains::{BoxedScheduler, ChainedScheduler, SequentialLR};
pub use cyclic::{
    AnnealStrategy, CosineAnnealingWarmRestarts, CyclicLR, CyclicMode, CyclicOptions, CyclicRule,
    OneCycleLR, OneCycleOptions, OneCycleRule, SWALR, SwaRule, WarmRestartsRule,
};
pub use formulas::{
    ConstantLR, ConstantRule, CosineAnnealingLR, CosineAnnealingRule, EpochFunction, ExponentialLR,
    ExponentialRule, LambdaLR, LambdaRule, LinearLR, LinearRule, MultiStepLR, MultiStepRule,
    MultiplicativeLR, MultiplicativeRule, PolynomialLR, PolynomialRule, StepLR, StepRule,
};
pub use plateau::{PlateauMode, PlateauOptions, ReduceLROnPlateau, ThresholdMode};
pub use scheduled::{Moment, RateRule, Scheduled};

use super::{Optimizer, Value};
use corten_core::Result;

/// Sets the learning rates of an optimizer.
///
/// ```
/// use corten::nn::optim::{Optimizer, Sgd, SgdOptions, lr_scheduler::*};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;
/// let mut scheduler: Box<dyn LrScheduler> = Box::new(ExponentialLR::new(&mut optimizer, 0.5)?);
/// scheduler.step(&mut optimizer)?;
/// assert_eq!((scheduler.last_epoch(), scheduler.last_lr()), (1, vec![0.05]));
/// # Ok(())
/// # }
/// ```
pub trait LrScheduler {
    /// Goes on by one epoch and sets the rates.
    ///
    /// # Errors
    /// `Value` where a schedule has an end and is behind it.
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()>;

    /// Sets the rates of epoch 0 from those that the optimizer has, as when the schedule was made.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    fn begin(&mut self, optimizer: &mut dyn Optimizer) -> Result<()>;

    /// Goes back to epoch 0 in the midst of training, and sets its rates.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    fn restart(&mut self, optimizer: &mut dyn Optimizer) -> Result<()>;

    /// The rates last set, by group.
    fn last_lr(&self) -> Vec<f64>;

    /// The epoch whose rates are set, from 0.
    fn last_epoch(&self) -> i64;

    /// All fields under PyTorch's names.
    fn state_dict(&self) -> Vec<(String, Value)>;

    /// Takes back what [`state_dict`](Self::state_dict) gave, or PyTorch's.
    ///
    /// # Errors
    /// `Value` for fields of another type.
    fn load_state_dict(&mut self, state: &[(String, Value)]) -> Result<()>;
}

fn find<'a>(state: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    state.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.elements()?.iter().map(Value::number).collect()
}

fn list(numbers: &[f64]) -> Value {
    Value::List(numbers.iter().copied().map(Value::Float).collect())
}

fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        _ => None,
    }
}

/// The rates of an optimizer, by group.
fn rates(optimizer: &dyn Optimizer) -> Vec<f64> {
    (0..optimizer.group_count()).map(|group| optimizer.group_lr(group)).collect()
}

/// Sets what a schedule keeps with a group.
fn keep(optimizer: &mut dyn Optimizer, group: usize, name: &str, value: f64) {
    let extra = optimizer.extra(group);
    match extra.iter_mut().find(|(known, _)| known == name) {
        Some((_, held)) => *held = Value::Float(value),
        None => extra.push((name.to_owned(), Value::Float(value))),
    }
}

/// What a schedule has kept with a group.
fn kept(optimizer: &mut dyn Optimizer, group: usize, name: &str) -> Option<f64> {
    find(optimizer.extra(group), name).and_then(Value::number)
}
