//! Threads that fetch batches ahead.

use corten_core::{Error, ErrorKind, Result};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Makes the batch of some indices.
pub(crate) type Fetch<B> = dyn Fn(&[usize]) -> Result<B> + Send + Sync;
type Answer<B> = (usize, Result<B>);

/// Threads over one list of batches.
///
/// Invariants: a batch has a number, its place in the list; threads take numbers in rising order;
/// at most `ahead` answers wait in the channel, so memory is bounded by the threads and the
/// channel; answers that come before their turn wait in `early`. Dropping closes the channel,
/// which ends every thread at its next answer, and then joins them.
pub(crate) struct Pool<B> {
    answers: Option<Receiver<Answer<B>>>,
    early: BTreeMap<usize, Result<B>>,
    threads: Vec<JoinHandle<()>>,
}

struct Tasks {
    batches: Vec<Vec<usize>>,
    next: Mutex<usize>,
}

impl<B: Send + 'static> Pool<B> {
    pub(crate) fn start(
        fetch: Arc<Fetch<B>>,
        batches: Vec<Vec<usize>>,
        threads: usize,
        ahead: usize,
    ) -> Result<Self> {
        let (send, answers) = sync_channel(ahead.max(1));
        let tasks = Arc::new(Tasks { batches, next: Mutex::new(0) });
        let mut pool = Self { answers: Some(answers), early: BTreeMap::new(), threads: Vec::new() };
        for i in 0..threads {
            let (fetch, tasks, send) = (Arc::clone(&fetch), Arc::clone(&tasks), send.clone());
            let thread = std::thread::Builder::new()
                .name(format!("corten-data-{i}"))
                .spawn(move || work(&*fetch, &tasks, &send))
                .map_err(|error| Error::new(ErrorKind::Runtime, error.to_string()))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Waits for batch `number`; `None` when the threads ended without it.
    pub(crate) fn take(&mut self, number: usize) -> Option<Result<B>> {
        loop {
            if let Some(answer) = self.early.remove(&number) {
                return Some(answer);
            }
            let (arrived, answer) = self.answers.as_ref()?.recv().ok()?;
            self.early.insert(arrived, answer);
        }
    }
}

impl<B> Drop for Pool<B> {
    fn drop(&mut self) {
        self.answers = None;
        for thread in self.threads.drain(..) {
            // A thread catches the panics of its batches: joining cannot fail.
            let _ = thread.join();
        }
    }
}

fn work<B>(fetch: &Fetch<B>, tasks: &Tasks, send: &SyncSender<Answer<B>>) {
    loop {
        let number = {
            let mut next = tasks.next.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next - 1
        };
        let Some(indices) = tasks.batches.get(number) else { return };
        let answer = catch_unwind(AssertUnwindSafe(|| fetch(indices)))
            .unwrap_or_else(|panic| Err(Error::new(ErrorKind::Runtime, message(panic.as_ref()))));
        if send.send((number, answer)).is_err() {
            return;
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a data set panicked: {}", text.unwrap_or("without a message"))
}
