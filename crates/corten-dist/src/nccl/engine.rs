//! The engine: communicators by device, made when they are needed; calls on streams.
//!
//! # Note [Memory of NCCL's calls]
//! A call that runs on the communicator's stream records its tensors there with the caching allocator, so
//! that memory which is freed, or left by a storage that is resized, is not used anew before the stream
//! has got there; the driver itself waits before it takes memory back that it gave out. One that runs
//! on the caller's stream is in order with all that the allocator gives to that stream. Handles are not
//! kept until the end: a program that runs ahead of the device would hold the memory of many steps.

use std::any::Any;
use std::ffi::{CStr, c_int};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use corten_core::{Device, Error, config};
use corten_cuda::{Event, Stream, StreamGuard};
use corten_ops::{Tensor, op};

use super::communicator::{Communicator, Meeting};
use super::functions::{Config, Functions, functions};
use super::issue::{Plan, RankPosition};
use super::watchdog::{InFlight, Watchdog};
use crate::engine::{Call, CallOptions, Engine};
use crate::error::{DistError, Result};
use crate::store::{PrefixStore, Store};
use crate::work::{Driver, Work};

/// How long a shutdown waits for calls on their way and for the other ranks.
const SHUTDOWN: Duration = Duration::from_secs(30);

/// Settings of communicators. What is `None` the library decides.
#[derive(Clone, Debug, Default)]
pub struct NcclOptions {
    /// Whether calls run on a stream of high priority.
    pub high_priority: bool,
    /// Whether functions of the library wait until they are done. Unless this is true, they do not, so
    /// that ranks that do not come are noticed in time.
    pub blocking: Option<bool>,
    /// Blocks of a cluster, on devices that have clusters.
    pub cga_cluster_size: Option<i32>,
    /// The least number of blocks that a kernel has.
    pub min_ctas: Option<i32>,
    /// The largest number of blocks that a kernel has.
    pub max_ctas: Option<i32>,
    /// The network that is used.
    pub net_name: Option<String>,
    /// Whether communicators that are split off share the resources of the first.
    pub split_share: Option<i32>,
    /// The only device of this rank, where that is known.
    pub device: Option<i8>,
    /// Where the library is searched for.
    pub folders: Vec<PathBuf>,
}

impl NcclOptions {
    /// The settings for a library.
    pub(super) fn config(&self, functions: &Functions, net_name: Option<&CStr>) -> Config {
        let mut config = Config::new(functions.library.version);
        let set = |to: &mut c_int, value: Option<i32>| {
            if let Some(value) = value {
                *to = value;
            }
        };
        config.blocking = c_int::from(self.is_blocking());
        set(&mut config.cga_cluster_size, self.cga_cluster_size);
        set(&mut config.min_ctas, self.min_ctas);
        set(&mut config.max_ctas, self.max_ctas);
        set(&mut config.split_share, self.split_share);
        if let Some(name) = net_name {
            config.net_name = name.as_ptr();
        }
        config
    }

    fn is_blocking(&self) -> bool {
        let asked = || config::var("TORCH_NCCL_USE_COMM_NONBLOCKING").is_some_and(|set| set == "0");
        self.blocking.unwrap_or_else(asked)
    }
}

/// Ranks with GPUs that run NCCL's collectives.
pub struct NcclEngine {
    shared: Arc<Shared>,
}

/// What the watchdog needs, too.
pub(super) struct Shared {
    functions: &'static Functions,
    store: Arc<dyn Store>,
    rank: usize,
    size: usize,
    options: NcclOptions,
    state: Mutex<State>,
    /// Held while a communicator is made, so that it is made once.
    making: Mutex<()>,
    watchdog: Arc<Watchdog>,
    /// The device of the last call; negative before the first one.
    used: AtomicI8,
    splits: AtomicU64,
}

#[derive(Default)]
struct State {
    communicators: Vec<(Key, Arc<Communicator>)>,
    /// Why nothing runs any more.
    ended: Option<DistError>,
}

/// Which communicator: of all ranks, or of this one and a peer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    device: i8,
    peer: Option<usize>,
}

impl NcclEngine {
    /// An engine for rank `rank` of `size`. All of them use one store, under keys that no other engine
    /// uses. Nothing is connected before the first call, unless [`connect`](Self::connect) is called.
    ///
    /// # Errors
    /// `Runtime` where NCCL or a GPU is missing, with the line that installs the former.
    pub fn new(
        store: Arc<dyn Store>,
        rank: usize,
        size: usize,
        options: NcclOptions,
    ) -> Result<Arc<Self>> {
        if size == 0 || rank >= size {
            return Err(DistError::value(format!("rank {rank} is not one of {size} ranks")));
        }
        // NCCL looks for the driver, which must be open by then.
        let driver = corten_cuda::check_driver();
        let functions = functions(&options.folders)?;
        driver?;
        if corten_cuda::device_count() == 0 {
            return Err(DistError::value(
                "ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
            ));
        }
        Ok(Self::with(functions, store, (rank, size), options, State::default()))
    }

    fn with(
        functions: &'static Functions,
        store: Arc<dyn Store>,
        (rank, size): (usize, usize),
        options: NcclOptions,
        state: State,
    ) -> Arc<Self> {
        let used = state.communicators.first().map_or(-1, |(key, _)| key.device);
        let shared = Shared {
            functions,
            store,
            rank,
            size,
            options,
            state: Mutex::new(state),
            making: Mutex::new(()),
            watchdog: Arc::default(),
            used: AtomicI8::new(used),
            splits: AtomicU64::new(0),
        };
        Arc::new(Self { shared: Arc::new(shared) })
    }

    /// Makes the communicator of all ranks for a device now. All ranks call this.
    ///
    /// # Errors
    /// `Backend` when ranks do not come within `timeout`.
    pub fn connect(&self, device: i8, timeout: Duration) -> Result<()> {
        self.shared.communicator(Key { device, peer: None }, Instant::now() + timeout).map(drop)
    }

    /// Takes part in a split of the other ranks without being in a part. All ranks call this or
    /// [`Engine::split`].
    ///
    /// # Errors
    /// As [`Engine::split`].
    pub fn stay_out(&self, timeout: Duration) -> Result<()> {
        self.split_ranks(&[], timeout).map(drop)
    }

    /// How many communicators were split off.
    pub fn split_count(&self) -> u64 {
        self.shared.splits.load(Ordering::Relaxed)
    }

    /// Whether communicators exist.
    pub fn is_initialized(&self) -> bool {
        !self.shared.lock().communicators.is_empty()
    }

    /// The address of the library's communicator of all ranks for the device of the last call; 0 where
    /// there is none.
    pub fn comm_address(&self) -> usize {
        let state = self.shared.lock();
        let all = state.communicators.iter().find(|(key, _)| key.peer.is_none());
        all.map_or(0, |(_, communicator)| communicator.address())
    }

    /// The version of the library: major, minor, patch.
    pub fn version(&self) -> (u32, u32, u32) {
        self.shared.functions.library.version
    }

    fn split_ranks(&self, ranks: &[usize], timeout: Duration) -> Result<Option<Arc<Self>>> {
        let (shared, deadline) = (&self.shared, Instant::now() + timeout);
        let key = Key { device: shared.device(), peer: None };
        let parent = shared.communicator(key, deadline)?;
        let number = shared.splits.fetch_add(1, Ordering::Relaxed);
        let rank = ranks.iter().position(|&rank| rank == shared.rank);
        let place = RankPosition { rank: rank.unwrap_or(0), size: ranks.len(), ..parent.place };
        // Ranks with the same list are the same part: its first rank is in no other.
        let color = rank.map(|_| ranks[0] as c_int);
        let part = match parent.split(color, place, &shared.options, deadline) {
            Ok(part) => part,
            Err(error) => return Err(shared.end(&error)),
        };
        let (Some(part), Some(rank)) = (part, rank) else { return Ok(None) };
        let prefix = format!("split{number}/{ranks:?}");
        let store = Arc::new(PrefixStore::new(prefix, shared.store.clone()));
        let state = State { communicators: vec![(key, part)], ended: None };
        let place = (rank, ranks.len());
        Ok(Some(Self::with(shared.functions, store, place, shared.options.clone(), state)))
    }
}

impl Engine for NcclEngine {
    fn name(&self) -> &str {
        "nccl"
    }

    fn rank(&self) -> usize {
        self.shared.rank
    }

    fn size(&self) -> usize {
        self.shared.size
    }

    fn start(&self, call: Call, options: &CallOptions) -> Arc<Work> {
        let started = self.shared.start(&call, options);
        started.unwrap_or_else(|error| Work::failed(call.name(), error))
    }

    fn supports_splitting(&self) -> bool {
        self.shared.functions.comm_split.is_some()
    }

    fn split(&self, ranks: &[usize], timeout: Duration) -> Result<Option<Arc<dyn Engine>>> {
        let part = self.split_ranks(ranks, timeout)?;
        Ok(part.map(|engine| engine as Arc<dyn Engine>))
    }

    fn supports_coalescing(&self) -> bool {
        true
    }

    fn abort(&self, reason: &str) {
        self.shared.abort(&DistError::backend(format!("nccl: {reason}")));
    }

    fn shutdown(&self) {
        let deadline = Instant::now() + SHUTDOWN;
        let is_drained = self.shared.watchdog.drain(deadline);
        let ended = DistError::backend("nccl: the process group was shut down");
        if !is_drained {
            return self.shared.abort(&ended);
        }
        let communicators = {
            let mut state = self.shared.lock();
            state.ended.get_or_insert(ended);
            std::mem::take(&mut state.communicators)
        };
        self.shared.watchdog.stop();
        communicators.iter().for_each(|(_, communicator)| communicator.finish(deadline));
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device of calls that do not say one.
    fn device(&self) -> i8 {
        let used = self.used.load(Ordering::Relaxed);
        match self.options.device {
            Some(device) => device,
            None if used >= 0 => used,
            None => corten_cuda::current_device(),
        }
    }

    /// Whether a call that takes too long, or an error that the library found, ends everything.
    pub(super) fn handles_errors(&self) -> bool {
        config::var("TORCH_NCCL_ASYNC_ERROR_HANDLING").is_none_or(|set| set != "0")
    }

    /// A communicator that works, made if there is none yet.
    fn communicator(&self, key: Key, deadline: Instant) -> Result<Arc<Communicator>> {
        if let Some(found) = self.existing(key)? {
            return Ok(found);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.existing(key)? {
            return Ok(found);
        }
        let (size, name) = match key.peer {
            None => (self.size, format!("nccl/all/{}", self.ordinal())),
            Some(peer) => {
                let (low, high) = (self.rank.min(peer), self.rank.max(peer));
                (2, format!("nccl/{low}:{high}"))
            }
        };
        let place = RankPosition {
            rank: self.rank,
            size,
            device: key.device,
            version: self.functions.library.version,
            peer: key.peer,
        };
        let meeting = Meeting {
            functions: self.functions,
            store: &*self.store,
            name: &name,
            place,
            options: &self.options,
            deadline,
        };
        let made = meeting.join(|communicator| {
            self.lock().communicators.push((key, communicator.clone()));
        });
        made.map_err(|error| self.end(&error))
    }

    /// How many communicators of all ranks there are: ranks make them in the same order, on devices of
    /// any numbers.
    fn ordinal(&self) -> usize {
        self.lock().communicators.iter().filter(|(key, _)| key.peer.is_none()).count()
    }

    fn existing(&self, key: Key) -> Result<Option<Arc<Communicator>>> {
        let state = self.lock();
        if let Some(reason) = &state.ended {
            return Err(reason.clone());
        }
        let found = state.communicators.iter().find(|(other, _)| *other == key);
        Ok(found.map(|(_, communicator)| communicator.clone()))
    }

    fn start(self: &Arc<Self>, call: &Call, options: &CallOptions) -> Result<Arc<Work>> {
        let deadline = Instant::now() + options.timeout;
        let device = device_of(call).map_or_else(|| self.device(), |device| device.index);
        if device < 0 || device_of(call).is_some_and(|device| !device.is_cuda()) {
            return Err(DistError::value("Tensors must be CUDA and dense"));
        }
        let peer = match call {
            Call::Send { to, .. } => Some(*to),
            Call::Recv { from, .. } => Some(*from),
            _ => None,
        };
        if peer == Some(self.rank) {
            return Err(DistError::value("nccl: a rank sends nothing to itself"));
        }
        let communicator = self.communicator(Key { device, peer }, deadline)?;
        self.used.store(device, Ordering::Relaxed);
        self.launch(&communicator, call, options, deadline)
    }

    fn launch(
        self: &Arc<Self>,
        communicator: &Communicator,
        call: &Call,
        options: &CallOptions,
        deadline: Instant,
    ) -> Result<Arc<Work>> {
        let device = communicator.place.device;
        corten_cuda::bind(device)?;
        let current = Stream::current(device);
        // A caller that waits anyhow needs no other stream, and no order between two.
        let stream = if options.is_async { communicator.stream } else { current };
        let is_captured = current.is_capturing()?;
        let mut last = communicator.last.lock().unwrap_or_else(PoisonError::into_inner);
        if stream != current {
            stream.wait_event(&current.record_event()?)?;
        }
        // Calls of a communicator run one after another, in whatever streams; a capture has its own order.
        if let Some((before, end)) = last.as_ref().filter(|_| !is_captured)
            && *before != stream
        {
            stream.wait_event(end)?;
        }
        let guard = StreamGuard::new(stream);
        let plan = Plan::of(call, communicator.place)?;
        communicator.run(&plan, stream, deadline).map_err(|error| self.end(&error))?;
        for (to, from) in &plan.after {
            op::copy_(to, from, false)?;
        }
        if stream != current {
            plan.used.iter().try_for_each(|tensor| corten_cuda::record_stream(tensor, stream))?;
        }
        let end = Arc::new(stream.record_event()?);
        drop(guard);
        *last = (!is_captured).then(|| (stream, end.clone()));
        drop(last);
        let is_barrier = matches!(call, Call::Barrier { .. });
        let driver =
            OnStream { end: end.clone(), device, stream, waits: is_barrier || blocking_wait() };
        let work = Work::driven(call.name(), call.outputs(), Box::new(driver));
        if is_captured {
            // It runs whenever the graph does.
            work.complete();
            return Ok(work);
        }
        let begun = Instant::now();
        let call =
            InFlight { work: work.without_outputs(), end, device, begun, timeout: options.timeout };
        self.watchdog.add(self, call);
        Ok(work)
    }

    /// Looks whether the library has found errors meanwhile.
    pub(super) fn look_for_errors(&self) {
        let communicators: Vec<_> =
            self.lock().communicators.iter().map(|(_, each)| each.clone()).collect();
        if let Some(error) = communicators.iter().find_map(|each| each.async_error()) {
            self.end(&error);
        }
    }

    /// Ends everything because of a failure, which names the rank.
    fn end(&self, error: &DistError) -> DistError {
        let named = format!("[Rank {}] {}", self.rank, error.message());
        let error = match error.payload() {
            Some(_) => error.clone(),
            None => DistError::new(error.kind(), named),
        };
        self.abort(&error);
        error
    }

    fn abort(&self, reason: &DistError) {
        let communicators = {
            let mut state = self.lock();
            state.ended.get_or_insert(reason.clone());
            std::mem::take(&mut state.communicators)
        };
        self.watchdog.complete();
        let calls = self.watchdog.take();
        self.watchdog.stop();
        for call in &calls {
            // Whoever waits for the device next must not take what is in its memory for a result.
            let (work, reason) = (call.work.clone(), reason.clone());
            let error = move || Error::from(work.exception().unwrap_or_else(|| reason.clone()));
            corten_cuda::report_failure(call.device, Box::new(error));
        }
        calls.iter().for_each(|call| call.work.fail(reason.clone()));
        communicators.iter().for_each(|(_, communicator)| communicator.abort());
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let ended = DistError::backend("nccl: the process group is gone");
        self.watchdog.stop();
        self.watchdog.take().iter().for_each(|call| call.work.fail(ended.clone()));
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.communicators.iter().for_each(|(_, communicator)| communicator.abort());
    }
}

/// Whether every wait keeps the thread, as PyTorch's setting says.
fn blocking_wait() -> bool {
    config::var("TORCH_NCCL_BLOCKING_WAIT").is_some_and(|set| set == "1")
}

/// How to wait for a call: on a stream.
struct OnStream {
    end: Arc<Event>,
    device: i8,
    stream: Stream,
    /// Whether a wait keeps the thread, too.
    waits: bool,
}

impl Driver for OnStream {
    fn wait(&self, work: &Work, timeout: Option<Duration>) -> Result<()> {
        self.block_current_stream(work)?;
        if self.waits || timeout.is_some() {
            return work.wait_for_end(timeout);
        }
        Ok(())
    }

    fn is_completed(&self, _work: &Work) -> bool {
        self.end.is_reached().unwrap_or(true)
    }

    fn block_current_stream(&self, work: &Work) -> Result<()> {
        if let Some(error) = work.raw_error().and_then(|_| work.exception()) {
            return Err(error);
        }
        let current = Stream::current(self.device);
        if current != self.stream {
            current.wait_event(&self.end)?;
        }
        Ok(())
    }
}

/// The device of a call's first tensor.
fn device_of(call: &Call) -> Option<Device> {
    let first = |tensors: &[Tensor]| tensors.first().and_then(|tensor| tensor.device_opt());
    match call {
        Call::AllGather { input, .. } | Call::Gather { input, .. } => input.device_opt(),
        Call::AllToAll { inputs, .. } => first(inputs),
        Call::Batch(calls) => calls.iter().find_map(device_of),
        Call::Barrier { device } => *device,
        Call::Send { tensor, .. } => tensor.device_opt(),
        _ => first(&call.outputs()),
    }
}
