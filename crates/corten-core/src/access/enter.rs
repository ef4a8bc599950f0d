//! Entering and leaving storages.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use smallvec::SmallVec;

use super::protocol::{COUNTED, FLAGS, Slots, WRITE, publish};
use super::{Access, record, slots};
use crate::storage::{Programs, run_programs};
use crate::sync::light_barrier;
use crate::{Error, Result, StorageImpl, TensorBase, err};

/// Where a storage comes from: the handle inside a tensor, which another thread may exchange.
pub(super) type Source = AtomicPtr<StorageImpl>;

/// One member of a set: a source and a mode.
pub(super) trait Wanted {
    fn source(&self) -> &Source;
    fn flag(&self) -> usize;
}

impl Wanted for (&Source, Access) {
    fn source(&self) -> &Source {
        self.0
    }
    fn flag(&self) -> usize {
        self.1.flag()
    }
}

impl Wanted for (&TensorBase, Access) {
    #[inline(always)]
    fn source(&self) -> &Source {
        self.0.storage_source()
    }
    #[inline(always)]
    fn flag(&self) -> usize {
        self.1.flag()
    }
}

/// The number by which slots name a storage.
#[inline(always)]
fn key(storage: *const StorageImpl) -> usize {
    storage.expose_provenance()
}

/// Sets of up to this many storages can take the fast path.
pub(super) const FEW: usize = 4;

/// The storages of a set, as found in the tensors; null for tensors without one.
pub(super) type Found = SmallVec<[*const StorageImpl; FEW]>;

/// A run of this thread's slots: the storages that one set is inside of.
#[derive(Debug)]
pub(super) struct Entered {
    slots: &'static Slots,
    start: u32,
    len: u32,
    /// Slots belong to the thread.
    thread: PhantomData<*mut ()>,
}

/// The fast path: enters the storages of `wanted` if this thread is inside of nothing yet and no
/// storage makes it wait or is biased to another thread. Otherwise the thread is inside of nothing.
/// `found` gets the storages, null for tensors without one.
// Everything here stays in registers: no reference to a local may escape into a call.
#[inline(always)]
pub(super) fn enter_biased<W: Wanted>(
    wanted: &[W],
    found: &mut [*const StorageImpl; FEW],
) -> Option<Entered> {
    let mine = slots();
    if !crate::fast_paths() || mine.top() != 0 || wanted.len() > FEW {
        return None;
    }
    let entries = mine.first_entries::<FEW>();
    for ((one, entry), found) in wanted.iter().zip(entries).zip(found.iter_mut()) {
        let storage = one.source().load(Ordering::Relaxed).cast_const();
        *found = storage;
        if !storage.is_null() {
            entry.store(key(storage) | one.flag(), Ordering::Relaxed);
        }
    }
    mine.set_top(wanted.len());
    light_barrier();
    for ((one, entry), &storage) in wanted.iter().zip(entries).zip(found.iter()) {
        let current = one.source().load(Ordering::Acquire).cast_const() == storage;
        // SAFETY: the slot was published before the source still named the storage, so the storage
        // is not dropped before the slot is cleared.
        let inside =
            current && (storage.is_null() || unsafe { inside_at_once(storage, mine, entry) });
        if !inside {
            leave_all(mine, 0, wanted.len());
            return None;
        }
    }
    Some(Entered { slots: mine, start: 0, len: wanted.len() as u32, thread: PhantomData })
}

/// Enters one storage whose slot is published, without waiting.
///
/// # Safety
/// The storage must be alive.
#[inline(always)]
unsafe fn inside_at_once(storage: *const StorageImpl, mine: &Slots, entry: &AtomicUsize) -> bool {
    // SAFETY: passed on to the caller.
    let access = unsafe { &*storage }.access();
    if access.is_biased_to(mine) {
        return true;
    }
    let value = entry.load(Ordering::Relaxed);
    let counted = access.try_enter_counted(value & WRITE != 0);
    if counted {
        entry.store(value | COUNTED, Ordering::Relaxed);
    }
    counted
}

/// The slow path: enters the storages of `wanted`, waiting for other threads.
#[cold]
pub(super) fn enter_waiting<W: Wanted>(wanted: &[W]) -> Result<(Entered, Found)> {
    let slots = slots();
    loop {
        let start = slots.top() as u32;
        let mut entered = Entered { slots, start, len: 0, thread: PhantomData };
        let mut found = Found::new();
        if entered.enter_in_order(wanted, &mut found)? {
            return Ok((entered, found));
        }
    }
}

impl Entered {
    /// Whether any slot is counted in its storage.
    pub(super) fn is_counted(&self) -> bool {
        (self.start as usize..self.end())
            .any(|index| self.slots.entry(index).load(Ordering::Relaxed) & COUNTED != 0)
    }

    fn end(&self) -> usize {
        (self.start + self.len) as usize
    }

    /// One attempt, in the order of the storages' addresses. `false`: a handle was exchanged
    /// meanwhile.
    fn enter_in_order<W: Wanted>(&mut self, wanted: &[W], found: &mut Found) -> Result<bool> {
        let mut order = SmallVec::<[(*const StorageImpl, usize, &Source); FEW]>::new();
        for one in wanted {
            let storage = one.source().load(Ordering::Relaxed).cast_const();
            found.push(storage);
            if !storage.is_null() {
                order.push((storage, one.flag(), one.source()));
            }
        }
        // Of equal addresses the writing one comes first and decides.
        order.sort_unstable_by_key(|&(storage, flag, _)| (storage.addr(), usize::MAX - flag));
        order.dedup_by_key(|&mut (storage, ..)| storage);
        for (storage, flag, source) in order {
            let key = key(storage);
            self.check_earlier(key, flag)?;
            let entry = self.slots.entry(self.end());
            publish(entry, key | flag);
            self.len += 1;
            self.slots.set_top(self.end());
            if source.load(Ordering::Acquire).cast_const() != storage {
                // Not inside: the slot must not look like an access when it is cleared.
                return Ok(false);
            }
            // SAFETY: as in `enter_biased`.
            enter(unsafe { &*storage }, entry, self.slots, flag);
        }
        Ok(true)
    }

    fn check_earlier(&self, key: usize, flag: usize) -> Result<()> {
        for index in 0..self.start as usize {
            let value = self.slots.entry(index).load(Ordering::Relaxed);
            if value & !FLAGS == key && (value | flag) & WRITE != 0 {
                return Err(conflict(value, flag));
            }
        }
        Ok(())
    }
}

impl Drop for Entered {
    #[inline(always)]
    fn drop(&mut self) {
        let (slots, start, len) = (self.slots, self.start as usize, self.len as usize);
        if start > 0 || len > FEW {
            leave_all(slots, start, len);
            return;
        }
        let mut counted = 0;
        for entry in &slots.first_entries::<FEW>()[..len] {
            counted |= entry.load(Ordering::Relaxed) & COUNTED;
        }
        if counted != 0 || slots.top() != len {
            leave_all(slots, start, len);
            return;
        }
        for entry in &slots.first_entries::<FEW>()[..len] {
            entry.store(0, Ordering::Release);
        }
        slots.set_top(0);
        record::after_leaving();
    }
}

/// Clears a run of slots and leaves the storages that they count in.
#[inline(never)]
fn leave_all(slots: &Slots, start: usize, len: usize) {
    for index in start..start + len {
        let entry = slots.entry(index);
        let value = entry.load(Ordering::Relaxed);
        if value & COUNTED != 0 {
            leave_counted(value);
        }
        entry.store(0, Ordering::Release);
    }
    slots.settle();
    record::after_leaving();
}

/// Enters one storage whose slot is published, waiting for other threads.
fn enter(storage: &StorageImpl, entry: &AtomicUsize, mine: &Slots, flag: usize) {
    let key = key(storage);
    if storage.access().is_biased_to(mine) {
        return;
    }
    // While it waits, the thread is not inside: the slot then only keeps the storage alive.
    let waiting = key | COUNTED;
    entry.store(waiting, Ordering::Relaxed);
    let mut attempts = 0;
    while !storage.access().try_enter(key, flag == WRITE) {
        wait(attempts);
        attempts += 1;
    }
    entry.store(key | flag | COUNTED, Ordering::Relaxed);
}

fn leave_counted(value: usize) {
    // SAFETY: the slot keeps the storage alive and was made from its address.
    let storage = unsafe { &*std::ptr::with_exposed_provenance::<StorageImpl>(value & !FLAGS) };
    storage.access().leave(value & WRITE != 0);
}

#[cold]
fn conflict(held: usize, wanted: usize) -> Error {
    let verb = |flag: usize| if flag & WRITE != 0 { "written" } else { "read" };
    err!(
        Runtime,
        "conflicting access to a storage: it cannot be {} while the same thread has it {}",
        verb(wanted),
        if held & WRITE != 0 { "opened for writing" } else { "opened for reading" }
    )
}

/// Spins for about a microsecond, then yields, then sleeps: the other thread is in a kernel.
#[cold]
fn wait(attempts: u32) {
    match attempts {
        0..64 => std::hint::spin_loop(),
        64..128 => crate::sync::yield_now(),
        _ => crate::sync::sleep(),
    }
}

/// The programs that must run before storages are accessed, which the caller is inside of.
#[cold]
pub(super) fn pending_of(
    modes: impl Iterator<Item = Access>,
    found: &[*const StorageImpl],
) -> Programs {
    let mut pending = Programs::new();
    for (mode, &storage) in modes.zip(found) {
        // SAFETY: the caller is inside of the storage, which keeps it alive; null means none.
        if let Some(storage) = unsafe { storage.as_ref() } {
            pending.extend(storage.pending_before(mode == Access::Write));
        }
    }
    pending
}

/// One storage that the caller keeps alive and is inside of.
#[derive(Debug)]
pub(crate) struct Hold(#[allow(dead_code, reason = "dropping it leaves")] Entered);

impl Hold {
    /// Enters the storage once the programs have run that must run before. See Note [Pending storages].
    pub(crate) fn new(storage: &StorageImpl, mode: Access) -> Result<Self> {
        loop {
            let hold = Self::enter(storage, mode)?;
            let write = mode == Access::Write;
            if !storage.must_check(write) {
                return Ok(hold);
            }
            let pending = storage.pending_before(write);
            if pending.is_empty() {
                return Ok(hold);
            }
            drop(hold);
            run_programs(&pending)?;
        }
    }

    /// Enters the storage, whatever is pending.
    pub(crate) fn enter(storage: &StorageImpl, mode: Access) -> Result<Self> {
        let source = AtomicPtr::new(std::ptr::from_ref(storage).cast_mut());
        let wanted = [(&source, mode)];
        let entered = match enter_biased(&wanted, &mut [ptr::null(); FEW]) {
            Some(entered) => entered,
            None => enter_waiting(&wanted)?.0,
        };
        Ok(Self(entered))
    }
}

/// Calls `look` with the storage of a tensor, which stays alive meanwhile; `look` must not enter
/// any storage.
#[inline]
pub(crate) fn with_published<R>(source: &Source, look: impl Fn(&StorageImpl) -> R) -> Option<R> {
    let mine = slots();
    let entry = mine.entry(mine.top());
    loop {
        let storage = source.load(Ordering::Relaxed).cast_const();
        if storage.is_null() {
            return None;
        }
        publish(entry, key(storage) | COUNTED);
        let current = source.load(Ordering::Acquire).cast_const() == storage;
        // SAFETY: as in `enter_biased`.
        let result = current.then(|| look(unsafe { &*storage }));
        entry.store(0, Ordering::Release);
        if result.is_some() {
            record::after_leaving();
            return result;
        }
    }
}
