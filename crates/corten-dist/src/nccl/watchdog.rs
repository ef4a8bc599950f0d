//! Calls that are on their way: when they have ended, when they take too long, when a communicator fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use corten_cuda::Event;

use super::engine::Shared;
use crate::error::DistError;
use crate::work::Work;

/// Between two looks at calls that have just begun, and at those that have run for longer.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

/// So long a call is looked at often.
const YOUNG: Duration = Duration::from_millis(200);

/// Once a call has run for so long, other ranks may ask about this one.
const OLD: Duration = Duration::from_secs(1);

/// Between two looks at what the library has found.
const ERRORS: Duration = Duration::from_millis(100);

/// A call that a stream was given.
pub(super) struct InFlight {
    /// Without its tensors, whose memory the streams keep.
    pub(super) work: Arc<Work>,
    pub(super) end: Arc<Event>,
    pub(super) device: i8,
    pub(super) begun: Instant,
    pub(super) timeout: Duration,
}

/// What the thread of an engine looks at.
#[derive(Default)]
pub(super) struct Watchdog {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    calls: Vec<InFlight>,
    is_running: bool,
    is_stopped: bool,
}

impl Watchdog {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a call from now on.
    pub(super) fn add(self: &Arc<Self>, engine: &Arc<Shared>, call: InFlight) {
        let mut state = self.lock();
        state.calls.push(call);
        if state.is_running {
            self.changed.notify_all();
            return;
        }
        let (watchdog, engine) = (self.clone(), Arc::downgrade(engine));
        let thread = std::thread::Builder::new().name("nccl-watchdog".into());
        // Without the thread nobody would learn of the end: the call fails instead.
        match thread.spawn(move || watchdog.run(&engine)) {
            Ok(_) => state.is_running = true,
            Err(error) => {
                let calls = std::mem::take(&mut state.calls);
                drop(state);
                let error =
                    DistError::backend(format!("nccl: no thread for the watchdog: {error}"));
                calls.into_iter().for_each(|call| call.work.fail(error.clone()));
            }
        }
    }

    /// Takes all calls away.
    pub(super) fn take(&self) -> Vec<InFlight> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Waits until nothing is on its way any more; whether that was in time.
    pub(super) fn drain(&self, deadline: Instant) -> bool {
        while !self.lock().calls.is_empty() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(PAUSES[0]);
        }
        true
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    fn run(&self, engine: &Weak<Shared>) {
        let mut answers: Option<Arc<AtomicBool>> = None;
        let mut looked = Instant::now();
        while self.wait() {
            let Some(engine) = engine.upgrade() else { return };
            self.complete();
            let (late, oldest) = self.late();
            match oldest {
                // While this rank waits, it answers others who ask which ranks are alive.
                Some(work) if answers.is_none() => answers = work.watch(),
                None => answers = stopped(answers),
                Some(_) => {}
            }
            if !engine.handles_errors() {
                continue;
            }
            if let Some(work) = late {
                work.expire();
            }
            if looked.elapsed() >= ERRORS {
                looked = Instant::now();
                engine.look_for_errors();
            }
        }
        stopped(answers);
    }

    /// Waits for calls, then for the time of the next look; false when the thread is to end.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.calls.is_empty() && !state.is_stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_stopped && state.calls.is_empty() {
            return false;
        }
        let is_young = state.calls.iter().any(|call| call.begun.elapsed() < YOUNG);
        let pause = PAUSES[usize::from(!is_young)];
        drop(state);
        std::thread::sleep(pause);
        true
    }

    /// Ends the works whose streams have got there.
    fn complete(&self) {
        let mut ended = Vec::new();
        self.lock().calls.retain(|call| match call.end.is_reached() {
            Ok(false) => true,
            reached => {
                ended.push((call.work.clone(), reached.map(drop)));
                false
            }
        });
        for (work, result) in ended {
            work.finish(result.map_err(|error| DistError::backend(format!("nccl: {error}"))));
        }
    }

    /// The first call whose time is over, and the oldest that has run for long.
    fn late(&self) -> (Option<Arc<Work>>, Option<Arc<Work>>) {
        let state = self.lock();
        let late = state.calls.iter().find(|call| call.begun.elapsed() >= call.timeout);
        let oldest = state.calls.iter().find(|call| call.begun.elapsed() >= OLD);
        (late.map(|call| call.work.clone()), oldest.map(|call| call.work.clone()))
    }
}

fn stopped(answers: Option<Arc<AtomicBool>>) -> Option<Arc<AtomicBool>> {
    if let Some(flag) = answers {
        flag.store(false, Ordering::Release);
    }
    None
}
