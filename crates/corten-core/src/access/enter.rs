//! Entering and leaving storages.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

use smallvec::SmallVec;

use super::protocol::{COUNTED, FLAGS, Slots, WRITE, publish};
use super::{Access, record, slots};
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

/// Below this many storages looking for duplicates one by one is cheaper than sorting.
const FEW: usize = 8;

/// A run of this thread's slots: the storages that one set is inside of.
#[derive(Debug)]
pub(super) struct Entered {
    slots: &'static Slots,
    start: usize,
    len: usize,
    /// Slots belong to the thread.
    thread: PhantomData<*mut ()>,
}

/// The storages of a set, as found in the tensors; null for tensors without one.
pub(super) type Found = SmallVec<[*const StorageImpl; 4]>;

impl Entered {
    /// Enters the storages of `wanted`. Returns them in the order of `wanted`.
    #[inline]
    pub(super) fn new<W: Wanted>(wanted: &[W]) -> Result<(Self, Found)> {
        let slots = slots();
        let start = slots.top();
        let mut entered = Self { slots, start, len: 0, thread: PhantomData };
        let mut found = Found::new();
        if wanted.len() <= FEW && entered.enter_biased(wanted, &mut found)? {
            return Ok((entered, found));
        }
        entered.leave();
        loop {
            found.clear();
            if entered.enter_counted(wanted, &mut found)? {
                return Ok((entered, found));
            }
            entered.leave();
        }
    }

    /// The fast road: every storage is biased to this thread. `false`: it is not open.
    #[inline]
    fn enter_biased<W: Wanted>(&mut self, wanted: &[W], found: &mut Found) -> Result<bool> {
        for one in wanted {
            let storage = one.source().load(Ordering::Relaxed).cast_const();
            found.push(storage);
            if !storage.is_null() {
                self.add(key(storage), one.flag())?;
            }
        }
        self.slots.set_top(self.start + self.len);
        light_barrier();
        for (one, &storage) in wanted.iter().zip(&*found) {
            if storage.is_null() {
                continue;
            }
            if one.source().load(Ordering::Acquire).cast_const() != storage {
                return Ok(false);
            }
            // SAFETY: the slot was published before the source still named the storage, so the
            // storage is not dropped before the slot is cleared.
            if !unsafe { &*storage }.access().is_biased_to(self.slots) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stores a slot, or strengthens the one that this set already has for the storage.
    #[inline]
    fn add(&mut self, key: usize, flag: usize) -> Result<()> {
        for index in 0..self.start + self.len {
            let entry = self.slots.entry(index);
            let value = entry.load(Ordering::Relaxed);
            if value & !FLAGS == key {
                if index >= self.start {
                    entry.store(value | flag, Ordering::Relaxed);
                    return Ok(());
                }
                if (value | flag) & WRITE != 0 {
                    return Err(conflict(value, flag));
                }
            }
        }
        self.slots.entry(self.start + self.len).store(key | flag, Ordering::Relaxed);
        self.len += 1;
        Ok(())
    }

    /// The slow road: storages in the order of their addresses, waiting for other threads. `false`:
    /// a handle was exchanged meanwhile.
    #[cold]
    fn enter_counted<W: Wanted>(&mut self, wanted: &[W], found: &mut Found) -> Result<bool> {
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
            let entry = self.slots.entry(self.start + self.len);
            publish(entry, key | flag);
            self.len += 1;
            self.slots.set_top(self.start + self.len);
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
        for index in 0..self.start {
            let value = self.slots.entry(index).load(Ordering::Relaxed);
            if value & !FLAGS == key && (value | flag) & WRITE != 0 {
                return Err(conflict(value, flag));
            }
        }
        Ok(())
    }

    /// Leaves every storage.
    #[inline]
    fn leave(&mut self) {
        for index in self.start..self.start + self.len {
            let entry = self.slots.entry(index);
            let value = entry.load(Ordering::Relaxed);
            if value & COUNTED != 0 {
                leave_counted(value);
            }
            entry.store(0, Ordering::Release);
        }
        self.len = 0;
        self.slots.settle();
        record::after_leaving();
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

/// Enters one storage whose slot is published, waiting for other threads.
fn enter(storage: &StorageImpl, entry: &std::sync::atomic::AtomicUsize, mine: &Slots, flag: usize) {
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

#[cold]
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
        64..128 => std::thread::yield_now(),
        _ => std::thread::sleep(std::time::Duration::from_micros(50)),
    }
}

/// One storage that the caller keeps alive and is inside of.
#[derive(Debug)]
pub(crate) struct Hold(#[allow(dead_code, reason = "dropping it leaves")] Entered);

impl Hold {
    pub(crate) fn new(storage: &StorageImpl, mode: Access) -> Result<Self> {
        let source = AtomicPtr::new(std::ptr::from_ref(storage).cast_mut());
        Ok(Self(Entered::new(&[(&source, mode)])?.0))
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
