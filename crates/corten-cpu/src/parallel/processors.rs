//! Which processors the threads of a job run on.
//!
//! Note [A processor of its own]
//! The scheduler wakes a thread where it last ran or on the processor of the thread that wakes it,
//! unless it finds an idle one; and it does not look for one where all were busy a moment ago. A worker
//! that shares its leader's processor stays there then: each time it is woken it waits for the leader to
//! end, finds nothing left to do and sleeps again, while another processor idles. So workers may not run
//! on processors that are taken while their leader wakes them, and only then. A lasting affinity would
//! be simpler, but would keep two programs on one processor while another idles.

use smallvec::SmallVec;

#[cfg(target_os = "linux")]
pub(super) use linux::{current, thread_id, wake_elsewhere};
#[cfg(not(target_os = "linux"))]
pub(super) use other::{current, thread_id, wake_elsewhere};

/// In place of a processor: not known.
pub(super) const NOWHERE: i32 = -1;

/// The processors that threads of a job run on.
pub(super) struct Taken(SmallVec<[i32; 16]>);

impl Taken {
    /// That of this thread.
    pub(super) fn here() -> Self {
        Self(SmallVec::from_iter([current()]))
    }

    pub(super) fn add(&mut self, processor: i32) {
        self.0.push(processor);
    }

    pub(super) fn contains(&self, processor: i32) -> bool {
        self.0.contains(&processor)
    }

    /// Calls `wake` while the thread may not run on these processors, if there are others for it.
    pub(super) fn wake_elsewhere(&self, thread: i32, wake: impl FnOnce()) {
        wake_elsewhere(&self.0, thread, wake);
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use libc::{CPU_CLR, CPU_COUNT, cpu_set_t};
    use std::mem::{MaybeUninit, size_of};

    /// The processor that this thread runs on at the moment.
    pub(in super::super) fn current() -> i32 {
        // SAFETY: it takes nothing.
        unsafe { libc::sched_getcpu() }
    }

    /// What the system calls this thread.
    pub(in super::super) fn thread_id() -> i32 {
        // SAFETY: it takes nothing.
        unsafe { libc::gettid() }
    }

    pub(in super::super) fn wake_elsewhere(taken: &[i32], thread: i32, wake: impl FnOnce()) {
        let Some(allowed) = affinity(thread) else { return wake() };
        let mut others = allowed;
        for &processor in taken {
            let index = usize::try_from(processor).unwrap_or(usize::MAX);
            if index < 8 * size_of::<cpu_set_t>() {
                // SAFETY: the index lies within the set.
                unsafe { CPU_CLR(index, &mut others) };
            }
        }
        // SAFETY: it only reads the set.
        if unsafe { CPU_COUNT(&others) } == 0 {
            return wake();
        }
        allow(thread, &others);
        wake();
        allow(thread, &allowed);
    }

    pub(super) fn affinity(thread: i32) -> Option<cpu_set_t> {
        // SAFETY: a set is bits, none of which is set.
        let mut set = unsafe { MaybeUninit::<cpu_set_t>::zeroed().assume_init() };
        // SAFETY: there is room for a set of the given size.
        let failed = unsafe { libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &mut set) };
        (failed == 0).then_some(set)
    }

    /// Where the system refuses, the thread may run where it could.
    fn allow(thread: i32, set: &cpu_set_t) {
        // SAFETY: the set has the given size.
        unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), set) };
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    pub(in super::super) fn current() -> i32 {
        super::NOWHERE
    }

    pub(in super::super) fn thread_id() -> i32 {
        0
    }

    pub(in super::super) fn wake_elsewhere(_taken: &[i32], _thread: i32, wake: impl FnOnce()) {
        wake();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::linux::affinity;
    use super::{Taken, current, thread_id};
    use libc::{CPU_COUNT, CPU_EQUAL, CPU_ISSET};

    #[test]
    fn a_thread_may_run_where_it_could_once_it_is_awake() {
        let (mut here, thread) = (Taken::here(), thread_id());
        here.add(-1);
        here.add(1 << 20);
        let before = affinity(thread).unwrap();
        let (taken, mut during) = (here.0[0], None);
        here.wake_elsewhere(thread, || during = affinity(thread));
        // SAFETY: the sets are only read, and this processor lies within them.
        unsafe {
            assert!(CPU_EQUAL(&affinity(thread).unwrap(), &before));
            let alone = CPU_COUNT(&before) == 1;
            assert_eq!(CPU_ISSET(taken as usize, &during.unwrap()), alone);
        }
        assert!(here.contains(taken) && !here.contains(taken + 1) && current() >= 0);
    }
}
