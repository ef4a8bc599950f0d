//! Threads that run what waits for other processes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::{DistError, Result};

/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(10);

/// Callbacks of works run on these threads, Python's among them.
const STACK: usize = 2 << 20;

type Task = Box<dyn FnOnce() + Send>;

/// Up to `limit` threads, started when they are needed, that take tasks in order.
pub(super) struct Threads {
    name: &'static str,
    limit: usize,
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    threads: usize,
    idle: usize,
}

impl Threads {
    pub(super) fn new(name: &'static str, limit: usize) -> Arc<Self> {
        let (state, ready) = (Mutex::default(), Condvar::new());
        Arc::new(Self { name, limit, state, ready })
    }

    /// Adds a task, which begins when those before it have begun and a thread is free.
    ///
    /// # Errors
    /// `Runtime` where the process may have no more threads and has none that would come to the task;
    /// the task is dropped, then.
    pub(super) fn run(self: &Arc<Self>, task: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut state = self.lock();
        state.tasks.push_back(Box::new(task));
        let wanted = state.tasks.len() > state.idle && state.threads < self.limit;
        if wanted && let Err(error) = self.start(&mut state) {
            // With no limit, a task must not wait for those that other ranks may wait for.
            if state.threads == 0 || self.limit == usize::MAX {
                state.tasks.pop_back();
                return Err(DistError::runtime(format!("gloo: cannot start a thread: {error}")));
            }
        }
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    fn start(self: &Arc<Self>, state: &mut State) -> std::io::Result<()> {
        let threads = self.clone();
        let builder = thread::Builder::new().name(String::from(self.name)).stack_size(STACK);
        builder.spawn(move || threads.serve())?;
        state.threads += 1;
        Ok(())
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                drop(state);
                // A task that panics has left its work unfinished, which its drop ends.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, result) =
                self.ready.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if result.timed_out() && state.tasks.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
