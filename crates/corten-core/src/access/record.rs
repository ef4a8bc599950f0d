//! The record of each thread: its slots, and the list of all of them.

use std::cell::Cell;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};

use super::protocol::Slots;
use crate::Storage;
use crate::sync::{heavy_barrier, prepare_barriers};

/// Kept for good and handed from a thread that ends to one that begins.
struct Record {
    slots: Slots,
    used: AtomicBool,
    next: *const Record,
}

// SAFETY: `next` is written before the record is published and never changes.
unsafe impl Sync for Record {}

static ALL: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    static CURRENT: Cell<Option<&'static Record>> = const { Cell::new(None) };
    static RELEASE: ReleaseAtExit = const { ReleaseAtExit };
}

struct ReleaseAtExit;

impl Drop for ReleaseAtExit {
    fn drop(&mut self) {
        if let Some(record) = CURRENT.take()
            && record.slots.top() == 0
        {
            record.used.store(false, Ordering::Release);
        }
    }
}

/// The slots of this thread.
#[inline]
pub(crate) fn slots() -> &'static Slots {
    match CURRENT.get() {
        Some(record) => &record.slots,
        None => &enlist().slots,
    }
}

#[cold]
fn enlist() -> &'static Record {
    prepare_barriers();
    let record = reuse().unwrap_or_else(add);
    // Pairs with the barrier in `others`: a storage that is exchanged from now on is seen as such.
    fence(Ordering::SeqCst);
    CURRENT.set(Some(record));
    // Fails while the thread is ending; then the record is simply not reused.
    let _ = RELEASE.try_with(|_| ());
    record
}

fn all() -> impl Iterator<Item = &'static Record> {
    // SAFETY: records are never freed.
    let at = |record: *const Record| unsafe { record.as_ref() };
    std::iter::successors(at(ALL.load(Ordering::SeqCst)), move |record| at(record.next))
}

fn reuse() -> Option<&'static Record> {
    let free = |record: &&'static Record| {
        record.used.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    all().find(free)
}

fn add() -> &'static Record {
    let mut next = ALL.load(Ordering::SeqCst);
    let (slots, used) = (Slots::new(), AtomicBool::new(true));
    let record = Box::into_raw(Box::new(Record { slots, used, next: next.cast_const() }));
    loop {
        match ALL.compare_exchange(next, record, Ordering::SeqCst, Ordering::SeqCst) {
            // SAFETY: records are never freed.
            Ok(_) => return unsafe { &*record },
            Err(current) => {
                next = current;
                // SAFETY: the record is not published yet.
                unsafe { (*record).next = next };
            }
        }
    }
}

/// Storages taken out of tensors while somebody was still using them through those tensors.
static RETIRED: Mutex<Vec<Storage>> = Mutex::new(Vec::new());
static ANY_RETIRED: AtomicBool = AtomicBool::new(false);

/// Drops a storage that was taken out of a tensor, when no thread is using it any more.
#[cold]
pub(crate) fn retire(storage: Storage) {
    if is_published(&storage) {
        lock_retired().push(storage);
        ANY_RETIRED.store(true, Ordering::SeqCst);
        // Whoever used the storage may have left before the flag was up.
        collect_retired();
    }
}

/// Called by threads that leave.
#[inline]
pub(crate) fn after_leaving() {
    if ANY_RETIRED.load(Ordering::Relaxed) {
        collect_retired();
    }
}

#[cold]
fn collect_retired() {
    let unused: Vec<Storage> = {
        let mut retired = lock_retired();
        let unused = retired.extract_if(.., |storage| !is_published(storage)).collect();
        ANY_RETIRED.store(!retired.is_empty(), Ordering::SeqCst);
        unused
    };
    // Dropped without the lock: freeing memory may run foreign code.
    drop(unused);
}

fn lock_retired() -> std::sync::MutexGuard<'static, Vec<Storage>> {
    RETIRED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes the lock of the parked storages.
pub(crate) fn lock_for_fork(guards: &mut Vec<Box<dyn std::any::Any>>) {
    guards.push(Box::new(lock_retired()));
}

/// Clears the slots of all other threads, which are gone after a fork. Accesses that they had
/// counted in a storage stay: whether such a thread was inside or waiting cannot be told.
pub(crate) fn withdraw_other_threads() {
    for record in all() {
        if !CURRENT.get().is_some_and(|mine| ptr::eq(mine, record)) {
            record.slots.clear();
            record.used.store(false, Ordering::Release);
        }
    }
}

/// Whether any thread has a slot for the storage.
fn is_published(storage: &Storage) -> bool {
    let mine = slots();
    fence(Ordering::SeqCst);
    if all().any(|record| !ptr::eq(&record.slots, mine)) {
        heavy_barrier();
    }
    let mut found = false;
    for record in all() {
        record.slots.for_each(storage.key(), &mut |_| found = true);
    }
    found
}
