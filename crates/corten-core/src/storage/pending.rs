//! Storages that a recorded program will read or write.
//!
//! Note [Pending storages]: a program that is recorded and run later (the trait [`Deferred`]) notes its use
//! in each storage that its calls read or write. Who wants to enter a storage in a way that conflicts
//! with such a use, writing what is to be read, or touching what is to be written, leaves again,
//! has the program run, and enters anew: the contents are at any time those that running each call at once
//! would have left. The question costs nothing while no use is noted, since it hangs on the flags that tell of
//! refusals. Uses of different programs that conflict never meet: whoever notes the second is told to run the first.
//! A thread that is inside of storages must not wait for a program that another thread runs, as that
//! thread may be waiting for the storages; it gets the error of conflicting accesses.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::lent::LENDING;
use super::{
    CHECK_ACCESS, CHECK_WRITE, COPY_ON_WRITE, Extra, FROM_OTHER_PROCESS, OWN, PENDING, Storage,
    StorageImpl, lock,
};
use crate::access::{Hold, slots};
use crate::allocator::get_allocator;
use crate::{Access, DataPtr, Device, Result};

/// A program of calls that runs later.
///
/// ```
/// use corten_core::{Deferred, Device, Storage};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// struct Program(AtomicBool, Storage);
/// impl Deferred for Program {
///     fn flush(&self, _waits: bool) -> corten_core::Result<()> {
///         self.0.store(true, Ordering::Relaxed);
///         self.1.forget_use(self);
///         Ok(())
///     }
///     fn is_running_here(&self) -> bool {
///         false
///     }
/// }
///
/// let storage = Storage::new(8, Device::CPU)?;
/// let program = Arc::new(Program(AtomicBool::new(false), storage.clone()));
/// let deferred: Arc<dyn Deferred> = program.clone();
/// assert!(storage.note_use(&deferred, false).is_empty());
/// storage.read_bytes()?;
/// assert!(!program.0.load(Ordering::Relaxed), "the program only reads it, too");
/// storage.write_bytes(0, &[1])?;
/// assert!(program.0.load(Ordering::Relaxed));
/// # Ok::<(), corten_core::Error>(())
/// ```
pub trait Deferred: Any + Send + Sync {
    /// Runs what is recorded, so that no use of it is left. While another thread runs it, the call waits, or fails
    /// where it may not wait.
    ///
    /// # Errors
    /// Those of the calls; and where another thread runs the program and `waits` is false.
    fn flush(&self, waits: bool) -> Result<()>;

    /// Whether this thread is running the program, so that its accesses are the program's own.
    fn is_running_here(&self) -> bool;
}

/// Programs that must run.
pub type Programs = SmallVec<[Arc<dyn Deferred>; 1]>;

/// The use of a storage by a program.
pub(super) struct PendingUse {
    program: Arc<dyn Deferred>,
    writes: bool,
    /// Whether the program has a handle.
    holds: bool,
}

impl Storage {
    /// A storage of host memory that gets its memory from a program; see [`set_data_ptr`](Self::set_data_ptr).
    ///
    /// # Errors
    /// Where host memory has no allocator.
    pub fn without_memory(nbytes: usize) -> Result<Self> {
        Self::without_memory_on(nbytes, Device::CPU)
    }

    /// As [`without_memory`](Self::without_memory), of a device.
    ///
    /// # Errors
    /// Where the device has no allocator.
    pub fn without_memory_on(nbytes: usize, device: Device) -> Result<Self> {
        let allocator = get_allocator(device.device_type)?;
        Ok(Self::build(DataPtr::null(device), nbytes, Some(allocator), true))
    }

    /// Notes that a program will read or write the contents. Programs that must run before are returned, and
    /// nothing is noted then.
    pub fn note_use(&self, program: &Arc<dyn Deferred>, writes: bool) -> Programs {
        let mut uses = lock(&self.0.extra().pending);
        let others = uses.iter().filter(|one| !Arc::ptr_eq(&one.program, program));
        let conflicts: Programs =
            others.filter(|one| one.writes || writes).map(|one| Arc::clone(&one.program)).collect();
        if conflicts.is_empty() {
            self.add_use(&mut uses, program, writes, true);
        }
        conflicts
    }

    /// Notes that a program will read the contents which `writer`, whose use ends with the next
    /// [`forget_use`](Self::forget_use), is leaving.
    pub fn note_read_after(&self, writer: &dyn Deferred, program: &Arc<dyn Deferred>) -> Programs {
        let mut uses = lock(&self.0.extra().pending);
        let others = uses.iter().filter(|one| {
            one.writes && !is_program(one, writer) && !Arc::ptr_eq(&one.program, program)
        });
        let conflicts: Programs = others.map(|one| Arc::clone(&one.program)).collect();
        if conflicts.is_empty() {
            self.add_use(&mut uses, program, false, true);
        }
        conflicts
    }

    /// Has `watcher` flushed before the contents change. It has no handle, and ends when the storage does unless
    /// somebody else holds it.
    pub fn watch_writes(&self, watcher: &Arc<dyn Deferred>) {
        self.add_use(&mut lock(&self.0.extra().pending), watcher, false, false);
    }

    fn add_use(
        &self,
        uses: &mut Vec<PendingUse>,
        program: &Arc<dyn Deferred>,
        writes: bool,
        holds: bool,
    ) {
        match uses.iter_mut().find(|one| Arc::ptr_eq(&one.program, program)) {
            Some(own) => own.writes |= writes,
            // Bounded: programs.
            None => {
                uses.push(PendingUse { program: Arc::clone(program), writes, holds });
            }
        }
        let checks = if writes { CHECK_ACCESS | CHECK_WRITE } else { CHECK_WRITE };
        self.0.flags.fetch_or(checks | PENDING, Ordering::Release);
    }

    /// Has a program write the contents in the place of another one, which was to do so and has a use noted. `holds`
    /// says whether the new one has a handle; without one it ends when the storage does. Says whether that was so.
    pub fn hand_over_use(&self, from: &dyn Deferred, to: &Arc<dyn Deferred>, holds: bool) -> bool {
        let mut uses = lock(&self.0.extra().pending);
        let found = uses.iter_mut().find(|one| is_program(one, from) && one.writes);
        let is_there = found.is_some();
        if let Some(one) = found {
            // What it replaces is the caller's, too, and does not end here.
            *one = PendingUse { program: Arc::clone(to), writes: true, holds };
        }
        is_there
    }

    /// Makes every later access to the data fail with `message`; `None` allows it again.
    pub fn set_access_error(&self, message: Option<String>) {
        let _checks = lock(&self.0.extra().pending);
        *lock(&self.0.extra().access_error) = message;
        self.0.flags.fetch_or(CHECK_ACCESS, Ordering::Relaxed);
    }

    /// Forgets the use by a program.
    pub fn forget_use(&self, program: &dyn Deferred) {
        if !self.0.has(PENDING) {
            return;
        }
        let extra = self.0.extra();
        let mut uses = lock(&extra.pending);
        uses.retain(|one| !is_program(one, program));
        let mut dropped = 0;
        if uses.is_empty() {
            dropped |= PENDING;
        }
        if !uses.iter().any(|one| one.writes) && lock(&extra.access_error).is_none() {
            dropped |= CHECK_ACCESS;
        }
        if uses.is_empty() && !extra.checks_writes() {
            dropped |= CHECK_WRITE;
        }
        let keep = |flags: u8| {
            let copied = flags & COPY_ON_WRITE != 0;
            Some(flags & !(if copied { dropped & !CHECK_WRITE } else { dropped }))
        };
        let flags = &self.0.flags;
        // The closure never refuses.
        let _ = flags.fetch_update(Ordering::AcqRel, Ordering::Relaxed, keep);
    }

    /// Whether a program will read or write the contents.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.0.has(PENDING)
    }

    /// Runs the programs that will read or write the contents: the memory is about to be given to somebody
    /// who touches it without entering.
    ///
    /// # Errors
    /// Those of the programs.
    #[inline]
    pub fn flush(&self) -> Result<()> {
        if self.is_pending() { run_programs(&self.0.pending_before(true)) } else { Ok(()) }
    }

    /// How many of the programs that will read or write the contents have a handle.
    #[cold]
    pub(super) fn count_uses(&self) -> usize {
        lock(&self.0.extra().pending).iter().filter(|one| one.holds).count()
    }

    /// The programs that must run before this thread reads, or writes, the contents.
    pub fn pending_programs(&self, write: bool) -> Programs {
        self.0.pending_before(write)
    }

    /// Whether nobody reaches the memory without entering the storage, so that reading it may wait: it is
    /// neither lent nor somebody else's.
    pub fn is_sole_owner(&self) -> bool {
        if self.0.has(FROM_OTHER_PROCESS) || !(self.is_resizable() || self.0.has(OWN)) {
            return false;
        }
        let Ok(_hold) = Hold::enter(&self.0, Access::Read) else { return false };
        let _lending = lock(&LENDING);
        // SAFETY: the cells change only while somebody is inside for writing, or lends.
        let (context, deleter) = unsafe { (*self.0.context.get(), *self.0.deleter.get()) };
        // SAFETY: context and deleter came from one `DataPtr`, which the storage keeps.
        let shares = deleter.map_or(1, |deleter| unsafe { DataPtr::shares(context, deleter) });
        shares == 1 || self.is_copy_on_write()
    }
}

fn is_program(one: &PendingUse, program: &dyn Deferred) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(&one.program), program)
}

impl Extra {
    /// Whether something other than a pending use asks for checks of writes.
    fn checks_writes(&self) -> bool {
        lock(&self.write_error).is_some() || lock(&self.materialise).is_some()
    }
}

impl StorageImpl {
    /// Forgets all uses: nobody will ask any more. Programs that only write the storage may end here.
    pub(super) fn forget_uses(&self) {
        if self.has(PENDING) {
            let uses = std::mem::take(&mut *lock(&self.extra().pending));
            // Without the lock: what programs hold may end with them.
            drop(uses);
        }
    }

    /// The programs that must run before this thread may read, or write.
    #[cold]
    pub(crate) fn pending_before(&self, write: bool) -> Programs {
        if !self.has(PENDING) {
            return Programs::new();
        }
        let uses = lock(&self.extra().pending);
        let conflicting = uses.iter().filter(|one| write || one.writes);
        let others = conflicting.filter(|one| !one.program.is_running_here());
        others.map(|one| Arc::clone(&one.program)).collect()
    }
}

/// Runs what the calling thread has recorded.
pub type DeferredFlush = fn() -> Result<()>;

static DEFERRED_FLUSH: OnceLock<DeferredFlush> = OnceLock::new();

/// Says how what a thread has recorded is run. The first one stays.
pub fn set_deferred_flush(flush: DeferredFlush) {
    DEFERRED_FLUSH.get_or_init(|| flush);
}

/// Runs what this thread has recorded: it is about to do what must come after all of its calls, such as waiting
/// for a device. A thread that is running a program goes on with it.
///
/// ```
/// assert!(corten_core::flush_deferred().is_ok());
/// ```
///
/// # Errors
/// Those of the calls.
pub fn flush_deferred() -> Result<()> {
    DEFERRED_FLUSH.get().map_or(Ok(()), |flush| flush())
}

/// Runs programs, for a thread that has left what it was about to enter.
///
/// # Errors
/// Those of [`Deferred::flush`].
#[cold]
pub fn run_programs(programs: &Programs) -> Result<()> {
    let waits = slots().top() == 0;
    programs.iter().try_for_each(|program| program.flush(waits))
}
