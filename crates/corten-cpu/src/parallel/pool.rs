//! The thread pool: a crew of workers that spin for a while and then sleep.
//!
//! See Note [Crew]. One caller at a time leads the crew; a second caller, or a nested call, runs
//! its range on its own thread. Every thread has a share of its own, the same one in each range of
//! one length, so that it finds in its cache what it wrote last time. Shares are cut into a few
//! parts that are claimed one by one, so that a worker that wakes late costs nothing: the leader
//! does its own share, then what is left of the others, and takes the order back.

use super::processors::{self, NOWHERE, Taken};
use super::{INSIDE, alone, in_parallel_region};
use corten_core::{Error, Result, unwinding};
use smallvec::SmallVec;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Parts per thread: enough to even out threads of unequal speed, few enough to keep them long.
const PARTS_PER_THREAD: i64 = 4;

/// Parts are cut at multiples of this many elements, so that vectors rarely straddle two of them.
const PART_ALIGNMENT: i64 = 64;

/// How long an idle thread looks for work before it sleeps: several times what it takes to wake it, so
/// that it is awake where a program does something else between two ranges.
const PATIENCE: Duration = Duration::from_micros(200);

/// Looks between two looks at the clock.
const LOOKS: u32 = 32;

/// Calls `body` over parts of `range` on several threads and returns the first error.
///
/// A panic in any part is raised again on the calling thread after all parts have ended.
pub fn run(
    range: Range<i64>,
    grain: i64,
    body: &(dyn Fn(Range<i64>) -> Result<()> + Sync),
) -> Result<()> {
    let length = range.end - range.start;
    let parts = parts_of(length, grain);
    if parts <= 1 || in_parallel_region() {
        return if length > 0 { body(range) } else { Ok(()) };
    }
    let holder = holder();
    let Ok(mut crew) = holder.crew.try_lock() else { return body(range) };
    let helpers = (num_threads() - 1).min(parts as usize - 1);
    hire(&mut crew, helpers);
    let helpers = &crew[..helpers.min(crew.len())];
    lead(helpers, &ParallelFor::new(range, parts, helpers.len() + 1, body))
}

/// The number of threads a range is split over at most, the caller included.
pub fn num_threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => {
            let threads = default_threads();
            THREADS.store(threads, Ordering::Relaxed);
            threads
        }
        threads => threads,
    }
}

/// Changes the number of threads from the next range on.
pub fn set_num_threads(threads: usize) {
    THREADS.store(threads.max(1), Ordering::Relaxed);
}

/// The number of threads in use; 0 means not decided yet.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// `CORTEN_NUM_THREADS` or `OMP_NUM_THREADS`; else the affinity mask and the cgroup quota decide.
fn default_threads() -> usize {
    ["CORTEN_NUM_THREADS", "OMP_NUM_THREADS"]
        .iter()
        .find_map(|name| corten_core::config::var(name)?.trim().parse().ok())
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .max(1)
}

fn parts_of(length: i64, grain: i64) -> i64 {
    let threads = num_threads() as i64;
    if threads <= 1 {
        return 1;
    }
    let by_grain = (length as u64).div_ceil(grain.max(1) as u64) as i64;
    by_grain.min(threads * PARTS_PER_THREAD)
}

// Note [Crew]
// Each worker has a mailbox, an atomic pointer to a job on the leader's stack. The leader puts the
// job into the mailboxes (Release) and unparks the workers; a worker takes it by swapping null in
// (Acquire), works until no part is left, and counts itself out as the very last thing it does
// with the job. When the leader has run out of parts it takes back every order that nobody has
// picked up (again a swap: exactly one side gets the pointer) and waits for the others only.
// So the job outlives every access, and a worker that sleeps too long never holds anyone up.
//
// `Thread::unpark` leaves a token when the worker is not parked, so an order posted between the
// worker's last look and its `park` is seen: `park` returns at once.
//
// After `fork` the child has the memory of the crew but none of its threads. The child's handler
// forgets the whole holder, locks included, and the first parallel range builds a new one.

/// The crew and the lock that makes its caller the leader.
struct Holder {
    crew: Mutex<Vec<Arc<Worker>>>,
}

struct Worker {
    /// Which share is its own; the leader's is 0.
    place: usize,
    mailbox: AtomicPtr<ParallelFor<'static>>,
    thread: Thread,
    /// What the system calls the thread; 0 until it runs.
    thread_id: AtomicI32,
    /// The processor that it ran on when it last looked; [`NOWHERE`] while it sleeps.
    processor: AtomicI32,
}

static HOLDER: AtomicPtr<Holder> = AtomicPtr::new(std::ptr::null_mut());

fn holder() -> &'static Holder {
    static FORK_HANDLER: Once = Once::new();
    FORK_HANDLER.call_once(forget_crew_after_fork);
    let mut current = HOLDER.load(Ordering::Acquire);
    if current.is_null() {
        let fresh = Box::into_raw(Box::new(Holder { crew: Mutex::new(Vec::new()) }));
        match HOLDER.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => current = fresh,
            Err(other) => {
                // SAFETY: `fresh` lost the race and was never shown to anyone.
                drop(unsafe { Box::from_raw(fresh) });
                current = other;
            }
        }
    }
    // SAFETY: a holder is never freed once it has been published.
    unsafe { &*current }
}

#[cfg(unix)]
fn forget_crew_after_fork() {
    extern "C" fn in_child() {
        HOLDER.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
    // SAFETY: the handler only stores to an atomic, which is allowed between fork and exec.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

#[cfg(not(unix))]
fn forget_crew_after_fork() {}

/// Spawns workers until there are `wanted`, or until the system refuses one.
fn hire(crew: &mut MutexGuard<'_, Vec<Arc<Worker>>>, wanted: usize) {
    while crew.len() < wanted {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Arc<Worker>>(1);
        let name = format!("corten-{}", crew.len() + 1);
        let spawned = std::thread::Builder::new().name(name).spawn(move || {
            INSIDE.with(|inside| inside.set(true));
            if let Ok(worker) = receiver.recv() {
                worker.serve();
            }
        });
        let Ok(handle) = spawned else { return };
        let worker = Arc::new(Worker {
            place: crew.len() + 1,
            mailbox: AtomicPtr::new(std::ptr::null_mut()),
            thread: handle.thread().clone(),
            thread_id: AtomicI32::new(0),
            processor: AtomicI32::new(NOWHERE),
        });
        if sender.send(worker.clone()).is_ok() {
            crew.push(worker);
        }
    }
}

/// The time of a thread that waits without sleeping.
#[derive(Default)]
struct Idle {
    looks: u32,
    since: Option<Instant>,
}

impl Idle {
    /// Lets a moment pass. Whether there is patience left.
    fn goes_on(&mut self) -> bool {
        std::hint::spin_loop();
        self.looks += 1;
        if !self.looks.is_multiple_of(LOOKS) {
            return true;
        }
        self.since.get_or_insert_with(Instant::now).elapsed() < PATIENCE
    }
}

impl Worker {
    fn serve(&self) {
        self.thread_id.store(processors::thread_id(), Ordering::Relaxed);
        let mut idle = Idle::default();
        loop {
            let job = self.take_order();
            if !job.is_null() {
                // SAFETY: the leader keeps the job alive until this worker has counted itself out
                // or the order was taken back; see Note [Crew].
                unsafe { (*job).help(self.place) };
                idle = Idle::default();
            } else if idle.goes_on() {
                // The leader reads the line of the cache that this is in: it is written only to change it.
                let here = processors::current();
                if self.processor.load(Ordering::Relaxed) != here {
                    self.processor.store(here, Ordering::Relaxed);
                }
            } else {
                self.processor.store(NOWHERE, Ordering::Relaxed);
                std::thread::park();
                idle = Idle::default();
            }
        }
    }

    /// Empties the mailbox; only one side gets a given order.
    fn take_order(&self) -> *mut ParallelFor<'static> {
        if self.mailbox.load(Ordering::Relaxed).is_null() {
            return std::ptr::null_mut();
        }
        self.mailbox.swap(std::ptr::null_mut(), Ordering::Acquire)
    }

    /// Gives the worker an order, on a processor that is not taken; see Note [A processor of its own].
    fn post(&self, job: &ParallelFor<'_>, taken: &mut Taken) {
        self.mailbox.store(std::ptr::from_ref(job).cast_mut().cast(), Ordering::Release);
        let processor = self.processor.load(Ordering::Relaxed);
        let thread = self.thread_id.load(Ordering::Relaxed);
        if thread != 0 && (processor == NOWHERE || taken.contains(processor)) {
            return taken.wake_elsewhere(thread, || self.thread.unpark());
        }
        self.thread.unpark();
        taken.add(processor);
    }
}

/// Runs a job with the given workers; the calling thread leads.
fn lead(workers: &[Arc<Worker>], job: &ParallelFor<'_>) -> Result<()> {
    job.busy.store(workers.len(), Ordering::Relaxed);
    let mut taken = Taken::here();
    workers.iter().for_each(|worker| worker.post(job, &mut taken));
    alone(|| job.work(0));
    let taken_back = workers.iter().filter(|worker| !worker.take_order().is_null()).count();
    job.busy.fetch_sub(taken_back, Ordering::Relaxed);
    job.wait();
    job.outcome()
}

/// A range in shares, one for each thread.
struct ParallelFor<'a> {
    shares: SmallVec<[Share; 4]>,
    /// The length of the parts that are claimed.
    part: i64,
    body: &'a (dyn Fn(Range<i64>) -> Result<()> + Sync),
    /// Workers that hold the order.
    busy: AtomicUsize,
    leader: Thread,
    failure: Mutex<Option<Failure>>,
}

/// What is left of a share: `next..end`. Each has a line of the cache, as its owner writes to it
/// while others write to theirs.
#[repr(align(64))]
struct Share {
    next: AtomicI64,
    end: i64,
}

enum Failure {
    Error(Error),
    Panic(Box<dyn Any + Send>),
}

impl<'a> ParallelFor<'a> {
    fn new(
        range: Range<i64>,
        parts: i64,
        threads: usize,
        body: &'a (dyn Fn(Range<i64>) -> Result<()> + Sync),
    ) -> Self {
        let threads = threads as i64;
        let parts_of_share = (parts / threads).max(1);
        let cut = |length: i64, parts: i64| (length as u64).div_ceil(parts as u64) as i64;
        let mut share = cut(range.end - range.start, threads);
        let mut part = cut(share, parts_of_share);
        if part > PART_ALIGNMENT {
            part = (part + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
            share = part.saturating_mul(parts_of_share);
        }
        let border =
            |thread: i64| range.end.min(range.start.saturating_add(share.saturating_mul(thread)));
        let share =
            |thread: i64| Share { next: AtomicI64::new(border(thread)), end: border(thread + 1) };
        Self {
            shares: (0..threads).map(share).collect(),
            part,
            body,
            busy: AtomicUsize::new(0),
            leader: std::thread::current(),
            failure: Mutex::new(None),
        }
    }

    /// Claims and runs parts until none is left or one has failed, those of its own share first.
    fn work(&self, place: usize) {
        let (before, own) = self.shares.split_at(place.min(self.shares.len()));
        for share in own.iter().chain(before) {
            loop {
                let start = share.next.fetch_add(self.part, Ordering::Relaxed);
                if start >= share.end {
                    break;
                }
                let range = start..(start + self.part).min(share.end);
                match catch_unwind(AssertUnwindSafe(|| (self.body)(range))) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => self.fail(Failure::Error(error)),
                    Err(payload) => self.fail(Failure::Panic(payload)),
                }
            }
        }
    }

    /// A worker's share. The job may be gone as soon as the count has dropped.
    fn help(&self, place: usize) {
        self.work(place);
        let leader = self.leader.clone();
        if self.busy.fetch_sub(1, Ordering::Release) == 1 {
            leader.unpark();
        }
    }

    fn fail(&self, failure: Failure) {
        self.shares.iter().for_each(|share| share.next.store(share.end, Ordering::Relaxed));
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    fn wait(&self) {
        let mut idle = Idle::default();
        while self.busy.load(Ordering::Acquire) != 0 {
            if !idle.goes_on() {
                std::thread::park();
            }
        }
    }

    fn outcome(&self) -> Result<()> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            None => Ok(()),
            Some(Failure::Error(error)) => Err(error),
            Some(Failure::Panic(payload)) => match unwinding::error_of(payload) {
                Ok(error) => Err(error),
                Err(payload) => resume_unwind(payload),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI64;

    fn sum(range: Range<i64>, grain: i64) -> i64 {
        let total = AtomicI64::new(0);
        run(range, grain, &|part| {
            total.fetch_add(part.sum(), Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        total.into_inner()
    }

    #[test]
    fn every_index_is_visited_once() {
        set_num_threads(3);
        for (length, grain) in [(0, 1), (1, 1), (7, 1), (100, 3), (100_000, 100), (100_001, 1)] {
            assert_eq!(sum(5..5 + length, grain), (5..5 + length).sum::<i64>());
        }
    }

    #[test]
    fn threads_have_equal_shares() {
        let shares = |length: i64, parts: i64, threads: usize| -> Vec<(i64, i64)> {
            let job = ParallelFor::new(0..length, parts, threads, &|_| Ok(()));
            job.shares.iter().map(|share| (share.next.load(Ordering::Relaxed), share.end)).collect()
        };
        assert_eq!(shares(14, 8, 2), [(0, 7), (7, 14)]);
        assert_eq!(shares(9, 8, 2), [(0, 5), (5, 9)]);
        assert_eq!(shares(3, 3, 2), [(0, 2), (2, 3)]);
        assert_eq!(shares(1000, 8, 2), [(0, 512), (512, 1000)]);
        assert_eq!(shares(5, 5, 4), [(0, 2), (2, 4), (4, 5), (5, 5)]);
    }

    #[test]
    fn the_first_error_comes_back_and_nested_ranges_stay_serial() {
        set_num_threads(3);
        let failed = run(0..1000, 1, &|part| {
            assert_eq!(sum(0..100, 1), 4950);
            corten_core::ensure!(!part.contains(&500), Value, "five hundred");
            Ok(())
        });
        assert_eq!(failed.unwrap_err().message(), "five hundred");
        assert!(!in_parallel_region());
    }

    #[test]
    fn a_panic_comes_back() {
        set_num_threads(3);
        let caught = catch_unwind(|| run(0..1000, 1, &|_| panic!("lost")));
        assert!(caught.is_err());
        assert_eq!(sum(0..1000, 1), 499_500);
    }

    #[test]
    fn callers_on_several_threads_do_not_disturb_each_other() {
        set_num_threads(3);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| assert_eq!(sum(0..10_000, 64), 49_995_000)));
            }
        });
    }

    #[cfg(unix)]
    #[test]
    fn a_forked_child_builds_its_own_crew() {
        set_num_threads(3);
        assert_eq!(sum(0..10_000, 64), 49_995_000);
        // SAFETY: the child only runs the pool and leaves with `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let right = sum(0..10_000, 64) == 49_995_000;
            // SAFETY: ends the child without running the test harness's cleanup.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = -1;
        // SAFETY: `child` is a child of this process and `status` is writable.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
    }
}
