//! The back end `mpi`: collectives of the library of MPI that is found when the first group is made.
//!
//! No library is needed to build or to start a program. See `locate.rs` for where one is looked for.

mod elementwise;
mod exit;
mod ffi;
mod group;
mod locate;
mod plan;
mod progress;
mod queue;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use corten_core::config;

use crate::{Call, CallOptions, DistError, Engine, Result, Work};
use ffi::{Mpi, RawHandle, Task};
pub use group::mpi_backend;
pub use locate::{mpi_is_available, set_mpi_prefixes};
use plan::Plan;
use progress::Progress;
use queue::{Command, Member, Queue, Reply, Split, Started};

/// A communicator of all processes that MPI's launcher has started. The first call starts MPI; all ranks
/// make each call. A program that was not started by a launcher is alone.
///
/// # Errors
/// `Backend` where no library of MPI is found (the message says how to install one) or it does not start,
/// and where it is not the launcher's.
///
/// ```no_run
/// use std::time::Duration;
///
/// use corten_dist::{Engine, mpi_world};
///
/// let world = mpi_world(Duration::from_secs(60))?;
/// println!("rank {} of {}", world.rank(), world.size());
/// # Ok::<(), corten_dist::DistError>(())
/// ```
pub fn mpi_world(timeout: Duration) -> Result<Arc<MpiEngine>> {
    let library = Library::started()?;
    let reply = Reply::new();
    library.queue.push(Command::World(reply.clone()));
    let Some(member) = reply.wait(Instant::now().checked_add(timeout))? else {
        return Err(DistError::backend(format!(
            "MPI made no communicator of all ranks within {} ms: not all of them ask for one",
            timeout.as_millis()
        )));
    };
    MpiEngine::new(library, member?)
}

/// The name and version of the library of MPI, which is started by this.
///
/// # Errors
/// As [`mpi_world`].
pub fn mpi_library_version() -> Result<String> {
    Ok(Library::started()?.version.clone())
}

/// The started library.
struct Library {
    queue: Queue,
    version: String,
}

impl Library {
    /// Starts the thread that starts MPI, once.
    fn started() -> Result<&'static Self> {
        static STARTED: OnceLock<Result<&'static Library>> = OnceLock::new();
        STARTED.get_or_init(Self::start).clone()
    }

    fn start() -> Result<&'static Self> {
        let reply = Reply::new();
        let answer = reply.clone();
        let thread = std::thread::Builder::new().name("corten-mpi".to_owned());
        let thread = thread.spawn(move || {
            let failed = locate::open().and_then(|library| {
                ffi::with_library(&library, Running { answer: answer.clone() })?
            });
            if let Err(error) = failed {
                answer.set(Err(error));
            }
        });
        thread.map_err(|error| DistError::runtime(format!("no thread for MPI: {error}")))?;
        reply.wait_uninterrupted()
    }
}

/// What the thread does.
struct Running {
    answer: Reply<Result<&'static Library>>,
}

impl Task for Running {
    type Output = Result<()>;

    fn run<H: RawHandle>(self, mpi: Mpi<H>) -> Result<()> {
        let (_, size) = mpi.rank_and_size(mpi.world())?;
        let version = mpi.version();
        check_launcher(size, &version)?;
        let limit = config::var("CORTEN_MPI_MAX_BYTES").and_then(|text| text.trim().parse().ok());
        let limit = limit.unwrap_or(progress::MAX_STEP).clamp(16, progress::MAX_STEP);
        let library: &'static Library =
            Box::leak(Box::new(Library { queue: Queue::default(), version }));
        let progress = Progress::new(mpi, &library.queue, limit)?;
        exit::finish_at_exit(&library.queue);
        self.answer.set(Ok(library));
        progress.run();
        Ok(())
    }
}

/// A library that does not know the launcher sees one rank, and every process would be the first.
fn check_launcher(size: usize, version: &str) -> Result<()> {
    match locate::launched() {
        Some(launched) if size == 1 && launched > 1 => Err(DistError::backend(format!(
            "the launcher has started {launched} processes, but the library of MPI ({version}) sees one: \
             launcher and library are not of the same MPI; name the launcher's library in \
             CORTEN_MPI_LIBRARY"
        ))),
        _ => Ok(()),
    }
}

/// A communicator of MPI.
pub struct MpiEngine {
    library: &'static Library,
    member: Arc<Member>,
}

impl MpiEngine {
    fn new(library: &'static Library, member: Arc<Member>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { library, member }))
    }
}

impl Engine for MpiEngine {
    fn name(&self) -> &str {
        "mpi"
    }

    fn rank(&self) -> usize {
        self.member.place.rank
    }

    fn size(&self) -> usize {
        self.member.place.size
    }

    fn needs_host_memory(&self) -> bool {
        true
    }

    fn start(&self, call: Call, options: &CallOptions) -> Arc<Work> {
        let name = call.name();
        if let Some(error) = self.member.broken() {
            return Work::failed(name, error);
        }
        let plan = match Plan::of(&call, self.member.place) {
            Ok(plan) => plan,
            Err(error) => return Work::failed(name, error),
        };
        let work = Work::new(name, call.outputs());
        self.library.queue.push(Command::Start(Started {
            member: self.member.clone(),
            work: work.clone(),
            plan,
            deadline: Instant::now().checked_add(options.timeout),
            is_point_to_point: call.is_point_to_point(),
        }));
        work
    }

    fn supports_splitting(&self) -> bool {
        true
    }

    fn split(&self, ranks: &[usize], timeout: Duration) -> Result<Option<Arc<dyn Engine>>> {
        if let Some(rank) = ranks.iter().find(|&&rank| rank >= self.size()) {
            return Err(DistError::value(format!(
                "rank {rank} is not one of the {} ranks of the group",
                self.size()
            )));
        }
        if !ranks.contains(&self.rank()) {
            return Ok(None);
        }
        let (member, ranks, reply) = (self.member.clone(), ranks.to_vec(), Reply::new());
        let deadline = Instant::now().checked_add(timeout);
        let split = Split { member, ranks, deadline, reply: reply.clone() };
        self.library.queue.push(Command::Split(split));
        // The thread keeps the deadline, unless MPI keeps the thread.
        let deadline = deadline.and_then(|end| end.checked_add(Duration::from_secs(2)));
        let Some(member) = reply.wait(deadline)? else {
            return Err(DistError::backend("MPI made no communicator: not all of its ranks came"));
        };
        Ok(Some(Self::new(self.library, member?)?))
    }

    fn supports_coalescing(&self) -> bool {
        true
    }

    fn abort(&self, reason: &str) {
        let reason = DistError::backend(reason);
        self.member.break_off(&reason);
        self.library.queue.push(Command::Abort(self.member.clone(), reason));
    }

    fn shutdown(&self) {
        self.library.queue.push(Command::Release(self.member.clone()));
    }
}
