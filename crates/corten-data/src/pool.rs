//! The worker threads of a loader, seen from the loader.

use crate::sampler::Indices;
use crate::worker::{Answer, MakeFetcher, Order, Worker, WorkerInit};
use corten_core::{Error, Result, bail, err};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How a pool works.
#[derive(Clone)]
pub(crate) struct PoolOptions {
    pub(crate) workers: usize,
    pub(crate) prefetch: usize,
    pub(crate) in_order: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) persistent: bool,
}

/// Threads with a channel of orders each, and one channel of answers.
///
/// Invariants: every task has a number; numbers are handed out in rising order, to one worker after
/// another; a number is *open* from being handed out until its batch is returned; at most
/// `prefetch` numbers are open per worker. Batches that come before their turn wait in `arrived`.
pub(crate) struct Pool<B> {
    options: PoolOptions,
    /// Empty for a worker that is given no more tasks and has been told to end.
    orders: Vec<Option<Sender<Order>>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    answers: Receiver<(usize, Answer<B>)>,
    alive: Vec<bool>,
    tasks: Indices<Vec<usize>>,
    turn: usize,
    sent: usize,
    next: usize,
    owners: BTreeMap<usize, usize>,
    arrived: BTreeMap<usize, Option<Result<B>>>,
    /// Numbers in the order of their arrival.
    order_of_arrival: VecDeque<usize>,
    timed_out: bool,
    /// An error of the sampler, told at its turn.
    failed: Option<Error>,
}

#[cfg(all(feature = "threads", not(target_family = "wasm")))]
fn spawn<B: Send + 'static>(worker: Worker<B>) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(format!("corten-data-{}", worker.id))
        .spawn(move || worker.run())
        .map_err(|error| Error::new(corten_core::ErrorKind::Runtime, error.to_string()))
}

#[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
fn spawn<B>(_: Worker<B>) -> Result<JoinHandle<()>> {
    bail!(Runtime, "workers of a DataLoader are threads, which this build does not have")
}

impl<B: Send + 'static> Pool<B> {
    pub(crate) fn start(
        options: PoolOptions,
        make: &Arc<MakeFetcher<B>>,
        init: Option<&Arc<WorkerInit>>,
        base_seed: u64,
        tasks: Indices<Vec<usize>>,
    ) -> Result<Self> {
        let (send, answers) = channel();
        let mut pool = Self {
            orders: Vec::new(),
            threads: Vec::new(),
            stop: Arc::default(),
            answers,
            alive: Vec::new(),
            // Asked again after its end, which an iterator need not repeat.
            tasks: Box::new(tasks.fuse()),
            turn: 0,
            sent: 0,
            next: 0,
            owners: BTreeMap::new(),
            arrived: BTreeMap::new(),
            order_of_arrival: VecDeque::new(),
            timed_out: false,
            failed: None,
            options,
        };
        for id in 0..pool.options.workers {
            let (orders, received) = channel();
            let worker = Worker {
                id,
                num_workers: pool.options.workers,
                base_seed,
                make: Arc::clone(make),
                init: init.cloned(),
                stop: Arc::clone(&pool.stop),
                orders: received,
                answers: send.clone(),
            };
            pool.threads.push(spawn(worker)?);
            pool.orders.push(Some(orders));
        }
        pool.fill();
        Ok(pool)
    }

    /// Begins another pass with the same threads.
    pub(crate) fn resume(&mut self, tasks: Indices<Vec<usize>>) -> Result<()> {
        while self.arrived.len() < self.owners.len() {
            self.receive()?;
        }
        for orders in self.orders.iter().flatten() {
            // A worker ends only with its channel.
            let _ = orders.send(Order::Resume);
        }
        let mut waiting = self.options.workers;
        while waiting > 0 {
            if let Answer::Resumed = self.answer()?.1 {
                waiting -= 1;
            }
        }
        (self.sent, self.next, self.turn) = (0, 0, 0);
        self.owners.clear();
        self.arrived.clear();
        self.order_of_arrival.clear();
        self.failed = None;
        self.tasks = Box::new(tasks.fuse());
        self.fill();
        Ok(())
    }

    fn fill(&mut self) {
        self.alive.clear();
        self.alive.extend(self.orders.iter().map(Option::is_some));
        for _ in 0..self.options.prefetch.saturating_mul(self.options.workers) {
            if !self.send(None) {
                break;
            }
        }
    }

    /// Hands the next task to the next worker alive, or to the one that just became free.
    fn send(&mut self, to: Option<usize>) -> bool {
        let Some(to) = to.filter(|id| self.alive[*id]).or_else(|| self.next_alive()) else {
            return false;
        };
        let indices = match self.tasks.next() {
            None => return false,
            Some(Ok(indices)) if self.failed.is_none() => indices,
            Some(Ok(_)) => return false,
            Some(Err(error)) => {
                self.failed = Some(error);
                return false;
            }
        };
        if let Some(orders) = &self.orders[to] {
            // A worker ends only with its channel.
            let _ = orders.send(Order::Batch(self.sent, indices));
        }
        self.owners.insert(self.sent, to);
        self.sent += 1;
        true
    }

    fn next_alive(&mut self) -> Option<usize> {
        let count = self.alive.len();
        let found = (0..count).map(|step| (self.turn + step) % count).find(|id| self.alive[*id])?;
        self.turn = (found + 1) % count;
        Some(found)
    }

    /// The next batch; `None` at the end of the pass.
    pub(crate) fn next_batch(&mut self) -> Option<Result<B>> {
        loop {
            let Some(number) = self.ready() else {
                if self.owners.is_empty() {
                    return self.failed.take().map(Err);
                }
                if let Err(error) = self.receive() {
                    return Some(Err(error));
                }
                continue;
            };
            let (answer, owner) = (self.arrived.remove(&number)?, self.owners.remove(&number)?);
            let Some(batch) = answer else {
                self.retire(owner);
                self.send(None);
                continue;
            };
            self.send((!self.options.in_order).then_some(owner));
            return Some(batch);
        }
    }

    /// The number of an answer whose turn it is.
    fn ready(&mut self) -> Option<usize> {
        if !self.options.in_order {
            return self.order_of_arrival.pop_front();
        }
        while self.next < self.sent && !self.owners.contains_key(&self.next) {
            self.next += 1;
        }
        self.arrived.contains_key(&self.next).then_some(self.next)
    }

    fn receive(&mut self) -> Result<()> {
        let (number, answer) = match self.answer()?.1 {
            Answer::Batch(number, batch) => (number, Some(batch)),
            Answer::Ended(number) => (number, None),
            Answer::Resumed => return Ok(()),
        };
        self.arrived.insert(number, answer);
        if !self.options.in_order {
            self.order_of_arrival.push_back(number);
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<(usize, Answer<B>)> {
        if self.timed_out {
            bail!(Runtime, "the workers of this pass have been ended");
        }
        let gone = || err!(Internal, "the threads of a loader ended early");
        let Some(limit) = self.options.timeout else {
            return self.answers.recv().map_err(|_| gone());
        };
        self.answers.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Disconnected => gone(),
            RecvTimeoutError::Timeout => {
                self.give_up();
                err!(Runtime, "DataLoader timed out after {} seconds", limit.as_secs_f64())
            }
        })
    }

    /// Leaves the threads to themselves: each ends with the sample that it is at.
    fn give_up(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.timed_out = true;
        self.orders.clear();
        self.threads.clear();
        self.owners.clear();
        self.arrived.clear();
        self.order_of_arrival.clear();
        self.alive.clear();
    }

    /// Whether another pass can use the threads.
    pub(crate) fn is_reusable(&self) -> bool {
        self.options.persistent && !self.timed_out
    }

    /// Gives no more tasks to a worker whose part of the samples has ended.
    fn retire(&mut self, id: usize) {
        self.alive[id] = false;
        if !self.options.persistent {
            self.orders[id] = None;
        }
    }
}

impl<B> Drop for Pool<B> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.orders.clear();
        for thread in self.threads.drain(..) {
            // A thread catches the panics of its samples: joining cannot fail.
            let _ = thread.join();
        }
    }
}
