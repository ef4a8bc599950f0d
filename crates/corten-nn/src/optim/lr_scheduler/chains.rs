//! Schedules of schedules.

use super::super::{Optimizer, Value};
use super::{LrScheduler, find, int, kept, list, rates};
use corten_core::{Result, ensure, err};

/// A schedule in a chain.
pub type BoxedScheduler = Box<dyn LrScheduler>;

/// One schedule after another, changing at the milestones.
///
/// The schedules are made for the same optimizer before, each with its first rates; the chain sets the rates of
/// epoch 0 of the first one.
///
/// ```
/// use corten::nn::optim::{Optimizer, Sgd, SgdOptions, lr_scheduler::*};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;
/// let warmup = LinearLR::new(&mut optimizer, 0.5, 1.0, 2)?;
/// let decay = ExponentialLR::new(&mut optimizer, 0.5)?;
/// let mut scheduler =
///     SequentialLR::new(&mut optimizer, vec![Box::new(warmup), Box::new(decay)], &[2])?;
/// for _ in 0..4 {
///     scheduler.step(&mut optimizer)?;
/// }
/// assert!((optimizer.lr() - 0.025).abs() < 1e-9);
/// # Ok(())
/// # }
/// ```
pub struct SequentialLR {
    schedulers: Vec<BoxedScheduler>,
    milestones: Vec<i64>,
    last_epoch: i64,
}

impl SequentialLR {
    /// A chain; the schedule `i + 1` begins at the milestone `i`.
    ///
    /// # Errors
    /// `Value` without schedules, or where there is not one milestone less than schedules.
    pub fn new(
        optimizer: &mut dyn Optimizer,
        schedulers: Vec<BoxedScheduler>,
        milestones: &[i64],
    ) -> Result<Self> {
        check_some("SequentialLR", &schedulers)?;
        let (count, given) = (schedulers.len(), milestones.len());
        ensure!(
            given + 1 == count,
            Value,
            "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone points, but got number of schedulers {count} and the number of milestones to be equal to {given}"
        );
        let mut made = Self { schedulers, milestones: milestones.to_vec(), last_epoch: 0 };
        made.begin(optimizer)?;
        Ok(made)
    }

    /// Whose turn an epoch is.
    fn turn(&self, epoch: i64) -> usize {
        self.milestones.partition_point(|&milestone| milestone <= epoch)
    }
}

fn check_some(name: &str, schedulers: &[BoxedScheduler]) -> Result<()> {
    ensure!(
        !schedulers.is_empty(),
        Value,
        "{name} expects at least one scheduler to be chained, but got no scheduler."
    );
    Ok(())
}

/// Sets the rates that the optimizer began with.
fn rewind(optimizer: &mut dyn Optimizer) {
    for group in 0..optimizer.group_count() {
        if let Some(lr) = kept(optimizer, group, "initial_lr") {
            optimizer.set_group_lr(group, lr);
        }
    }
}

impl LrScheduler for SequentialLR {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.last_epoch += 1;
        let turn = self.turn(self.last_epoch);
        let begins = turn > 0 && self.milestones[turn - 1] == self.last_epoch;
        let scheduler = &mut self.schedulers[turn];
        if begins { scheduler.restart(optimizer) } else { scheduler.step(optimizer) }
    }

    fn begin(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        rewind(optimizer);
        self.last_epoch = 0;
        let turn = self.turn(0);
        self.schedulers[turn].begin(optimizer)
    }

    fn restart(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.begin(optimizer)
    }

    fn last_lr(&self) -> Vec<f64> {
        self.schedulers[self.turn(self.last_epoch)].last_lr()
    }

    fn last_epoch(&self) -> i64 {
        self.last_epoch
    }

    fn state_dict(&self) -> Vec<(String, Value)> {
        let milestones = self.milestones.iter().copied().map(Value::Int).collect();
        vec![
            ("_milestones".to_owned(), Value::List(milestones)),
            ("last_epoch".to_owned(), Value::Int(self.last_epoch)),
            ("_last_lr".to_owned(), list(&self.last_lr())),
            ("_schedulers".to_owned(), parts(&self.schedulers)),
        ]
    }

    fn load_state_dict(&mut self, state: &[(String, Value)]) -> Result<()> {
        let epoch = find(state, "last_epoch").and_then(int);
        let milestones = find(state, "_milestones").and_then(Value::elements);
        let milestones = milestones.and_then(|all| all.iter().map(int).collect::<Option<Vec<_>>>());
        let (Some(epoch), Some(milestones)) = (epoch, milestones) else {
            return Err(err!(Value, "not the state of a SequentialLR"));
        };
        ensure!(
            milestones.len() + 1 == self.schedulers.len(),
            Value,
            "the state of a SequentialLR has another number of schedulers"
        );
        load_parts(&mut self.schedulers, state)?;
        (self.last_epoch, self.milestones) = (epoch, milestones);
        Ok(())
    }
}

fn parts(schedulers: &[BoxedScheduler]) -> Value {
    Value::List(schedulers.iter().map(|part| Value::named(&part.state_dict())).collect())
}

fn load_parts(schedulers: &mut [BoxedScheduler], state: &[(String, Value)]) -> Result<()> {
    let saved = find(state, "_schedulers").and_then(Value::elements).unwrap_or_default();
    ensure!(
        saved.len() == schedulers.len(),
        Value,
        "the state of a chain of schedulers has another number of them"
    );
    for (scheduler, state) in schedulers.iter_mut().zip(saved) {
        let entries = state.entries();
        let entries =
            entries.ok_or_else(|| err!(Value, "the state of a scheduler must be named"))?;
        scheduler.load_state_dict(&entries)?;
    }
    Ok(())
}

/// Several schedules at once.
///
/// ```
/// use corten::nn::optim::{Optimizer, Sgd, SgdOptions, lr_scheduler::*};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;
/// let step = StepLR::new(&mut optimizer, 2, 0.5)?;
/// let decay = ExponentialLR::new(&mut optimizer, 0.5)?;
/// let mut scheduler = ChainedScheduler::new(&optimizer, vec![Box::new(step), Box::new(decay)])?;
/// for _ in 0..2 {
///     scheduler.step(&mut optimizer)?;
/// }
/// assert!((optimizer.lr() - 0.0125).abs() < 1e-9);
/// # Ok(())
/// # }
/// ```
pub struct ChainedScheduler {
    schedulers: Vec<BoxedScheduler>,
    last_lr: Vec<f64>,
}

impl ChainedScheduler {
    /// A chain of schedules of the same optimizer.
    ///
    /// # Errors
    /// `Value` without schedules.
    pub fn new(optimizer: &dyn Optimizer, schedulers: Vec<BoxedScheduler>) -> Result<Self> {
        check_some("ChainedScheduler", &schedulers)?;
        Ok(Self { schedulers, last_lr: rates(optimizer) })
    }
}

impl LrScheduler for ChainedScheduler {
    fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.schedulers.iter_mut().try_for_each(|scheduler| scheduler.step(optimizer))?;
        self.last_lr = rates(optimizer);
        Ok(())
    }

    fn begin(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        rewind(optimizer);
        self.schedulers.iter_mut().try_for_each(|scheduler| scheduler.begin(optimizer))?;
        self.last_lr = rates(optimizer);
        Ok(())
    }

    fn restart(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        self.begin(optimizer)
    }

    fn last_lr(&self) -> Vec<f64> {
        self.last_lr.clone()
    }

    fn last_epoch(&self) -> i64 {
        self.schedulers.first().map_or(0, |scheduler| scheduler.last_epoch())
    }

    fn state_dict(&self) -> Vec<(String, Value)> {
        vec![
            ("_last_lr".to_owned(), list(&self.last_lr)),
            ("_schedulers".to_owned(), parts(&self.schedulers)),
        ]
    }

    fn load_state_dict(&mut self, state: &[(String, Value)]) -> Result<()> {
        load_parts(&mut self.schedulers, state)?;
        if let Some(rates) = find(state, "_last_lr").and_then(super::numbers) {
            self.last_lr = rates;
        }
        Ok(())
    }
}
