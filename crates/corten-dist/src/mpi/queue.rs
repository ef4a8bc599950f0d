//! What other threads ask the progress thread for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::plan::{CommunicatorFacts, Plan};
use crate::{DistError, Result, Work};

/// A communicator of the progress thread, by its number, as other threads know it.
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
    /// Ends MPI.
    Finish(Reply<()>),
}

/// Commands on their way. No part of it is a thread's own, so that it works while the process exits.
#[derive(Default)]
pub(super) struct Queue {
    commands: Mutex<VecDeque<Command>>,
    filled: Condvar,
    len: AtomicUsize,
}

impl Queue {
    pub(super) fn push(&self, command: Command) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.push_back(command);
        self.len.store(commands.len(), Ordering::Release);
        drop(commands);
        self.filled.notify_one();
    }

    /// The next command, if there is one.
    pub(super) fn pop(&self) -> Option<Command> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let command = commands.pop_front();
        self.len.store(commands.len(), Ordering::Release);
        command
    }

    /// Sleeps until there is a command, for `timeout` at most.
    pub(super) fn wait(&self, timeout: Duration) {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        if commands.is_empty() {
            // Which of the two it was does not matter.
            drop(self.filled.wait_timeout(commands, timeout));
        }
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
