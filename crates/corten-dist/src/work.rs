//! A call on its way: what waits for it, and what it becomes.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use corten_ops::Tensor;

use crate::error::{DistError, Result};
use crate::interrupt;

/// A call that an engine has started.
///
/// The engine ends it once, with [`complete`](Self::complete) or [`fail`](Self::fail); any number of
/// threads wait.
///
/// ```
/// use corten_dist::{DistError, Work};
///
/// let work = Work::new("allreduce", Vec::new());
/// assert!(!work.is_completed());
/// work.fail(DistError::backend("the peer is gone"));
/// assert!(work.wait(None).is_err());
/// ```
pub struct Work {
    outputs: Vec<Tensor>,
    core: Arc<Core>,
}

/// The work without its tensors.
struct Core {
    name: &'static str,
    begun: Instant,
    state: Mutex<State>,
    ended: Condvar,
    /// The sender of what was received, plus 1.
    source: AtomicUsize,
    settings: OnceLock<Settings>,
    watch: OnceLock<Watch>,
    progress: OnceLock<&'static dyn Progress>,
    driver: Option<Box<dyn Driver>>,
}

/// What a group adds to the work of its engine.
#[derive(Clone)]
struct Settings {
    timeout: Duration,
    sequence: u64,
    explain: Explain,
}

/// Makes the error that users see from the engine's, or from the fact (`None`) that the time is over.
pub type Explain = Arc<dyn Fn(&Work, Option<&DistError>) -> DistError + Send + Sync>;

/// Called once a wait has lasted for a second; the flag turns false when it is over.
pub type Watch = Arc<dyn Fn(Arc<AtomicBool>) + Send + Sync>;

/// After so long, a wait is watched.
const PATIENCE: Duration = Duration::from_secs(1);

/// How to wait for work whose end is known elsewhere: on a stream of a device, or in another language.
pub trait Driver: Send + Sync {
    /// Waits for the end, or has the caller's stream wait for it; `timeout` as in [`Work::wait`].
    ///
    /// # Errors
    /// Those of the work.
    fn wait(&self, work: &Work, timeout: Option<Duration>) -> Result<()>;

    /// Whether it has ended.
    fn is_completed(&self, work: &Work) -> bool;

    /// Has the caller's stream wait for it, without keeping the thread. The default waits.
    ///
    /// # Errors
    /// Those of the work.
    fn block_current_stream(&self, work: &Work) -> Result<()> {
        self.wait(work, None)
    }

    /// The error it ended with.
    fn exception(&self, work: &Work) -> Option<DistError> {
        let _ = work;
        None
    }

    /// What lies behind it, for those who know the type.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }
}

/// An engine whose calls get on faster when the thread that waits for one sees to it.
pub trait Progress: Send + Sync {
    /// Sees to calls until `work` has ended or the time is over, if there is one. May come back early, where
    /// others see to them.
    ///
    /// # Errors
    /// Those of [`crate::interrupt::check`].
    fn drive(&self, work: &Work, end: Option<Instant>) -> Result<()>;

    /// Sees to calls once, without waiting.
    fn poll(&self);
}

#[derive(Default)]
struct State {
    result: Option<Result<()>>,
    /// The error as users see it, made once.
    explained: Option<DistError>,
    callbacks: Vec<Callback>,
}

type Callback = Box<dyn FnOnce(&Work) + Send>;

impl Work {
    /// Work that is on its way: `name` is [`crate::Call::name`], `outputs` is what waits for it get.
    pub fn new(name: &'static str, outputs: Vec<Tensor>) -> Arc<Self> {
        Arc::new(Self::make(name, outputs, None))
    }

    /// Work whose end is known elsewhere.
    pub fn driven(name: &'static str, outputs: Vec<Tensor>, driver: Box<dyn Driver>) -> Arc<Self> {
        Arc::new(Self::make(name, outputs, Some(driver)))
    }

    /// Work that has failed already.
    pub fn failed(name: &'static str, error: DistError) -> Arc<Self> {
        let work = Self::new(name, Vec::new());
        work.fail(error);
        work
    }

    /// Work that is done already.
    pub fn done(name: &'static str, outputs: Vec<Tensor>) -> Arc<Self> {
        let work = Self::new(name, outputs);
        work.complete();
        work
    }

    /// Work that is done when all are, and fails with the first error.
    pub fn join(name: &'static str, works: Vec<Arc<Self>>) -> Arc<Self> {
        let outputs = works.iter().flat_map(|work| work.outputs.clone()).collect();
        let joined = Self::new(name, outputs);
        works.iter().for_each(|work| joined.share_progress(work));
        let left = Arc::new(AtomicUsize::new(works.len()));
        if works.is_empty() {
            joined.complete();
        }
        for work in works {
            let (joined, left) = (joined.clone(), left.clone());
            work.on_end(move |work| {
                if let Some(error) = work.raw_error() {
                    joined.fail(error);
                }
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    joined.complete();
                }
            });
        }
        joined
    }

    fn make(name: &'static str, outputs: Vec<Tensor>, driver: Option<Box<dyn Driver>>) -> Self {
        let core = Core {
            name,
            begun: Instant::now(),
            state: Mutex::default(),
            ended: Condvar::new(),
            source: AtomicUsize::new(0),
            settings: OnceLock::new(),
            watch: OnceLock::new(),
            progress: OnceLock::new(),
            driver,
        };
        Self { outputs, core: Arc::new(core) }
    }

    /// The same work without its tensors: for engines that know of its end after the memory may go.
    pub fn without_outputs(&self) -> Arc<Self> {
        Arc::new(Self { outputs: Vec::new(), core: self.core.clone() })
    }

    /// The name of the call.
    pub fn name(&self) -> &'static str {
        self.core.name
    }

    /// The tensors that the call writes. They hold the result when it is done.
    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    /// The number of the collective in its group; 0 where there is none.
    pub fn sequence(&self) -> u64 {
        self.core.settings.get().map_or(0, |settings| settings.sequence)
    }

    /// How long it may take, counted from its start; nothing where no group has said.
    pub fn timeout(&self) -> Option<Duration> {
        self.core.settings.get().map(|settings| settings.timeout)
    }

    /// How long it has been running.
    pub fn age(&self) -> Duration {
        self.core.begun.elapsed()
    }

    /// The driver, where the end is known elsewhere.
    pub fn driver(&self) -> Option<&dyn Driver> {
        self.core.driver.as_deref()
    }

    /// Tells the work its place in a group. Only the first call counts.
    pub fn set_place(&self, timeout: Duration, sequence: u64, explain: Explain) {
        let _ = self.core.settings.set(Settings { timeout, sequence, explain });
    }

    /// Has waits that last watched. Only the first call counts.
    pub fn set_watch(&self, watch: Watch) {
        let _ = self.core.watch.set(watch);
    }

    /// Has a wait watched that lasts for long, until the flag is turned false; nothing where nobody
    /// watches.
    pub(crate) fn watch(&self) -> Option<Arc<AtomicBool>> {
        let watch = self.core.watch.get()?;
        let flag = Arc::new(AtomicBool::new(true));
        watch(flag.clone());
        Some(flag)
    }

    /// Ends the work because its time is over, with what its group says to that.
    #[cfg(feature = "cuda")]
    pub(crate) fn expire(&self) {
        let error = self.explained(None);
        self.fail(error);
    }

    /// Has waits see to the engine's calls. Only the first call counts.
    pub fn set_progress(&self, progress: &'static dyn Progress) {
        let _ = self.core.progress.set(progress);
    }

    /// Has waits see to what `other` is waiting for, as its own waits do.
    pub fn share_progress(&self, other: &Self) {
        if let Some(progress) = other.core.progress.get() {
            self.set_progress(*progress);
        }
    }

    /// Ends the work well. What comes after the end changes nothing.
    pub fn complete(&self) {
        self.end(Ok(()));
    }

    /// Ends the work with an error. What comes after the end changes nothing.
    pub fn fail(&self, error: DistError) {
        self.end(Err(error));
    }

    /// Ends the work with the error, if there is one.
    pub fn finish(&self, result: Result<()>) {
        self.end(result);
    }

    fn end(&self, result: Result<()>) {
        let callbacks = {
            let mut state = self.lock();
            if state.result.is_some() {
                return;
            }
            state.result = Some(result);
            std::mem::take(&mut state.callbacks)
        };
        self.core.ended.notify_all();
        callbacks.into_iter().for_each(|callback| callback(self));
    }

    /// Notes who sent what was received.
    pub fn set_source_rank(&self, rank: usize) {
        self.core.source.store(rank + 1, Ordering::Relaxed);
    }

    /// Who sent what was received.
    ///
    /// # Errors
    /// `Runtime` for work that receives nothing.
    pub fn source_rank(&self) -> Result<usize> {
        let source = self.core.source.load(Ordering::Relaxed);
        source.checked_sub(1).ok_or_else(|| {
            DistError::runtime(
                "sourceRank() may only be called on work objects that correspond to a recv or \
                 recv-from-any call.",
            )
        })
    }

    /// Whether it has ended, well or not.
    pub fn is_completed(&self) -> bool {
        if self.has_ended()
            || self.core.driver.as_ref().is_some_and(|driver| driver.is_completed(self))
        {
            return true;
        }
        let Some(progress) = self.core.progress.get() else { return false };
        progress.poll();
        self.has_ended()
    }

    /// Whether the engine has ended it; nothing is done about it, and no driver is asked.
    pub fn has_ended(&self) -> bool {
        self.lock().result.is_some()
    }

    /// Sleeps until the engine has ended it, for `timeout` at most.
    pub fn rest(&self, timeout: Duration) {
        let state = self.lock();
        if state.result.is_none() {
            // Which of the two it was does not matter.
            drop(self.core.ended.wait_timeout(state, timeout));
        }
    }

    /// Whether it has ended well.
    pub fn is_success(&self) -> bool {
        self.is_completed() && self.exception().is_none()
    }

    /// The error it ended with, as users see it.
    pub fn exception(&self) -> Option<DistError> {
        if let Some(driver) = &self.core.driver
            && let Some(error) = driver.exception(self)
        {
            return Some(error);
        }
        self.raw_error().map(|error| self.explained(Some(&error)))
    }

    /// The error it ended with, as the engine said it.
    pub fn raw_error(&self) -> Option<DistError> {
        self.lock().result.as_ref().and_then(|result| result.as_ref().err().cloned())
    }

    /// Calls `callback` when the work has ended: at once, on this thread, if it has; else on the
    /// thread that ends it, which must not be kept.
    pub fn on_end(&self, callback: impl FnOnce(&Self) + Send + 'static) {
        let mut state = self.lock();
        if state.result.is_none() {
            state.callbacks.push(Box::new(callback));
            return;
        }
        drop(state);
        callback(self);
    }

    /// Waits for the end, for `timeout` from now on; without one, until the time that the group gives
    /// is over. Work of devices has the current stream wait instead.
    ///
    /// # Errors
    /// What the call failed with, or `Backend` when the time is over.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        if let Some(driver) = &self.core.driver {
            return driver.wait(self, timeout);
        }
        self.wait_for_end(timeout)
    }

    /// As [`wait`](Self::wait), for the end itself, also where a driver would not keep the thread.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_for_end(&self, timeout: Option<Duration>) -> Result<()> {
        let end = match timeout {
            Some(timeout) => Instant::now().checked_add(timeout),
            None => self.timeout().and_then(|timeout| self.core.begun.checked_add(timeout)),
        };
        let patience = Instant::now() + PATIENCE;
        let is_short = end.is_some_and(|end| end <= patience);
        let mut result = self.wait_until(if is_short { end } else { Some(patience) })?;
        if result.is_none() && !is_short {
            let _watched = self.watch().map(Watched);
            result = self.wait_until(end)?;
        }
        match result {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(self.explained(Some(&error))),
            None => Err(self.explained(None)),
        }
    }

    fn wait_until(&self, end: Option<Instant>) -> Result<Option<Result<()>>> {
        if let Some(progress) = self.core.progress.get() {
            progress.drive(self, end)?;
        }
        let ready = |state: &mut State| state.result.clone();
        Ok(interrupt::wait_until(&self.core.ended, self.lock(), end, ready)?.1)
    }

    /// Has the current stream of the device wait for it; keeps the thread where there is no stream.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn block_current_stream(&self) -> Result<()> {
        match &self.core.driver {
            Some(driver) => driver.block_current_stream(self),
            None => self.wait(None),
        }
    }

    /// The error that users see; `None` is the time that is over.
    fn explained(&self, error: Option<&DistError>) -> DistError {
        if let Some(explained) = &self.lock().explained {
            return explained.clone();
        }
        let explained = match (self.core.settings.get(), error) {
            (Some(settings), _) => (settings.explain)(self, error),
            (None, Some(error)) => error.clone(),
            (None, None) => DistError::backend(format!(
                "{} did not end within {} ms",
                self.core.name,
                self.age().as_millis()
            )),
        };
        self.lock().explained.get_or_insert(explained).clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.core.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns the flag of a watched wait false when it is over.
struct Watched(Arc<AtomicBool>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("name", &self.core.name)
            .field("completed", &self.is_completed())
            .finish_non_exhaustive()
    }
}
