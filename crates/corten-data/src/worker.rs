//! What a worker thread does: it makes a fetcher, then answers tasks.
#![cfg_attr(
    not(all(feature = "threads", not(target_family = "wasm"))),
    allow(dead_code, reason = "there are no workers")
)]

use corten_core::{Error, ErrorKind, Generator, Result};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// Makes the batch of some indices; `None` where the samples have ended.
pub(crate) type Fetcher<B> = Box<dyn FnMut(&[usize]) -> Option<Result<B>> + Send>;
/// Makes a fetcher for a pass, in the thread that fetches.
pub(crate) type MakeFetcher<B> = dyn Fn() -> Result<Fetcher<B>> + Send + Sync;
/// Runs in each worker before its first sample.
pub(crate) type WorkerInit = dyn Fn(&WorkerInfo) -> Result<()> + Send + Sync;

thread_local! {
    static INFO: RefCell<Option<WorkerInfo>> = const { RefCell::new(None) };
}

/// What a worker thread knows of itself.
///
/// ```
/// use corten::data::{DataLoader, FnDataset, worker_info};
///
/// let ids = FnDataset::new(4, |_| Ok(worker_info().map_or(-1, |info| info.id() as i64)));
/// let mut seen = Vec::new();
/// for batch in DataLoader::new(ids, 1).workers(2).iter()? {
///     seen.extend(batch?.to_vec::<i64>()?);
/// }
/// assert_eq!(seen, [0, 1, 0, 1]);
/// assert!(worker_info().is_none());
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct WorkerInfo {
    id: usize,
    num_workers: usize,
    seed: u64,
    generator: Generator,
}

impl WorkerInfo {
    fn new(id: usize, num_workers: usize, base_seed: u64) -> Self {
        let seed = base_seed.wrapping_add(id as u64);
        Self { id, num_workers, seed, generator: Generator::cpu(seed) }
    }

    /// The number of the worker, from 0.
    pub fn id(&self) -> usize {
        self.id
    }

    /// How many workers there are.
    pub fn num_workers(&self) -> usize {
        self.num_workers
    }

    /// The seed of the worker: that of the pass and its number.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The generator of the worker, from which its samples draw. It begins with [`seed`](Self::seed)
    /// and gives what the default generator gives in a worker process of PyTorch.
    pub fn generator(&self) -> &Generator {
        &self.generator
    }
}

/// The [`WorkerInfo`] of this thread; `None` outside of the workers of a loader.
pub fn worker_info() -> Option<WorkerInfo> {
    INFO.with(|info| info.borrow().clone())
}

/// What the loader tells a worker.
pub(crate) enum Order {
    /// Fetch the batch of a number.
    Batch(usize, Vec<usize>),
    /// Begin a new pass.
    Resume,
}

/// What a worker answers.
pub(crate) enum Answer<B> {
    /// The batch of a number.
    Batch(usize, Result<B>),
    /// There are no more samples for the batch of a number.
    Ended(usize),
    /// A new pass has begun.
    Resumed,
}

/// A worker's part of a loader.
pub(crate) struct Worker<B> {
    pub(crate) id: usize,
    pub(crate) num_workers: usize,
    pub(crate) base_seed: u64,
    pub(crate) make: Arc<MakeFetcher<B>>,
    pub(crate) init: Option<Arc<WorkerInit>>,
    /// Set when nobody waits for answers any more.
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) orders: Receiver<Order>,
    pub(crate) answers: Sender<(usize, Answer<B>)>,
}

impl<B> Worker<B> {
    /// Answers until the loader closes one of the channels.
    pub(crate) fn run(self) {
        let info = WorkerInfo::new(self.id, self.num_workers, self.base_seed);
        INFO.with(|slot| *slot.borrow_mut() = Some(info.clone()));
        let mut fetcher = self.caught(|| {
            if let Some(init) = &self.init {
                init(&info)?;
            }
            (self.make)()
        });
        while let Ok(order) = self.orders.recv() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let answer = match order {
                Order::Resume => {
                    fetcher = self.caught(|| (self.make)());
                    Answer::Resumed
                }
                Order::Batch(number, indices) => self.fetched(&mut fetcher, number, &indices),
            };
            if self.answers.send((self.id, answer)).is_err() {
                return;
            }
        }
    }

    fn fetched(
        &self,
        fetcher: &mut Result<Fetcher<B>>,
        number: usize,
        indices: &[usize],
    ) -> Answer<B> {
        // An error at the beginning is told once; after it the worker has nothing to give.
        match std::mem::replace(fetcher, Ok(Box::new(|_| None))) {
            Err(reason) => Answer::Batch(number, Err(reason)),
            Ok(mut fetch) => {
                let fetched = self.caught(|| fetch(indices).transpose());
                *fetcher = Ok(fetch);
                match fetched {
                    Ok(Some(batch)) => Answer::Batch(number, Ok(batch)),
                    Ok(None) => Answer::Ended(number),
                    Err(error) => Answer::Batch(number, Err(error)),
                }
            }
        }
    }

    /// What a function gives, a panic as an error.
    fn caught<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
            let text = message(panic.as_ref());
            let text = format!("Caught a panic in DataLoader worker thread {}: {text}", self.id);
            Err(Error::new(ErrorKind::Runtime, text))
        })
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
