//! Learning rates as functions of the step.

use super::Optimizer;
use std::f64::consts::PI;

/// A learning rate for each step.
pub trait Schedule {
    /// The rate of a step, counted from 0.
    fn lr(&self, step: u64) -> f64;

    /// Sets what the schedule governs.
    fn apply(&self, optimizer: &mut dyn Optimizer, step: u64) {
        optimizer.set_lr(self.lr(step));
    }
}

/// `base * gamma^(step / every)`.
#[derive(Clone, Copy, Debug)]
pub struct StepDecay {
    /// Rate at step 0.
    pub base: f64,
    /// Steps between decays.
    pub every: u64,
    /// Factor of each decay.
    pub gamma: f64,
}

impl Schedule for StepDecay {
    fn lr(&self, step: u64) -> f64 {
        self.base * self.gamma.powf((step / self.every) as f64)
    }
}

/// `base * gamma^step`.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    /// Rate at step 0.
    pub base: f64,
    /// Factor of each step.
    pub gamma: f64,
}

impl Schedule for Exponential {
    fn lr(&self, step: u64) -> f64 {
        self.base * self.gamma.powf(step as f64)
    }
}

/// From `base` to `least` along half a cosine of `steps` steps, and back.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealing {
    /// Rate at step 0.
    pub base: f64,
    /// Rate at the end.
    pub least: f64,
    /// Length of the half cosine.
    pub steps: u64,
}

impl Schedule for CosineAnnealing {
    fn lr(&self, step: u64) -> f64 {
        let phase = PI * step as f64 / self.steps as f64;
        self.least + (self.base - self.least) * (1.0 + phase.cos()) / 2.0
    }
}

/// Rises linearly over the first `steps` steps, then follows another schedule.
#[derive(Clone, Copy, Debug)]
pub struct Warmup<S> {
    /// How many steps the rise takes.
    pub steps: u64,
    /// What follows.
    pub then: S,
}

impl<S: Schedule> Schedule for Warmup<S> {
    fn lr(&self, step: u64) -> f64 {
        let share = ((step + 1) as f64 / (self.steps + 1) as f64).min(1.0);
        share * self.then.lr(step.saturating_sub(self.steps))
    }
}

/// One rise to `max` and one long fall far below the start, while the momentum does the opposite.
#[derive(Clone, Copy, Debug)]
pub struct OneCycle {
    /// The highest rate.
    pub max: f64,
    /// Number of steps in all.
    pub steps: u64,
    /// Share of the rise.
    pub rise: f64,
    /// Highest rate over first rate.
    pub div: f64,
    /// First rate over last rate.
    pub final_div: f64,
    /// Lowest and highest momentum, if it is to change.
    pub momentum: Option<(f64, f64)>,
}

impl OneCycle {
    /// PyTorch's defaults.
    pub fn new(max: f64, steps: u64) -> Self {
        Self { max, steps, rise: 0.3, div: 25.0, final_div: 1e4, momentum: Some((0.85, 0.95)) }
    }

    /// Whether the step is in the rise, and how far in its phase, along a half cosine.
    fn phase(&self, step: u64) -> (bool, f64) {
        let (step, top, last) =
            (step as f64, self.rise * self.steps as f64 - 1.0, self.steps as f64 - 1.0);
        let (rising, done) =
            if step <= top { (true, step / top) } else { (false, (step - top) / (last - top)) };
        (rising, (1.0 - (PI * done).cos()) / 2.0)
    }
}

impl Schedule for OneCycle {
    fn lr(&self, step: u64) -> f64 {
        let (rising, done) = self.phase(step);
        let first = self.max / self.div;
        let (from, to) =
            if rising { (first, self.max) } else { (self.max, first / self.final_div) };
        from + (to - from) * done
    }

    fn apply(&self, optimizer: &mut dyn Optimizer, step: u64) {
        optimizer.set_lr(self.lr(step));
        if let Some((low, high)) = self.momentum {
            let (rising, done) = self.phase(step);
            let (from, to) = if rising { (high, low) } else { (low, high) };
            optimizer.set_momentum(from + (to - from) * done);
        }
    }
}
