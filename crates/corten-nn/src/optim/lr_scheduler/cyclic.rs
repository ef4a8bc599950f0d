//! Schedules that rise and fall.

use super::super::{Optimizer, Value};
use super::keep;
use super::scheduled::{Field, Moment, RateRule, Scheduled, fields};
use corten_core::{Result, ensure};
use std::f64::consts::PI;

/// Half cosines, each `T_mult` times as long as the one before, the first `T_0`.
#[doc = schedule_example!("CosineAnnealingWarmRestarts::new(&mut optimizer, 4, 1, 0.0)?", "0.1")]
pub type CosineAnnealingWarmRestarts = Scheduled<WarmRestartsRule>;

/// The formula of [`CosineAnnealingWarmRestarts`].
#[doc = formula_example!("CosineAnnealingWarmRestarts::new(&mut optimizer, 4, 1, 0.0)?", "T_mult")]
#[derive(Clone, Debug)]
pub struct WarmRestartsRule {
    /// Length of the first period.
    pub t_0: i64,
    /// Factor of each further period.
    pub t_mult: i64,
    /// The least rate.
    pub eta_min: f64,
    length: i64,
    place: i64,
}

impl CosineAnnealingWarmRestarts {
    /// PyTorch's defaults of `t_mult` and `eta_min` are 1 and 0.
    ///
    /// # Errors
    /// `Value` for lengths or factors below 1.
    pub fn new(optimizer: &mut dyn Optimizer, t_0: i64, t_mult: i64, eta_min: f64) -> Result<Self> {
        ensure!(t_0 > 0, Value, "Expected positive integer T_0, but got {t_0}");
        ensure!(t_mult >= 1, Value, "Expected integer T_mult >= 1, but got {t_mult}");
        Self::of(optimizer, WarmRestartsRule { t_0, t_mult, eta_min, length: t_0, place: 0 })
    }
}

impl RateRule for WarmRestartsRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        let height = (1.0 + (PI * self.place as f64 / self.length.max(1) as f64).cos()) / 2.0;
        Ok(self.eta_min + (at.base - self.eta_min) * height)
    }

    fn advance(&mut self, epoch: i64, is_jump: bool) {
        if is_jump {
            (self.length, self.place) = (self.t_0, epoch);
        } else {
            self.place += 1;
        }
        while self.place >= self.length.max(1) {
            self.place -= self.length.max(1);
            self.length = self.length.saturating_mul(self.t_mult);
        }
    }

    fields!("T_0" => t_0, "T_i" => length, "T_mult" => t_mult, "eta_min" => eta_min, "T_cur" => place);
}

/// Along what a rate goes from one value to another.
///
/// ```
/// use corten::nn::optim::lr_scheduler::{AnnealStrategy, OneCycleOptions};
///
/// let options = OneCycleOptions { anneal_strategy: AnnealStrategy::Linear, ..Default::default() };
/// assert_ne!(options.anneal_strategy, AnnealStrategy::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnnealStrategy {
    /// Half a cosine.
    #[default]
    Cos,
    /// A line.
    Linear,
}

impl AnnealStrategy {
    fn between(self, start: f64, end: f64, done: f64) -> f64 {
        match self {
            Self::Cos => end + (start - end) / 2.0 * ((PI * done).cos() + 1.0),
            Self::Linear => (end - start) * done + start,
        }
    }
}

impl Field for AnnealStrategy {
    fn to_value(&self) -> Value {
        Value::Text(if *self == Self::Cos { "cos" } else { "linear" }.to_owned())
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(name) if name == "cos" => Some(Self::Cos),
            Value::Text(name) if name == "linear" => Some(Self::Linear),
            _ => None,
        }
    }
}

/// How the cycles of [`CyclicLR`] change.
///
/// ```
/// use corten::nn::optim::lr_scheduler::{CyclicMode, CyclicOptions};
///
/// let options = CyclicOptions { mode: CyclicMode::ExpRange, gamma: 0.99, ..Default::default() };
/// assert_eq!(options.mode, CyclicMode::ExpRange);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CyclicMode {
    /// They are alike.
    #[default]
    Triangular,
    /// Each is half as high as the one before.
    Triangular2,
    /// Heights shrink by `gamma` with each step.
    ExpRange,
}

impl Field for CyclicMode {
    fn to_value(&self) -> Value {
        let name = match self {
            Self::Triangular => "triangular",
            Self::Triangular2 => "triangular2",
            Self::ExpRange => "exp_range",
        };
        Value::Text(name.to_owned())
    }

    fn from_value(value: &Value) -> Option<Self> {
        let Value::Text(name) = value else { return None };
        match name.as_str() {
            "triangular" => Some(Self::Triangular),
            "triangular2" => Some(Self::Triangular2),
            "exp_range" => Some(Self::ExpRange),
            _ => None,
        }
    }
}

/// Settings of [`CyclicLR`].
///
/// ```
/// assert_eq!(corten::nn::optim::lr_scheduler::CyclicOptions::default().step_size_up, 2000);
/// ```
#[derive(Clone, Debug)]
pub struct CyclicOptions {
    /// Steps of a rise.
    pub step_size_up: i64,
    /// Steps of a fall; as many as of a rise by default.
    pub step_size_down: Option<i64>,
    /// How cycles change.
    pub mode: CyclicMode,
    /// Factor of [`CyclicMode::ExpRange`].
    pub gamma: f64,
    /// The least and the most momentum, if it is to go against the rate.
    pub momentum: Option<(f64, f64)>,
}

impl Default for CyclicOptions {
    fn default() -> Self {
        let (mode, momentum) = (CyclicMode::Triangular, Some((0.8, 0.9)));
        Self { step_size_up: 2000, step_size_down: None, mode, gamma: 1.0, momentum }
    }
}

/// Triangles between a least and a most rate (Smith).
#[doc = schedule_example!("CyclicLR::new(&mut optimizer, 0.1, 0.3, CyclicOptions { step_size_up: 2, momentum: None, ..Default::default() })?", "0.1")]
pub type CyclicLR = Scheduled<CyclicRule>;

/// The formula of [`CyclicLR`].
#[doc = formula_example!("CyclicLR::new(&mut optimizer, 0.1, 0.3, CyclicOptions { step_size_up: 2, momentum: None, ..Default::default() })?", "total_size")]
#[derive(Clone, Debug)]
pub struct CyclicRule {
    max_lrs: Vec<f64>,
    total_size: f64,
    step_ratio: f64,
    mode: CyclicMode,
    gamma: f64,
    momentum: Option<(f64, f64)>,
}

impl CyclicLR {
    /// Rates between `base_lr` and `max_lr` in all groups.
    ///
    /// # Errors
    /// `Value` where the momentum is to change and the optimizer has none, or for steps below 1.
    pub fn new(
        optimizer: &mut dyn Optimizer,
        base_lr: f64,
        max_lr: f64,
        options: CyclicOptions,
    ) -> Result<Self> {
        let CyclicOptions { step_size_up, step_size_down, mode, gamma, momentum } = options;
        let down = step_size_down.unwrap_or(step_size_up);
        ensure!(step_size_up > 0 && down >= 0, Value, "step sizes of CyclicLR must be positive");
        ensure!(
            momentum.is_none() || optimizer.group_momentum(0).is_some(),
            Value,
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        );
        let groups = optimizer.group_count();
        optimizer.set_lr(base_lr);
        for group in 0..groups {
            keep(optimizer, group, "initial_lr", base_lr);
            if let Some((low, high)) = momentum {
                optimizer.set_group_momentum(group, high);
                keep(optimizer, group, "max_momentum", high);
                keep(optimizer, group, "base_momentum", low);
            }
        }
        let total_size = (step_size_up + down) as f64;
        let step_ratio = step_size_up as f64 / total_size;
        let all = |rate: f64| (0..groups).map(|_| rate).collect::<Vec<_>>();
        let max_lrs = all(max_lr);
        let rule = CyclicRule { max_lrs, total_size, step_ratio, mode, gamma, momentum };
        Self::with_bases(optimizer, rule, all(base_lr))
    }
}

impl CyclicRule {
    /// How far towards the maximum an epoch is.
    fn height(&self, epoch: i64) -> f64 {
        let done = epoch as f64 / self.total_size;
        let cycle = (1.0 + done).floor();
        let x = 1.0 + done - cycle;
        let rises = x <= self.step_ratio;
        let height = if rises { x / self.step_ratio } else { (x - 1.0) / (self.step_ratio - 1.0) };
        height
            * match self.mode {
                CyclicMode::Triangular => 1.0,
                CyclicMode::Triangular2 => 1.0 / 2.0_f64.powf(cycle - 1.0),
                CyclicMode::ExpRange => self.gamma.powf(epoch as f64),
            }
    }
}

impl RateRule for CyclicRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        let high = self.max_lrs.get(at.group).copied().unwrap_or(at.base);
        Ok(at.base + (high - at.base) * self.height(at.epoch))
    }

    fn govern(&self, optimizer: &mut dyn Optimizer, epoch: i64) {
        let Some((low, high)) = self.momentum else { return };
        for group in 0..optimizer.group_count() {
            optimizer.set_group_momentum(group, high - (high - low) * self.height(epoch));
        }
    }

    fields!(
        "max_lrs" => max_lrs, "total_size" => total_size, "step_ratio" => step_ratio, "mode" => mode,
        "gamma" => gamma,
    );
}

/// Settings of [`OneCycleLR`].
///
/// ```
/// assert_eq!(corten::nn::optim::lr_scheduler::OneCycleOptions::default().pct_start, 0.3);
/// ```
#[derive(Clone, Debug)]
pub struct OneCycleOptions {
    /// Share of the rise.
    pub pct_start: f64,
    /// Along what rates go.
    pub anneal_strategy: AnnealStrategy,
    /// The least and the most momentum, if it is to go against the rate.
    pub momentum: Option<(f64, f64)>,
    /// The highest rate over the first.
    pub div_factor: f64,
    /// The first rate over the last.
    pub final_div_factor: f64,
    /// Whether rates fall to the first one before they fall to the last.
    pub three_phase: bool,
}

impl Default for OneCycleOptions {
    fn default() -> Self {
        Self {
            pct_start: 0.3,
            anneal_strategy: AnnealStrategy::Cos,
            momentum: Some((0.85, 0.95)),
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
        }
    }
}

/// One rise to a highest rate and one long fall far below the start (Smith and Topin).
#[doc = schedule_example!("OneCycleLR::new(&mut optimizer, 0.1, 5, OneCycleOptions { momentum: None, ..Default::default() })?", "4e-7")]
pub type OneCycleLR = Scheduled<OneCycleRule>;

/// The formula of [`OneCycleLR`].
#[doc = formula_example!("OneCycleLR::new(&mut optimizer, 0.1, 5, OneCycleOptions { momentum: None, ..Default::default() })?", "total_steps")]
#[derive(Clone, Debug)]
pub struct OneCycleRule {
    total_steps: i64,
    max_lr: f64,
    options: OneCycleOptions,
}

impl OneCycleLR {
    /// A cycle of `total_steps` steps with rates up to `max_lr`.
    ///
    /// # Errors
    /// `Value` for no steps, a share outside [0, 1], or an optimizer without the momentum that is to change.
    pub fn new(
        optimizer: &mut dyn Optimizer,
        max_lr: f64,
        total_steps: i64,
        options: OneCycleOptions,
    ) -> Result<Self> {
        ensure!(
            total_steps > 0,
            Value,
            "Expected positive integer total_steps, but got {total_steps}"
        );
        let share = options.pct_start;
        ensure!(
            (0.0..=1.0).contains(&share),
            Value,
            "Expected float between 0 and 1 pct_start, but got {share}"
        );
        ensure!(
            options.momentum.is_none() || optimizer.group_momentum(0).is_some(),
            Value,
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        );
        let first = max_lr / options.div_factor;
        for group in 0..optimizer.group_count() {
            keep(optimizer, group, "initial_lr", first);
            keep(optimizer, group, "max_lr", max_lr);
            keep(optimizer, group, "min_lr", first / options.final_div_factor);
            if let Some((low, high)) = options.momentum {
                optimizer.set_group_momentum(group, high);
                keep(optimizer, group, "max_momentum", high);
                keep(optimizer, group, "base_momentum", low);
            }
        }
        Self::of(optimizer, OneCycleRule { total_steps, max_lr, options })
    }
}

impl OneCycleRule {
    /// The ends of rate and momentum of an epoch's phase, and how far the phase is done.
    fn phase(&self, epoch: i64, base: f64) -> ([f64; 2], [f64; 2], f64) {
        let least = base / self.options.final_div_factor;
        let (low, high) = self.options.momentum.unwrap_or((0.0, 0.0));
        let rise = self.options.pct_start * self.total_steps as f64;
        let last = (self.total_steps - 1) as f64;
        let (up, down) = (([base, self.max_lr], [high, low]), ([self.max_lr, base], [low, high]));
        let phases = match self.options.three_phase {
            true => vec![
                (rise - 1.0, up),
                (2.0 * rise - 2.0, down),
                (last, ([base, least], [high, high])),
            ],
            false => vec![(rise - 1.0, up), (last, ([self.max_lr, least], [low, high]))],
        };
        let (step, count, mut start) = (epoch as f64, phases.len(), 0.0);
        for (index, (end, (rates, momenta))) in phases.into_iter().enumerate() {
            if step <= end || index == count - 1 {
                // A phase may have no step but its last.
                let done = if end == start { 1.0 } else { (step - start) / (end - start) };
                return (rates, momenta, done);
            }
            start = end;
        }
        ([base; 2], [high; 2], 1.0)
    }
}

impl RateRule for OneCycleRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        let (step, total) = (at.epoch, self.total_steps);
        ensure!(
            step <= total,
            Value,
            "Tried to step {step} times. The total number of steps is {total}"
        );
        let ([start, end], _, done) = self.phase(step, at.base);
        Ok(self.options.anneal_strategy.between(start, end, done))
    }

    fn govern(&self, optimizer: &mut dyn Optimizer, epoch: i64) {
        if self.options.momentum.is_none() {
            return;
        }
        let (_, [start, end], done) = self.phase(epoch, 0.0);
        let momentum = self.options.anneal_strategy.between(start, end, done);
        (0..optimizer.group_count())
            .for_each(|group| optimizer.set_group_momentum(group, momentum));
    }

    fn fields(&self) -> Vec<(String, Value)> {
        let name = self.options.anneal_strategy.to_value();
        vec![
            ("total_steps".to_owned(), Value::Int(self.total_steps)),
            ("_anneal_func_type".to_owned(), name),
            ("cycle_momentum".to_owned(), Value::Bool(self.options.momentum.is_some())),
        ]
    }

    fn set_field(&mut self, name: &str, value: &Value) -> bool {
        match name {
            "total_steps" => i64::from_value(value).map(|value| self.total_steps = value).is_some(),
            "_anneal_func_type" => AnnealStrategy::from_value(value)
                .map(|value| self.options.anneal_strategy = value)
                .is_some(),
            _ => true,
        }
    }
}

/// Anneals each group's rate to a rate for averaging weights, and keeps it there.
#[doc = schedule_example!("SWALR::new(&mut optimizer, 0.05, 4, AnnealStrategy::Linear)?", "0.05")]
pub type SWALR = Scheduled<SwaRule>;

/// The formula of [`SWALR`].
#[doc = formula_example!("SWALR::new(&mut optimizer, 0.05, 4, AnnealStrategy::Linear)?", "anneal_epochs")]
#[derive(Clone, Debug)]
pub struct SwaRule {
    swa_lr: f64,
    anneal_epochs: i64,
    anneal_strategy: AnnealStrategy,
}

impl SWALR {
    /// PyTorch's defaults are 10 epochs along half a cosine.
    ///
    /// # Errors
    /// `Value` for epochs below 0.
    pub fn new(
        optimizer: &mut dyn Optimizer,
        swa_lr: f64,
        anneal_epochs: i64,
        anneal_strategy: AnnealStrategy,
    ) -> Result<Self> {
        ensure!(
            anneal_epochs >= 0,
            Value,
            "anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
        );
        for group in 0..optimizer.group_count() {
            keep(optimizer, group, "swa_lr", swa_lr);
        }
        Self::of(optimizer, SwaRule { swa_lr, anneal_epochs, anneal_strategy })
    }
}

impl SwaRule {
    fn done(&self, step: i64) -> f64 {
        let done = (step as f64 / self.anneal_epochs.max(1) as f64).clamp(0.0, 1.0);
        match self.anneal_strategy {
            AnnealStrategy::Cos => (1.0 - (PI * done).cos()) / 2.0,
            AnnealStrategy::Linear => done,
        }
    }
}

impl RateRule for SwaRule {
    fn rate(&self, at: &Moment) -> Result<f64> {
        let step = at.step_count - 1;
        let step = if self.anneal_epochs == 0 { step.max(1) } else { step };
        let (before, now, target) = (self.done(step - 1), self.done(step), self.swa_lr);
        let start =
            if before == 1.0 { target } else { (at.rate - before * target) / (1.0 - before) };
        Ok(target * now + start * (1.0 - now))
    }

    fields!("anneal_epochs" => anneal_epochs, "_anneal_strategy" => anneal_strategy);
}
