//! Who may touch a storage: pure logic, model-checked by `tests/loom.rs`. See README.md.

use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{heavy_barrier, light_barrier};

/// In a slot: the access is for writing.
pub(crate) const WRITE: usize = 1;
/// In a slot: the access is counted in the storage's word; the slot only keeps the storage alive.
pub(crate) const COUNTED: usize = 2;
/// In a slot: the flags above; the rest is the key of the storage.
pub(crate) const FLAGS: usize = WRITE | COUNTED;

const CHUNK: usize = if cfg!(loom) { 4 } else { 56 };

/// The accesses that one thread has published, readable by all.
///
/// Only the owning thread stores; entries are zero when free.
#[repr(align(64))]
#[derive(Debug)]
pub(crate) struct Slots {
    top: AtomicUsize,
    entries: [AtomicUsize; CHUNK],
    more: AtomicPtr<Slots>,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self {
            top: AtomicUsize::new(0),
            entries: std::array::from_fn(|_| AtomicUsize::new(0)),
            more: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Where the thread's next entry goes; all entries from there on are zero.
    #[inline]
    pub(crate) fn top(&self) -> usize {
        self.top.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_top(&self, top: usize) {
        self.top.store(top, Ordering::Relaxed);
    }

    /// Lowers the top over free entries.
    #[inline]
    pub(crate) fn settle(&self) {
        let mut top = self.top();
        while top > 0 && self.entry(top - 1).load(Ordering::Relaxed) == 0 {
            top -= 1;
        }
        self.set_top(top);
    }

    /// The first entries.
    #[inline(always)]
    pub(crate) fn first_entries<const N: usize>(&self) -> &[AtomicUsize] {
        const { assert!(N <= CHUNK) };
        &self.entries[..N]
    }

    /// One entry; the owning thread may name any, which adds memory as needed.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> &AtomicUsize {
        if index < CHUNK { &self.entries[index] } else { self.chunk().entry(index - CHUNK) }
    }

    #[cold]
    fn chunk(&self) -> &Slots {
        let present = self.more.load(Ordering::Acquire);
        let chunk = if present.is_null() {
            // Kept for good, as the whole record is.
            let fresh = Box::into_raw(Box::new(Slots::new()));
            self.more.store(fresh, Ordering::Release);
            fresh
        } else {
            present
        };
        // SAFETY: chunks are never freed.
        unsafe { &*chunk }
    }

    /// Frees all entries; only for threads that no longer exist.
    pub(crate) fn clear(&self) {
        for entry in &self.entries {
            entry.store(0, Ordering::Relaxed);
        }
        self.set_top(0);
        let more = self.more.load(Ordering::Acquire);
        if !more.is_null() {
            // SAFETY: chunks are never freed.
            unsafe { &*more }.clear();
        }
    }

    /// Calls `see` with every entry for `key`. Any thread may ask.
    pub(crate) fn for_each(&self, key: usize, see: &mut dyn FnMut(usize)) {
        for entry in &self.entries {
            let value = entry.load(Ordering::Acquire);
            if value & !FLAGS == key {
                see(value);
            }
        }
        let more = self.more.load(Ordering::Acquire);
        if !more.is_null() {
            // SAFETY: chunks are never freed.
            unsafe { &*more }.for_each(key, see);
        }
    }

    /// The accesses to `key` that rest on the bias, as (any, any for writing).
    fn biased_accesses(&self, key: usize) -> (bool, bool) {
        let (mut any, mut any_write) = (false, false);
        self.for_each(key, &mut |value| {
            any |= value & COUNTED == 0;
            any_write |= value & FLAGS == WRITE;
        });
        (any, any_write)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }
}

/// The access state inside a storage.
#[derive(Debug)]
pub(crate) struct AccessState {
    /// The address of the favoured thread's slots and one of the tags below; 0 if there is none.
    owner: AtomicUsize,
    /// Counted accesses: the number of readers, or `WRITER`.
    word: AtomicU64,
}

/// The owner enters without touching the storage.
const BIASED: usize = 1;
/// Another thread is ending the bias.
const REVOKING: usize = 2;
/// The bias has ended; the former owner may still be inside.
const FORMER: usize = 3;
const TAG: usize = 3;

const WRITER: u64 = 1 << 63;

impl AccessState {
    /// A state that favours a thread.
    #[inline]
    pub(crate) fn biased_to(owner: &'static Slots) -> Self {
        Self { owner: AtomicUsize::new(owner.address() | BIASED), word: AtomicU64::new(0) }
    }

    /// Whether a thread may enter by its published slot alone. To be asked after the slot was
    /// stored and a light barrier passed.
    #[inline]
    pub(crate) fn is_biased_to(&self, thread: &Slots) -> bool {
        self.owner.load(Ordering::Relaxed) == thread.address() | BIASED
    }

    /// Tries once to enter a counted access. `false`: somebody is inside. The caller must keep the
    /// storage alive and must not be inside itself in a conflicting mode.
    pub(crate) fn try_enter(&self, key: usize, write: bool) -> bool {
        self.end_bias();
        if !self.try_count(write) {
            return false;
        }
        let owner = self.owner.load(Ordering::Acquire);
        if owner & TAG == FORMER {
            let (any, any_write) = slots_at(owner & !TAG).biased_accesses(key);
            if any_write || (write && any) {
                self.leave(write);
                return false;
            }
            if !any {
                self.owner.store(0, Ordering::Release);
            }
        }
        true
    }

    /// As [`try_enter`](Self::try_enter), for a storage that is biased to nobody any more; `false`
    /// for others.
    #[inline]
    pub(crate) fn try_enter_counted(&self, write: bool) -> bool {
        self.owner.load(Ordering::Acquire) == 0 && self.try_count(write)
    }

    fn end_bias(&self) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let mut owner = self.owner.load(Ordering::Acquire);
        while matches!(owner & TAG, BIASED | REVOKING) {
            let thread = owner & !TAG;
            if owner & TAG == BIASED {
                let next = thread | REVOKING;
                if let Err(current) = self.owner.compare_exchange(owner, next, success, failure) {
                    owner = current;
                    continue;
                }
            }
            // From here on the owner sees that the bias is over, or its slot is visible.
            heavy_barrier();
            let (revoking, former) = (thread | REVOKING, thread | FORMER);
            owner = match self.owner.compare_exchange(revoking, former, success, failure) {
                Ok(_) => former,
                Err(current) => current,
            };
        }
    }

    fn try_count(&self, write: bool) -> bool {
        if write {
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            return self.word.compare_exchange(0, WRITER, success, failure).is_ok();
        }
        let add = |word| if word & WRITER == 0 { Some(word + 1) } else { None };
        self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, add).is_ok()
    }

    /// Ends a counted access.
    #[inline]
    pub(crate) fn leave(&self, write: bool) {
        if write {
            // Nobody else changes the word meanwhile, so this needs no locked instruction.
            self.word.store(0, Ordering::Release);
        } else {
            self.word.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Publishes a counted access of this thread in `entry`, for as long as it waits and is inside.
#[inline]
pub(crate) fn publish(entry: &AtomicUsize, value: usize) {
    entry.store(value, Ordering::Relaxed);
    light_barrier();
}

fn slots_at<'a>(address: usize) -> &'a Slots {
    // SAFETY: the address was taken from a `&'static Slots`.
    unsafe { &*std::ptr::with_exposed_provenance(address) }
}
