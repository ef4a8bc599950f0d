//! Who calls MPI: its own thread, or a thread that waits for a call.
//!
//! MPI moves data only while it is called. A thread of its own does that while the program computes. A thread
//! that waits for a call does it itself, where MPI may be called by several threads: to hand a small call over
//! and back costs more than the call. One thread at a time has the communicators, and each round of it runs the
//! commands of all threads in their order; so calls start in the order in which they were made, whoever
//! starts them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::plan::Finish;
use super::queue::{Command, Queue, Reply};
use crate::interrupt::{self, SLICE};
use crate::work::Progress;
use crate::{DistError, Result, Work};

/// After so long without an event a thread sleeps between two rounds.
const SPINNING: Duration = Duration::from_micros(50);

/// A round that takes so long has moved data.
const EVENTFUL: Duration = Duration::from_micros(20);

/// The longest sleep while something runs.
const MAX_SLEEP: Duration = Duration::from_millis(1);

/// The longest sleep while nothing does.
const IDLE: Duration = Duration::from_secs(1);

/// How long the end of the process waits for calls that are on their way.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// The communicators, whichever handles the library has.
pub(super) trait Rounds: Send {
    /// Runs a command. Calls are started, not waited for.
    fn obey(&mut self, command: Command);

    /// Asks for what runs. Returns whether something has ended.
    fn poll(&mut self) -> bool;

    /// Whether nothing runs.
    fn is_idle(&self) -> bool;

    /// What has ended since it was last asked for.
    fn ended(&mut self) -> Vec<Ended>;

    /// Ends MPI, after waiting for what runs until `end`.
    fn finish(self: Box<Self>, end: Instant);
}

/// A call that has ended, which is told when the communicators are free again.
pub(super) struct Ended {
    pub(super) work: Arc<Work>,
    pub(super) result: Result<()>,
    pub(super) finish: Vec<Finish>,
    pub(super) size: usize,
}

impl Ended {
    pub(super) fn failed(work: Arc<Work>, error: DistError) -> Self {
        Self { work, result: Err(error), finish: Vec::new(), size: 1 }
    }

    fn tell(self) {
        let Self { work, result, finish, size } = self;
        work.finish(result.and_then(|()| finish.into_iter().try_for_each(|step| step.run(size))));
    }
}

/// What runs in MPI, and who sees to it.
pub(super) struct Drive {
    pub(super) queue: Queue,
    /// Nothing before the start and after the end.
    rounds: Mutex<Option<Box<dyn Rounds>>>,
    /// Whether threads that wait may call MPI.
    is_shared: bool,
    /// How many threads wait and see to all calls.
    waiting: AtomicUsize,
    /// Whether something ran after the last round.
    is_running: AtomicBool,
}

impl Drive {
    pub(super) fn new(rounds: Box<dyn Rounds>, is_shared: bool) -> Self {
        Self {
            queue: Queue::default(),
            rounds: Mutex::new(Some(rounds)),
            is_shared,
            waiting: AtomicUsize::new(0),
            is_running: AtomicBool::new(false),
        }
    }

    /// Has MPI's thread run a command.
    pub(super) fn ask(&self, command: Command) {
        self.queue.push(command);
        self.queue.wake();
    }

    /// Starts a call, on this thread where that is possible. `is_waiting` says that this thread waits for it next.
    pub(super) fn start(&self, command: Command, is_waiting: bool) {
        self.queue.push(command);
        let has_started = self.is_shared
            && self.try_lock().is_some_and(|guard| {
                self.round(guard, false);
                true
            });
        if !(has_started && is_waiting) {
            self.queue.wake();
        }
    }

    /// Works until the process ends. Returns who waits for that.
    pub(super) fn serve(&self) -> Reply<()> {
        let mut last_event = Instant::now();
        loop {
            if let Some(done) = self.queue.to_finish() {
                return done;
            }
            if self.waiting.load(Ordering::SeqCst) > 0 {
                self.queue.sleep(SLICE);
                continue;
            }
            let begun = Instant::now();
            let guard = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
            let is_eventful = self.round(guard, true);
            let now = Instant::now();
            if is_eventful || now - begun > EVENTFUL {
                last_event = now;
            }
            match pause(now - last_event) {
                None => std::hint::spin_loop(),
                Some(_) if !self.is_running.load(Ordering::SeqCst) => self.queue.sleep(IDLE),
                Some(pause) => self.queue.sleep(pause),
            }
        }
    }

    /// Ends MPI, unless a thread keeps the communicators for too long.
    pub(super) fn finish(&self) {
        let end = Instant::now() + LAST_CALLS;
        loop {
            if let Some(mut guard) = self.try_lock() {
                if let Some(rounds) = guard.take() {
                    rounds.finish(end);
                }
                return;
            }
            if Instant::now() >= end {
                return;
            }
            std::thread::sleep(MAX_SLEEP);
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Box<dyn Rounds>>>> {
        match self.rounds.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Runs the commands, asks for what runs if `polls`, and tells what has ended, in that order. Returns whether
    /// anything happened.
    fn round(&self, mut guard: MutexGuard<'_, Option<Box<dyn Rounds>>>, polls: bool) -> bool {
        let Some(rounds) = guard.as_deref_mut() else { return false };
        let mut is_eventful = false;
        while let Some(command) = self.queue.pop() {
            is_eventful = true;
            rounds.obey(command);
        }
        is_eventful |= polls && rounds.poll();
        let ended = rounds.ended();
        self.is_running.store(!rounds.is_idle(), Ordering::SeqCst);
        drop(guard);
        ended.into_iter().for_each(Ended::tell);
        is_eventful
    }
}

impl Progress for Drive {
    fn drive(&self, work: &Work, end: Option<Instant>) -> Result<()> {
        if !self.is_shared {
            return Ok(());
        }
        let _waiting = Waiting::new(self);
        let mut last_event = Instant::now();
        let mut next_check = last_event + SLICE;
        while !work.has_ended() {
            let begun = Instant::now();
            let is_eventful = match self.try_lock() {
                Some(guard) => self.round(guard, true),
                None => false,
            };
            let now = Instant::now();
            if is_eventful || now - begun > EVENTFUL {
                last_event = now;
            }
            if end.is_some_and(|end| now >= end) {
                break;
            }
            if now >= next_check {
                interrupt::check()?;
                next_check = now + SLICE;
            }
            match pause(now - last_event) {
                None => std::hint::spin_loop(),
                Some(pause) => work.rest(pause),
            }
        }
        Ok(())
    }

    fn poll(&self) {
        if let Some(guard) = self.try_lock().filter(|_| self.is_shared) {
            self.round(guard, true);
        }
    }
}

/// How long to sleep before the next round, the longer the less happens; nothing where it is to follow at once.
/// Spinning is short, and never by giving the processor away: where it is busy, a thread that sleeps comes
/// back sooner.
fn pause(idle: Duration) -> Option<Duration> {
    (idle >= SPINNING).then(|| (idle / 4).min(MAX_SLEEP))
}

/// A thread that waits, for which MPI's thread makes room.
struct Waiting<'a>(&'a Drive);

impl<'a> Waiting<'a> {
    fn new(drive: &'a Drive) -> Self {
        drive.waiting.fetch_add(1, Ordering::SeqCst);
        Self(drive)
    }
}

impl Drop for Waiting<'_> {
    /// What still runs is seen to by MPI's thread.
    fn drop(&mut self) {
        let drive = self.0;
        drive.waiting.fetch_sub(1, Ordering::SeqCst);
        if drive.is_running.load(Ordering::SeqCst) || !drive.queue.is_empty() {
            drive.queue.wake();
        }
    }
}
