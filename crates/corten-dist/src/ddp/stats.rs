//! What passes took, for those who look at it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Points of a pass in nanoseconds since 1970; 0 is none.
#[derive(Clone, Debug, Default)]
pub struct PassTimes {
    /// The forward pass began.
    pub forward_start: u64,
    /// The forward pass was over.
    pub forward_end: u64,
    /// The first gradient came.
    pub backward_start: u64,
    /// The backward pass was over.
    pub backward_end: u64,
    /// The first bucket was sent.
    pub communication_start: u64,
    /// The last result was there.
    pub communication_end: u64,
}

impl PassTimes {
    /// How long the forward pass took.
    pub fn forward(&self) -> u64 {
        self.forward_end.saturating_sub(self.forward_start)
    }

    /// How long the backward pass took.
    pub fn backward(&self) -> u64 {
        self.backward_end.saturating_sub(self.backward_start)
    }

    /// From the first bucket to the last result.
    pub fn communication(&self) -> u64 {
        self.communication_end.saturating_sub(self.communication_start)
    }

    /// How long communication and the backward pass ran together.
    pub fn overlap(&self) -> u64 {
        self.backward_end.saturating_sub(self.communication_start).min(self.communication())
    }
}

/// Sums over passes.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Passes that are over.
    pub passes: u64,
    /// Sums of [`PassTimes::forward`], `backward`, `communication` and `overlap`.
    pub sums: [u64; 4],
}

impl Totals {
    /// The averages, in the order of the sums.
    pub fn averages(&self) -> [u64; 4] {
        self.sums.map(|sum| sum.checked_div(self.passes).unwrap_or(0))
    }
}

/// The clock of a reducer.
#[derive(Default)]
pub(super) struct Timer(Mutex<Times>);

#[derive(Default)]
struct Times {
    pass: PassTimes,
    last: PassTimes,
    totals: Totals,
    arrivals: Vec<u64>,
    order: Vec<usize>,
    last_order: Vec<usize>,
    error: Option<String>,
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forward_began(&self) {
        self.lock().pass = PassTimes { forward_start: now(), ..PassTimes::default() };
    }

    pub(super) fn backward_prepared(&self) {
        let mut times = self.lock();
        times.pass.forward_end = now();
        times.order.clear();
    }

    pub(super) fn arrived(&self, index: usize, count: usize) {
        let mut times = self.lock();
        let at = now();
        if times.pass.backward_start == 0 {
            times.pass.backward_start = at;
        }
        times.arrivals.resize(count, 0);
        let since = at.saturating_sub(times.pass.forward_end);
        times.arrivals[index] = since;
        times.order.push(index);
    }

    pub(super) fn communication_began(&self) {
        let mut times = self.lock();
        if times.pass.communication_start == 0 {
            times.pass.communication_start = now();
        }
    }

    pub(super) fn backward_ended(&self) {
        self.lock().pass.backward_end = now();
    }

    pub(super) fn communication_ended(&self) {
        let mut times = self.lock();
        times.pass.communication_end = now();
        let pass = times.pass.clone();
        let parts = [pass.forward(), pass.backward(), pass.communication(), pass.overlap()];
        for (sum, part) in times.totals.sums.iter_mut().zip(parts) {
            *sum += part;
        }
        times.totals.passes += 1;
        times.last_order = std::mem::take(&mut times.order);
        times.last = pass;
    }

    pub(super) fn set_error(&self, message: &str) {
        self.lock().error = Some(message.to_owned());
    }

    pub(super) fn arrivals(&self, count: usize) -> Vec<u64> {
        let mut arrivals = self.lock().arrivals.clone();
        arrivals.resize(count, 0);
        arrivals
    }
}

/// What a reducer has measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The last pass that is over.
    pub last: PassTimes,
    /// Sums over all of them.
    pub totals: Totals,
    /// The order in which the gradients of the last pass came.
    pub order: Vec<usize>,
    /// The last error.
    pub error: Option<String>,
}

impl super::Reducer {
    /// What passes took so far.
    pub fn measured(&self) -> Measured {
        let times = self.timer.lock();
        Measured {
            last: times.last.clone(),
            totals: times.totals.clone(),
            order: times.last_order.clone(),
            error: times.error.clone(),
        }
    }

    /// Keeps an error for those who look at [`measured`](Self::measured).
    pub fn set_error(&self, message: &str) {
        self.timer.set_error(message);
    }
}
