//! The engine: calls in order on two threads, transfers on threads of their own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use corten_core::{Access, config};

use super::context::{CallSlot, Context, Device, Transfer};
use super::memory::Piece;
use super::run::{Collective, Ranks};
use super::threads::Threads;
use crate::engine::{Call, CallOptions, Engine};
use crate::error::{DistError, Result};
use crate::store::{PrefixStore, Store};
use crate::work::Work;

/// How many collectives of a communicator run at the same time, as in PyTorch.
const COLLECTIVES: usize = 2;

/// Where a communicator listens, and how long it may take to connect.
#[derive(Clone, Debug)]
pub struct GlooOptions {
    /// The network interface, as `eth0`; `GLOO_SOCKET_IFNAME` if it is not given.
    pub interface: Option<String>,
    /// A name or address of this host, where no interface is given. Without one, this host's name, or
    /// the loopback interface where that name is not an address of this host.
    pub host: Option<String>,
    /// How long to wait for the other ranks.
    pub timeout: Duration,
}

impl Default for GlooOptions {
    fn default() -> Self {
        Self { interface: None, host: None, timeout: crate::DEFAULT_TIMEOUT }
    }
}

/// A communicator over gloo's TCP transport. See [the module](super).
pub struct GlooEngine {
    shared: Arc<Shared>,
    collectives: Arc<Threads>,
    transfers: Arc<Threads>,
}

/// What calls that run need.
struct Shared {
    context: Context,
    /// Kept, so that other communicators find it; goes after the context.
    _device: Arc<Device>,
    store: Arc<dyn Store>,
    options: GlooOptions,
    rank: usize,
    size: usize,
    state: Mutex<State>,
    /// How many communicators were split off.
    splits: AtomicU64,
}

#[derive(Default)]
struct State {
    next_tag: u32,
    /// Why nothing runs any more.
    ended: Option<DistError>,
    next_transfer: u64,
    transfers: HashMap<u64, Arc<Transfer>>,
    /// Works that have not ended, for an abort.
    works: HashMap<u64, Weak<Work>>,
}

impl GlooEngine {
    /// Connects this rank to the `size - 1` others. All of them use one store, under keys that no other
    /// communicator uses.
    ///
    /// # Errors
    /// `Runtime` where gloo is not installed (with the line that installs it), `Backend` where a rank
    /// does not come in time.
    pub fn connect(
        store: Arc<dyn Store>,
        rank: usize,
        size: usize,
        options: &GlooOptions,
    ) -> Result<Arc<Self>> {
        if size == 0 || rank >= size {
            return Err(DistError::value(format!("rank {rank} is not one of {size} ranks")));
        }
        let device = device(options)?;
        let context = Context::connect(&device, rank, size, &store, options.timeout)
            .map_err(|error| error.with_note(&format!("(rank {rank} of {size} connecting)")))?;
        let shared = Shared {
            context,
            _device: device,
            store,
            options: options.clone(),
            rank,
            size,
            state: Mutex::default(),
            splits: AtomicU64::new(0),
        };
        Ok(Arc::new(Self {
            shared: Arc::new(shared),
            collectives: Threads::new("gloo", COLLECTIVES),
            transfers: Threads::new("gloo-transfer", usize::MAX),
        }))
    }

    fn start_collective(&self, call: &Call, options: &CallOptions) -> Result<Arc<Work>> {
        let collective = Collective::of(call, self.shared.rank, self.shared.size)?;
        let work = Work::new(call.name(), call.outputs());
        // The lock is kept until the task is in the queue: tags are in the order of tasks.
        let mut state = self.shared.running()?;
        let tag = state.next_tag;
        state.next_tag = tag.wrapping_add(1);
        let (shared, timeout, begun) = (self.shared.clone(), options.timeout, Instant::now());
        let task = Task { number: state.watch(&work), work: work.clone(), shared };
        self.collectives.run(move || {
            // What waited in the queue has less time left, but never none.
            let left = timeout.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
            task.run(|shared| {
                let at = CallSlot { tag, timeout: left };
                let (rank, size) = (shared.rank, shared.size);
                Ranks { context: &shared.context, rank, size, at }.run(&collective)
            });
        })?;
        drop(state);
        Ok(work)
    }

    /// Starts to send or receive at once; a thread waits for the end.
    fn start_transfer(&self, call: &Call, options: &CallOptions) -> Result<Arc<Work>> {
        let name = call.name();
        drop(self.shared.running()?);
        let context = &self.shared.context;
        let transfer = match call {
            Call::Send { tensor, to, tag } => {
                context.send(Piece::of(name, tensor, Access::Read)?, self.other(*to)?, slot(*tag))
            }
            Call::Recv { tensor, from, tag } => context.recv(
                Piece::of(name, tensor, Access::Write)?,
                Some(self.other(*from)?),
                slot(*tag),
            ),
            Call::RecvAny { tensor, tag } => {
                context.recv(Piece::of(name, tensor, Access::Write)?, None, slot(*tag))
            }
            _ => return self.start_collective(call, options),
        };
        let transfer = Arc::new(transfer.map_err(|error| self.shared.end(&error, name))?);
        let work = Work::new(name, call.outputs());
        let mut state = self.shared.running()?;
        let number = state.watch(&work);
        state.transfers.insert(number, transfer.clone());
        drop(state);
        let task = Task { number, work: work.clone(), shared: self.shared.clone() };
        let timeout = options.timeout;
        self.transfers.run(move || {
            let work = task.work.clone();
            task.run(|_| {
                if let Some(source) = transfer.wait(timeout)? {
                    work.set_source_rank(source);
                }
                Ok(())
            });
        })?;
        Ok(work)
    }

    /// A rank that this one has a connection to.
    fn other(&self, rank: usize) -> Result<usize> {
        if rank == self.shared.rank || rank >= self.shared.size {
            return Err(DistError::value(format!(
                "gloo: rank {} has no connection to rank {rank} of {}",
                self.shared.rank, self.shared.size
            )));
        }
        Ok(rank)
    }
}

impl Engine for GlooEngine {
    fn name(&self) -> &str {
        "gloo"
    }

    fn rank(&self) -> usize {
        self.shared.rank
    }

    fn size(&self) -> usize {
        self.shared.size
    }

    fn needs_host_memory(&self) -> bool {
        true
    }

    fn start(&self, call: Call, options: &CallOptions) -> Arc<Work> {
        if let Call::Batch(calls) = call {
            let works = calls.into_iter().map(|call| self.start(call, options)).collect();
            return Work::join("coalesced", works);
        }
        let started = if call.is_point_to_point() {
            self.start_transfer(&call, options)
        } else {
            self.start_collective(&call, options)
        };
        started.unwrap_or_else(|error| Work::failed(call.name(), error))
    }

    fn supports_splitting(&self) -> bool {
        true
    }

    fn split(&self, ranks: &[usize], timeout: Duration) -> Result<Option<Arc<dyn Engine>>> {
        let number = self.shared.splits.fetch_add(1, Ordering::Relaxed);
        let Some(rank) = ranks.iter().position(|&rank| rank == self.shared.rank) else {
            return Ok(None);
        };
        let prefix = format!("split{number}/{ranks:?}");
        let store = Arc::new(PrefixStore::new(prefix, self.shared.store.clone()));
        let options = GlooOptions { timeout, ..self.shared.options.clone() };
        let engine = Self::connect(store, rank, ranks.len(), &options)?;
        Ok(Some(engine as Arc<dyn Engine>))
    }

    fn abort(&self, reason: &str) {
        self.shared.abort(DistError::backend(format!("gloo: {reason}")));
    }

    /// Connections close when the last call has ended, in a way that loses nothing of what other ranks
    /// have yet to read.
    fn shutdown(&self) {
        let ended = DistError::backend("gloo: the process group was shut down");
        self.shared.lock().ended.get_or_insert(ended);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a communicator that still works.
    fn running(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        match &state.ended {
            Some(reason) => Err(reason.clone()),
            None => Ok(state),
        }
    }

    /// What a failure of gloo is to the user. The connections are of no use any more: they are closed,
    /// so that other ranks, which may wait for this one, see it at once.
    fn end(&self, error: &DistError, call: &str) -> DistError {
        let error = DistError::new(error.kind(), format!("gloo: {call}: {}", error.message()));
        self.abort(error.clone());
        error
    }

    fn abort(&self, reason: DistError) {
        let (works, transfers) = {
            let mut state = self.lock();
            state.ended.get_or_insert(reason.clone());
            (std::mem::take(&mut state.works), std::mem::take(&mut state.transfers))
        };
        self.context.close();
        transfers.values().for_each(|transfer| transfer.abort());
        for work in works.into_values().filter_map(|work| work.upgrade()) {
            work.fail(reason.clone());
        }
    }
}

impl State {
    /// Remembers a work until it has ended.
    fn watch(&mut self, work: &Arc<Work>) -> u64 {
        let number = self.next_transfer;
        self.next_transfer += 1;
        self.works.insert(number, Arc::downgrade(work));
        number
    }
}

/// A call that a thread will come to.
struct Task {
    number: u64,
    work: Arc<Work>,
    shared: Arc<Shared>,
}

impl Task {
    /// Runs the call, unless an abort came first, and ends its work.
    fn run(self, call: impl FnOnce(&Shared) -> Result<()>) {
        // Calls that were started before a shutdown still run; an abort has ended their works.
        let result = if self.work.is_completed() { Ok(()) } else { call(&self.shared) };
        let mut state = self.shared.lock();
        state.works.remove(&self.number);
        state.transfers.remove(&self.number);
        drop(state);
        match result {
            Ok(()) => self.work.complete(),
            Err(error) => {
                let name = self.work.name();
                let error = self.shared.end(&error, name);
                self.work.fail(error);
            }
        }
    }
}

impl Drop for Task {
    /// A task that was dropped without its end: a panic, or no thread for it.
    fn drop(&mut self) {
        self.work.fail(DistError::backend("gloo: the call was given up"));
    }
}

/// Slots below these are collectives'; tags of users are 32 bits.
fn slot(tag: i32) -> u64 {
    u64::from(tag.cast_unsigned())
}

/// The listening socket for some options, shared by all communicators that are alive.
fn device(options: &GlooOptions) -> Result<Arc<Device>> {
    type Devices = HashMap<(Option<String>, Option<String>), Weak<Device>>;
    static DEVICES: Mutex<Option<Devices>> = Mutex::new(None);
    let named = config::var("GLOO_SOCKET_IFNAME").filter(|names| !names.is_empty());
    // PyTorch takes a list of interfaces and spreads calls over them; one carries all of them here.
    let first = |names: String| names.split(',').next().map(String::from);
    let named = named.filter(|_| options.host.is_none()).and_then(first);
    let interface = options.interface.clone().or(named);
    let key = (interface, options.host.clone());
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = devices.get_or_insert_with(HashMap::new);
    if let Some(device) = devices.get(&key).and_then(Weak::upgrade) {
        return Ok(device);
    }
    let device = Arc::new(Device::new(key.0.as_deref(), key.1.as_deref())?);
    devices.insert(key, Arc::downgrade(&device));
    Ok(device)
}
