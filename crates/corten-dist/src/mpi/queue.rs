//! What threads ask of MPI, in the order in which they do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::plan::{CommunicatorFacts, Plan};
use crate::{DistError, Result, Work};

/// A communicator, by its number.
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) place: CommunicatorFacts,
    /// Why nothing can run any more.
    broken: Mutex<Option<DistError>>,
}

impl Member {
    pub(super) fn new(number: usize, place: CommunicatorFacts) -> Arc<Self> {
        Arc::new(Self { number, place, broken: Mutex::default() })
    }

    /// Why nothing can run any more, if so.
    pub(super) fn broken(&self) -> Option<DistError> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has nothing run any more. The first reason stays.
    pub(super) fn break_off(&self, reason: &DistError) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get_or_insert_with(|| reason.clone());
    }
}

/// A call to start.
pub(super) struct Started {
    pub(super) member: Arc<Member>,
    pub(super) work: Arc<Work>,
    pub(super) plan: Plan,
    pub(super) deadline: Option<Instant>,
    pub(super) is_point_to_point: bool,
}

/// A communicator of some ranks of another one.
pub(super) struct Split {
    pub(super) member: Arc<Member>,
    pub(super) ranks: Vec<usize>,
    pub(super) deadline: Option<Instant>,
    pub(super) reply: Reply<Result<Arc<Member>>>,
}

/// What is asked for.
pub(super) enum Command {
    Start(Started),
    /// A communicator of all ranks of the program.
    World(Reply<Result<Arc<Member>>>),
    Split(Split),
    /// Fails what runs on a communicator.
    Abort(Arc<Member>, DistError),
    /// Gives a communicator up.
    Release(Arc<Member>),
}

/// Commands on their way, and the sleep of the thread that comes for them. No part of it is a thread's own,
/// so that it works while the process exits.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    woken: Condvar,
    len: AtomicUsize,
}

#[derive(Default)]
struct QueueState {
    commands: VecDeque<Command>,
    /// Whether the thread is to look again before it sleeps.
    is_woken: bool,
    /// Who waits for the end of MPI.
    finish: Option<Reply<()>>,
}

impl Queue {
    /// Adds a command; [`wake`](Self::wake) has the thread come for it.
    pub(super) fn push(&self, command: Command) {
        let mut state = self.lock();
        state.commands.push_back(command);
        self.len.store(state.commands.len(), Ordering::SeqCst);
    }

    /// The next command, if there is one.
    pub(super) fn pop(&self) -> Option<Command> {
        if self.is_empty() {
            return None;
        }
        let mut state = self.lock();
        let command = state.commands.pop_front();
        self.len.store(state.commands.len(), Ordering::SeqCst);
        command
    }

    /// Whether there is no command.
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Ordering::SeqCst) == 0
    }

    /// Ends the thread's sleep, or keeps it from the next one.
    pub(super) fn wake(&self) {
        self.lock().is_woken = true;
        self.woken.notify_one();
    }

    /// Sleeps until the thread is woken, for `timeout` at most.
    pub(super) fn sleep(&self, timeout: Duration) {
        let mut state = self.lock();
        if !state.is_woken {
            // Which of the two it was does not matter.
            let slept = self.woken.wait_timeout(state, timeout);
            state = slept.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_woken = false;
    }

    /// Has the thread end MPI, and then answer.
    pub(super) fn finish(&self, done: Reply<()>) {
        self.lock().finish = Some(done);
        self.wake();
    }

    /// Who waits for the end of MPI, once somebody does.
    pub(super) fn to_finish(&self) -> Option<Reply<()>> {
        self.lock().finish.take()
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that a thread waits for.
pub(super) struct Reply<T>(Arc<(Mutex<Option<T>>, Condvar)>);

impl<T> Clone for Reply<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Reply<T> {
    pub(super) fn new() -> Self {
        Self(Arc::new((Mutex::new(None), Condvar::new())))
    }

    /// Gives the answer.
    pub(super) fn set(&self, value: T) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.0.1.notify_all();
    }

    /// Waits for the answer; nothing when the time is over.
    ///
    /// # Errors
    /// Those of [`crate::interrupt::check`].
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Result<Option<T>> {
        let guard = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_guard, value) =
            crate::interrupt::wait_until(&self.0.1, guard, deadline, Option::take)?;
        Ok(value)
    }

    /// Waits for the answer, whatever happens.
    pub(super) fn wait_uninterrupted(&self) -> T {
        let mut guard = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(value) = guard.take() {
                return value;
            }
            guard = self.0.1.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
