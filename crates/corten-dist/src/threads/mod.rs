//! An engine whose ranks are threads of one process: they meet in shared memory.
//!
//! It is for tests of what is built on process groups, and for programs that want to try these in one
//! process. The last rank to join a collective hands it to a thread of the world, which runs it.

mod collective;
mod mailbox;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use self::mailbox::Mailbox;
use crate::engine::{Call, CallOptions, Engine};
use crate::error::{DistError, Result};
use crate::store::Store;
use crate::work::Work;

/// Ranks that are threads of this process.
///
/// ```
/// use corten_dist::{Call, CallOptions, Engine, ReduceOp, ThreadWorld};
/// use corten_ops::Tensor;
///
/// # corten::init();
/// let world = ThreadWorld::new(2)?;
/// let tensors = [Tensor::from_vec(vec![1i64], &[1])?, Tensor::from_vec(vec![2i64], &[1])?];
/// let works: Vec<_> = (0..2)
///     .map(|rank| {
///         let call = Call::AllReduce { tensor: tensors[rank].clone(), op: ReduceOp::Sum };
///         world.engine(rank).map(|engine| engine.start(call, &CallOptions::default()))
///     })
///     .collect::<Result<_, _>>()?;
/// works.iter().try_for_each(|work| work.wait(None))?;
/// assert_eq!(tensors[0].to_vec::<i64>()?, [3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ThreadWorld {
    size: usize,
    state: Mutex<State>,
    jobs: Sender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    meetings: HashMap<u64, Vec<Option<Joined>>>,
    mailbox: Mailbox,
    parts: HashMap<(u64, Vec<usize>), (Arc<ThreadWorld>, usize)>,
    /// Why nothing runs any more.
    aborted: Option<String>,
}

/// What a rank brings to a meeting.
struct Joined {
    call: Call,
    sequence: u64,
    work: Arc<Work>,
}

/// One rank of a [`ThreadWorld`].
struct ThreadEngine {
    world: Arc<ThreadWorld>,
    rank: usize,
    collectives: AtomicU64,
    splits: AtomicU64,
}

/// Worlds by the name that their store has for them.
static WORLDS: Mutex<Option<HashMap<String, Known>>> = Mutex::new(None);
/// A world that its store knows. It lives until all ranks have come, whatever the first have done by then.
struct Known {
    world: Weak<ThreadWorld>,
    kept: Option<Arc<ThreadWorld>>,
    came: usize,
}

static NEXT_WORLD: AtomicU64 = AtomicU64::new(0);

impl ThreadWorld {
    /// A world of so many ranks.
    ///
    /// # Errors
    /// `Value` without ranks, `Runtime` when no thread can be started.
    pub fn new(size: usize) -> Result<Arc<Self>> {
        if size == 0 {
            return Err(DistError::value("a world of threads needs at least one rank"));
        }
        let (jobs, waiting) = channel::<Job>();
        std::thread::Builder::new()
            .name("thread-world".into())
            .spawn(move || waiting.iter().for_each(|job| job()))
            .map_err(|error| DistError::runtime(format!("no thread could be started: {error}")))?;
        Ok(Arc::new(Self { size, state: Mutex::default(), jobs }))
    }

    /// The world of the ranks that share a store: the first to come makes it.
    ///
    /// # Errors
    /// Those of the store and of [`new`](Self::new); `Value` when the ranks do not agree on the size.
    pub fn on_store(store: &dyn Store, size: usize) -> Result<Arc<Self>> {
        let number = NEXT_WORLD.fetch_add(1, Ordering::Relaxed);
        let mine = format!("{}-{number}", std::process::id());
        let name = store.compare_set("thread_world", b"", mine.as_bytes())?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let mut worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
        let worlds = worlds.get_or_insert_default();
        if !name.starts_with(&format!("{}-", std::process::id())) {
            return Err(DistError::value("the ranks of a world of threads are in one process"));
        }
        worlds.retain(|_, known| known.world.strong_count() > 0);
        if !worlds.contains_key(&name) {
            let world = Self::new(size)?;
            let known = Known { world: Arc::downgrade(&world), kept: Some(world), came: 0 };
            worlds.insert(name.clone(), known);
        }
        let known = worlds.get_mut(&name).and_then(|known| Some((known.world.upgrade()?, known)));
        let Some((world, known)) = known else {
            return Err(DistError::runtime("the world of threads has ended"));
        };
        if world.size != size {
            let had = world.size;
            return Err(DistError::value(format!("the world has {had} ranks, not {size}")));
        }
        known.came += 1;
        if known.came >= size {
            known.kept = None;
        }
        Ok(world)
    }

    /// The engine of a rank. A rank has one.
    ///
    /// # Errors
    /// `Value` for a rank that there is not.
    pub fn engine(self: &Arc<Self>, rank: usize) -> Result<Arc<dyn Engine>> {
        if rank >= self.size {
            return Err(DistError::value(format!("rank {rank} of {} ranks", self.size)));
        }
        Ok(Arc::new(ThreadEngine {
            world: self.clone(),
            rank,
            collectives: AtomicU64::new(0),
            splits: AtomicU64::new(0),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a rank's collective of that number; the last rank has it run.
    fn join(&self, number: u64, rank: usize, joined: Joined) {
        let mut state = self.state();
        if let Some(reason) = &state.aborted {
            joined.work.fail(DistError::backend(reason.clone()));
            return;
        }
        let meeting = state.meetings.entry(number);
        let places = meeting.or_insert_with(|| (0..self.size).map(|_| None).collect());
        if let Some(place) = places.get_mut(rank) {
            *place = Some(joined);
        }
        if places.iter().any(Option::is_none) {
            return;
        }
        let joined: Vec<Joined> =
            state.meetings.remove(&number).into_iter().flatten().flatten().collect();
        self.run(Box::new(move || {
            let (calls, works): (Vec<Call>, Vec<_>) =
                joined.into_iter().map(|joined| (joined.call, joined.work)).unzip();
            let result = collective::run(&calls);
            drop(calls);
            works.iter().for_each(|work| work.finish(result.clone()));
        }));
    }

    /// Runs a job after those that came before.
    fn run(&self, job: Job) {
        // The thread takes jobs as long as there is a world.
        let _ = self.jobs.send(job);
    }

    fn abort(&self, reason: &str) {
        let works: Vec<Arc<Work>> = {
            let mut state = self.state();
            state.aborted.get_or_insert_with(|| reason.to_owned());
            let meetings = std::mem::take(&mut state.meetings);
            let joined = meetings.into_values().flatten().flatten().map(|joined| joined.work);
            joined.chain(state.mailbox.drain()).collect()
        };
        works.iter().for_each(|work| work.fail(DistError::backend(reason)));
    }

    /// The world of some ranks; all of them ask for their `number`-th.
    fn part(&self, number: u64, ranks: &[usize]) -> Result<Arc<Self>> {
        let key = (number, ranks.to_vec());
        let mut state = self.state();
        let (world, asked) = match state.parts.remove(&key) {
            Some((world, asked)) => (world, asked + 1),
            None => (Self::new(ranks.len())?, 1),
        };
        if asked < ranks.len() {
            state.parts.insert(key, (world.clone(), asked));
        }
        Ok(world)
    }
}

impl Engine for ThreadEngine {
    fn name(&self) -> &str {
        "threads"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.world.size
    }

    fn needs_host_memory(&self) -> bool {
        true
    }

    fn start(&self, call: Call, options: &CallOptions) -> Arc<Work> {
        if let Call::Batch(calls) = call {
            let works = calls.into_iter().map(|call| self.start(call, options)).collect();
            return Work::join("coalesced", works);
        }
        let work = Work::new(call.name(), call.outputs());
        if call.is_point_to_point() {
            self.world.post(self.rank, call, &work);
        } else {
            let number = self.collectives.fetch_add(1, Ordering::Relaxed);
            let joined = Joined { call, sequence: options.sequence, work: work.clone() };
            self.world.join(number, self.rank, joined);
        }
        work
    }

    fn supports_splitting(&self) -> bool {
        true
    }

    fn split(&self, ranks: &[usize], _timeout: Duration) -> Result<Option<Arc<dyn Engine>>> {
        let number = self.splits.fetch_add(1, Ordering::Relaxed);
        let Some(rank) = ranks.iter().position(|&rank| rank == self.rank) else {
            return Ok(None);
        };
        self.world.part(number, ranks)?.engine(rank).map(Some)
    }

    fn supports_coalescing(&self) -> bool {
        true
    }

    fn abort(&self, reason: &str) {
        self.world.abort(reason);
    }

    fn shutdown(&self) {
        // Others may still use what this rank is done with.
    }

    fn missing(&self, sequence: u64) -> Option<Vec<usize>> {
        let state = self.world.state();
        let places = state.meetings.values().find(|places| {
            places
                .get(self.rank)
                .and_then(Option::as_ref)
                .is_some_and(|joined| joined.sequence == sequence)
        })?;
        let absent = places.iter().enumerate().filter(|(_, place)| place.is_none());
        Some(absent.map(|(rank, _)| rank).collect())
    }
}
