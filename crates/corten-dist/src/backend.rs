//! An engine with what every process group adds: checks, sequence numbers, time, and who is missing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::checks;
use crate::dense::{dense, with_returns};
use crate::engine::{Call, CallOptions, DEFAULT_TIMEOUT, Engine};
use crate::error::{DistError, DistErrorKind, Result};
#[cfg(all(feature = "cuda", unix))]
use crate::staged::Staged;
use crate::store::Store;
use crate::work::{Explain, Work};

/// A back end of a process group: an engine, and the store through which its ranks found each other.
pub struct Backend {
    engine: Arc<dyn Engine>,
    store: Option<Arc<dyn Store>>,
    timeout: Mutex<Duration>,
    sequence: AtomicU64,
    barriers: AtomicU64,
}

/// How long the ranks of a group have to say that they have failed, too.
const GRACE: Duration = Duration::from_secs(2);

impl Backend {
    /// A back end over an engine. Without a store nobody finds out who is missing.
    pub fn new(engine: Arc<dyn Engine>, store: Option<Arc<dyn Store>>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            store,
            timeout: Mutex::new(DEFAULT_TIMEOUT),
            sequence: AtomicU64::new(0),
            barriers: AtomicU64::new(0),
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The store of the group.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// The time that calls have unless they say otherwise.
    pub fn timeout(&self) -> Duration {
        *self.timeout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the time that later calls have.
    pub fn set_timeout(&self, timeout: Duration) {
        *self.timeout.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
    }

    /// How many collectives were started: the number of the last one.
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// Checks a call and starts it. Tensors of any strides are taken; what is not contiguous is copied.
    ///
    /// # Errors
    /// `Runtime` or `Value` for what is wrong with the arguments. What fails later is the work's.
    pub fn start(
        self: &Arc<Self>,
        call: Call,
        timeout: Option<Duration>,
        is_async: bool,
    ) -> Result<Arc<Work>> {
        checks::check(&*self.engine, &call)?;
        let outputs = call.outputs();
        #[cfg(all(feature = "cuda", unix))]
        let (call, staged) = match self.engine.needs_host_memory() {
            true => Staged::of(call)?,
            false => (call, None),
        };
        let (call, returns) = dense(call)?;
        if returns.iter().any(|(tensor, _)| !tensor.device().is_cpu()) {
            return Err(DistError::value("Tensors must be contiguous"));
        }
        let is_point_to_point = call.is_point_to_point();
        let sequence =
            if is_point_to_point { 0 } else { self.sequence.fetch_add(1, Ordering::Relaxed) + 1 };
        let timeout = timeout.unwrap_or_else(|| self.timeout());
        let options = CallOptions { timeout, sequence, is_async };
        let work = with_returns(self.engine.start(call, &options), outputs, returns);
        #[cfg(all(feature = "cuda", unix))]
        let work = match staged {
            Some(staged) => staged.follow(&work),
            None => work,
        };
        work.set_place(timeout, sequence, self.explain());
        if let Some(store) = self.store.clone().filter(|_| sequence > 0) {
            let rank = self.engine.rank();
            work.set_watch(Arc::new(move |waits| answer_failures(store.clone(), rank, waits)));
        }
        if self.store.is_some() {
            self.report_failure(&work);
        }
        Ok(work)
    }

    /// Waits until all ranks are here. Rank 0 says who is not: the first of them, or all.
    ///
    /// # Errors
    /// `Runtime` in PyTorch's words when ranks do not come in time; `Runtime` without a store.
    pub fn monitored_barrier(&self, timeout: Option<Duration>, wait_all_ranks: bool) -> Result<()> {
        let timeout = timeout.unwrap_or_else(|| self.timeout());
        let Some(store) = &self.store else {
            return Err(DistError::runtime("monitoredBarrier needs a process group with a store"));
        };
        let number = self.barriers.fetch_add(1, Ordering::Relaxed);
        let name = |what: &str, rank: usize| format!("monitored_barrier/{number}/{what}/{rank}");
        let rank = self.engine.rank();
        if rank == 0 {
            return self.watch_ranks(&**store, timeout, wait_all_ranks, &name);
        }
        store.set(&name("here", rank), b"1")?;
        let key = name("done", rank);
        let failed = |error: DistError| match error.kind() {
            DistErrorKind::Foreign => error,
            _ => DistError::runtime(format!(
                "[Rank {rank}]: Rank {rank} successfully reached monitoredBarrier, but received \
                 errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty \
                 rank. Original exception: {error}"
            )),
        };
        // Rank 0 may take all of its time, so this one waits a little longer.
        let patience = timeout.saturating_add(GRACE);
        store.wait(std::slice::from_ref(&key), Some(patience)).map_err(failed)?;
        match store.get(&key)?.as_slice() {
            b"1" => Ok(()),
            message => {
                Err(failed(DistError::runtime(String::from_utf8_lossy(message).into_owned())))
            }
        }
    }

    fn watch_ranks(
        &self,
        store: &dyn Store,
        timeout: Duration,
        wait_all_ranks: bool,
        name: &dyn Fn(&str, usize) -> String,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut missing = Vec::new();
        for rank in 1..self.engine.size() {
            let left = timeout.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
            match store.wait(&[name("here", rank)], Some(left)) {
                Ok(()) => {}
                Err(error) if error.kind() == DistErrorKind::Foreign => return Err(error),
                Err(_) => missing.push(rank),
            }
            if !missing.is_empty() && !wait_all_ranks {
                break;
            }
        }
        let millis = timeout.as_millis();
        let listed: Vec<String> = missing.iter().map(usize::to_string).collect();
        let error = match missing.len() {
            0 => None,
            1 => Some(format!(
                "[Rank 0]: Rank {} failed to pass monitoredBarrier in {millis} ms",
                listed[0]
            )),
            _ => Some(format!(
                "[Rank 0]: Ranks {} failed to pass monitoredBarrier in {millis} ms",
                listed.join(", ")
            )),
        };
        let answer = error.as_deref().unwrap_or("1");
        for rank in 1..self.engine.size() {
            store.set(&name("done", rank), answer.as_bytes())?;
        }
        error.map_or(Ok(()), |message| Err(DistError::runtime(message)))
    }

    /// Tells the others through the store when a call fails here. Which call it is does not matter:
    /// ranks may be in different ones when one of them is gone, and none works after that.
    fn report_failure(self: &Arc<Self>, work: &Work) {
        let backend = Arc::downgrade(self);
        work.on_end(move |work| {
            if !work.raw_error().is_some_and(|error| is_broken(&error)) {
                return;
            }
            let Some(backend) = backend.upgrade() else { return };
            let Some(store) = backend.store.clone() else { return };
            let key = failure_key(backend.engine.rank());
            // The thread of the engine must not wait for a store.
            let _ = std::thread::Builder::new()
                .name("report-failure".into())
                .spawn(move || store.set(&key, b"1").and_then(|()| store.set(FAILED, b"1")));
        });
    }

    fn explain(self: &Arc<Self>) -> Explain {
        let backend = Arc::downgrade(self);
        Arc::new(move |work, error| match (backend.upgrade(), error) {
            (Some(backend), error) => backend.explained(work, error),
            (None, Some(error)) => error.clone(),
            (None, None) => DistError::backend(format!("{} did not end in time", work.name())),
        })
    }

    /// What users are told of a collective that failed or took too long.
    fn explained(&self, work: &Work, error: Option<&DistError>) -> DistError {
        if let Some(error) = error.filter(|error| !is_broken(error)) {
            return error.clone();
        }
        // Asking takes time, too.
        let age = work.age();
        let has_others = work.sequence() > 0 && self.engine.size() > 1;
        let known = self.engine.missing(work.sequence()).filter(|_| has_others);
        let message = match error {
            Some(error) => error.message().to_owned(),
            None => {
                let timeout = work.timeout().unwrap_or_default();
                format!(
                    "[Rank {}] {} (sequence number {}) of the {} back end timed out: it ran for {} ms \
                     with a timeout of {} ms.",
                    self.engine.rank(),
                    work.name(),
                    work.sequence(),
                    self.engine.name(),
                    age.as_millis(),
                    timeout.as_millis()
                )
            }
        };
        if error.is_none() {
            // The others fail by this and say so: who is silent afterwards is the cause.
            self.engine.abort(&message);
        }
        if !has_others {
            return DistError::backend(message);
        }
        DistError::backend(message).with_note(&silence(known.or_else(|| self.ask_others())))
    }

    /// The ranks that have not said through the store that they failed; nothing where the store is gone.
    fn ask_others(&self) -> Option<Vec<usize>> {
        let store = self.store.clone()?;
        let (rank, size) = (self.engine.rank(), self.engine.size());
        let (sender, receiver) = channel();
        // A store whose server is gone keeps the thread for as long as it likes.
        std::thread::Builder::new()
            .name("missing-ranks".into())
            .spawn(move || {
                let _ = sender.send(silent_ranks(&*store, rank, size));
            })
            .ok()?;
        receiver.recv_timeout(GRACE + Duration::from_secs(1)).ok()?.ok()
    }
}

/// Whether the connections between ranks are at fault, and not the arguments.
fn is_broken(error: &DistError) -> bool {
    matches!(error.kind(), DistErrorKind::Backend | DistErrorKind::Network)
}

/// There when any rank has failed.
const FAILED: &str = "failed";

/// While this rank waits, reports it to others that fail: it is none of those that are missing.
fn answer_failures(store: Arc<dyn Store>, rank: usize, waits: Arc<AtomicBool>) {
    let answer = move || -> Result<()> {
        while waits.load(Ordering::Acquire) {
            if store.check(&[FAILED.to_owned()])? {
                return store.set(&failure_key(rank), b"1");
            }
            std::thread::sleep(Duration::from_millis(400));
        }
        Ok(())
    };
    // Without the thread or the store, others name this rank, too.
    let _ = std::thread::Builder::new().name("answer-failures".into()).spawn(answer);
}

/// A sentence about the ranks that have not joined a collective, or have not failed in it.
fn silence(missing: Option<Vec<usize>>) -> String {
    let Some(missing) = missing else {
        return "The store did not say which ranks are missing.".into();
    };
    let listed: Vec<String> = missing.iter().map(usize::to_string).collect();
    match missing.len() {
        0 => "All ranks reported that they failed, too.".into(),
        1 => format!("Rank {} did not report.", listed[0]),
        _ => format!("Ranks {} did not report.", listed.join(", ")),
    }
}

fn failure_key(rank: usize) -> String {
    format!("failed/{rank}")
}

/// Says that this rank failed, and gives the others some time to say so.
fn silent_ranks(store: &dyn Store, rank: usize, size: usize) -> Result<Vec<usize>> {
    let begun = Instant::now();
    store.set(&failure_key(rank), b"1")?;
    store.set(FAILED, b"1")?;
    loop {
        let mut silent = Vec::new();
        for other in 0..size {
            if !store.check(&[failure_key(other)])? {
                silent.push(other);
            }
        }
        if silent.is_empty() || begun.elapsed() >= GRACE {
            return Ok(silent);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
