//! Model tests of the reference count and the access protocol: every interleaving of a few threads.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p corten-core --release --test loom`
#![cfg(loom)]
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// What the modules under test see as `crate::sync`.
mod sync {
    pub(crate) use loom::sync::atomic;

    pub(crate) fn light_barrier() {
        atomic::fence(atomic::Ordering::SeqCst);
    }

    pub(crate) fn heavy_barrier() {
        atomic::fence(atomic::Ordering::SeqCst);
    }
}

#[path = "../src/refcount/count.rs"]
mod count;
#[path = "../src/access/protocol.rs"]
mod protocol;
#[path = "../src/access/spinlock.rs"]
mod spinlock;

use count::{RefCount, Released, Upgrade};
use protocol::{AccessState, COUNTED, Slots, WRITE, publish};
use spinlock::SpinLock;

/// An object whose contents are touched by every owner and whose deletion is recorded.
struct Object {
    count: RefCount,
    contents: UnsafeCell<u32>,
    deletions: AtomicUsize,
    releases: AtomicUsize,
}

impl Object {
    fn shared() -> Arc<Self> {
        Arc::new(Self {
            count: RefCount::unique(),
            contents: UnsafeCell::new(7),
            deletions: AtomicUsize::new(0),
            releases: AtomicUsize::new(0),
        })
    }

    fn read(&self) {
        // SAFETY: the caller holds a strong reference; loom checks it.
        self.contents.with(|contents| assert_eq!(unsafe { *contents }, 7));
    }

    fn release(&self) {
        match self.count.release() {
            Released::Alive | Released::WrapperOnly => {}
            Released::Contents => {
                self.destroy_contents();
                if self.count.release_weak() {
                    self.deletions.fetch_add(1, Ordering::Relaxed);
                }
            }
            Released::Dead => {
                self.destroy_contents();
                self.deletions.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn destroy_contents(&self) {
        self.releases.fetch_add(1, Ordering::Relaxed);
        // SAFETY: this was the last strong reference; loom checks it.
        self.contents.with_mut(|contents| unsafe { *contents = 0 });
    }

    fn assert_gone_once(&self) {
        assert_eq!(self.releases.load(Ordering::Relaxed), 1);
        assert_eq!(self.deletions.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn loom_refcount_deletes_once() {
    loom::model(|| {
        let object = Object::shared();
        object.count.retain();
        let other = Arc::clone(&object);
        let thread = thread::spawn(move || {
            other.read();
            other.count.retain();
            other.release();
            other.read();
            other.release();
        });
        object.read();
        object.release();
        thread.join().unwrap();
        object.assert_gone_once();
    });
}

#[test]
fn loom_refcount_weak_upgrade() {
    loom::model(|| {
        let object = Object::shared();
        object.count.retain_weak();
        let other = Arc::clone(&object);
        let thread = thread::spawn(move || {
            if other.count.try_upgrade(false) == Upgrade::Done {
                other.read();
                other.release();
            }
            if other.count.release_weak() {
                other.deletions.fetch_add(1, Ordering::Relaxed);
            }
        });
        object.read();
        object.release();
        thread.join().unwrap();
        object.assert_gone_once();
    });
}

#[test]
fn loom_a_place_is_used_again_when_nobody_else_refers_to_it() {
    loom::model(|| {
        let object = Object::shared();
        object.count.retain_weak();
        let other = Arc::clone(&object);
        let thread = thread::spawn(move || {
            other.read();
            other.release();
        });
        // Whoever holds the weak reference gives it up for the one strong reference, if that is all.
        if object.count.start_over() {
            // SAFETY: there is no other reference; loom checks it.
            object.contents.with_mut(|contents| unsafe { *contents = 7 });
            object.read();
            assert_eq!(object.count.release(), Released::Dead);
            object.deletions.fetch_add(1, Ordering::Relaxed);
        } else if object.count.release_weak() {
            object.deletions.fetch_add(1, Ordering::Relaxed);
        }
        thread.join().unwrap();
        object.assert_gone_once();
    });
}

#[test]
fn loom_weak_reference_becomes_strong() {
    loom::model(|| {
        let object = Object::shared();
        object.count.retain();
        let other = Arc::clone(&object);
        let thread = thread::spawn(move || {
            other.read();
            other.release();
        });
        object.count.retain_weak();
        assert!(!object.count.strengthen());
        object.release();
        object.read();
        object.release();
        thread.join().unwrap();
        object.assert_gone_once();
    });
}

/// The references that Python holds: the wrapper itself and its count.
struct Wrapped {
    object: Arc<Object>,
    wrapper: AtomicUsize,
}

impl Wrapped {
    fn retain(&self) {
        if self.object.count.retain() {
            assert!(self.wrapper.fetch_add(1, Ordering::AcqRel) > 0, "kept a dead wrapper");
        }
    }

    fn release(&self) {
        if self.object.count.release() == Released::WrapperOnly {
            self.drop_wrapper();
        }
    }

    fn drop_wrapper(&self) {
        if self.wrapper.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The wrapper's deallocator: separate, then release its reference.
            assert!(!self.object.count.clear_wrapper(), "the object still owned its wrapper");
            self.object.release();
        }
    }
}

#[test]
fn loom_wrapper_lives_as_long_as_the_object() {
    loom::model(|| {
        let object = Object::shared();
        // The wrapper owns the first reference, Python the wrapper.
        assert!(object.count.try_set_wrapper(false));
        let wrapped = Arc::new(Wrapped { object, wrapper: AtomicUsize::new(1) });
        wrapped.retain();
        wrapped.retain();
        let other = Arc::clone(&wrapped);
        let thread = thread::spawn(move || {
            other.object.read();
            other.release();
        });
        wrapped.drop_wrapper();
        wrapped.object.read();
        wrapped.release();
        thread.join().unwrap();
        wrapped.object.assert_gone_once();
        assert_eq!(wrapped.wrapper.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn loom_wrapper_is_set_while_others_come_and_go() {
    loom::model(|| {
        let object = Object::shared();
        object.count.retain();
        let wrapped = Arc::new(Wrapped { object, wrapper: AtomicUsize::new(1) });
        let other = Arc::clone(&wrapped);
        let thread = thread::spawn(move || {
            other.retain();
            other.release();
            other.release();
        });
        // This thread's reference becomes the wrapper's.
        let count = &wrapped.object.count;
        let mut shared = count.strong_count() > 1;
        loop {
            if shared {
                wrapped.wrapper.fetch_add(1, Ordering::AcqRel);
            }
            if count.try_set_wrapper(shared) {
                break;
            }
            if shared {
                wrapped.wrapper.fetch_sub(1, Ordering::AcqRel);
            }
            shared = !shared;
        }
        thread.join().unwrap();
        assert_eq!(wrapped.wrapper.load(Ordering::Relaxed), 1);
        wrapped.drop_wrapper();
        wrapped.object.assert_gone_once();
    });
}

const KEY: usize = 64;

/// A storage with contents that loom watches.
struct Store {
    access: AccessState,
    contents: UnsafeCell<u32>,
}

/// One thread's way in and out, as `access::enter` does it.
fn with_access(store: &Store, mine: &'static Slots, write: bool, inside: impl FnOnce(&Store)) {
    with_attempts(store, mine, write, usize::MAX, inside);
}

/// As [`with_access`], giving up after some attempts: more of them only make the model larger.
fn with_attempts(
    store: &Store,
    mine: &'static Slots,
    write: bool,
    attempts: usize,
    inside: impl FnOnce(&Store),
) {
    let flag = if write { WRITE } else { 0 };
    let entry = mine.entry(0);
    publish(entry, KEY | flag);
    let biased = store.access.is_biased_to(mine);
    if !biased {
        entry.store(KEY | COUNTED, Ordering::Relaxed);
        let mut failed = 0;
        while !store.access.try_enter(KEY, write) {
            failed += 1;
            if failed >= attempts {
                entry.store(0, Ordering::Release);
                return;
            }
            thread::yield_now();
        }
    }
    inside(store);
    if !biased {
        store.access.leave(write);
    }
    entry.store(0, Ordering::Release);
}

fn write(store: &Store) {
    // SAFETY: this thread is inside for writing; loom checks it.
    store.contents.with_mut(|contents| unsafe { *contents += 1 });
}

fn read(store: &Store) -> u32 {
    // SAFETY: this thread is inside for reading; loom checks it.
    store.contents.with(|contents| unsafe { *contents })
}

fn slots() -> &'static Slots {
    Box::leak(Box::new(Slots::new()))
}

fn store(owner: &'static Slots) -> Arc<Store> {
    Arc::new(Store { access: AccessState::biased_to(owner), contents: UnsafeCell::new(0) })
}

#[test]
fn loom_access_owner_and_stranger_write() {
    loom::model(|| {
        let (mine, theirs) = (slots(), slots());
        let shared = store(mine);
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || with_access(&other, theirs, true, write));
        with_access(&shared, mine, true, write);
        with_access(&shared, mine, true, write);
        thread.join().unwrap();
        with_access(&shared, mine, false, |store| assert_eq!(read(store), 3));
    });
}

#[test]
fn loom_access_owner_writes_stranger_reads() {
    loom::model(|| {
        let (mine, theirs) = (slots(), slots());
        let shared = store(mine);
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            with_access(&other, theirs, false, |store| assert!(read(store) < 2))
        });
        with_access(&shared, mine, true, write);
        thread.join().unwrap();
    });
}

#[test]
fn loom_access_two_strangers() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(|| {
        let (mine, first, second) = (slots(), slots(), slots());
        let shared = store(mine);
        let threads = [first, second].map(|theirs| {
            let other = Arc::clone(&shared);
            thread::spawn(move || with_attempts(&other, theirs, true, 1, write))
        });
        with_attempts(&shared, mine, false, 1, |store| assert!(read(store) < 3));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// An exchanged handle: the reader's slot and the exchanging thread's look at it.
#[test]
fn loom_retired_storage_is_not_freed_under_a_reader() {
    loom::model(|| {
        let theirs = slots();
        let handle = Arc::new(AtomicUsize::new(KEY));
        let contents = Arc::new(UnsafeCell::new(1_u32));
        let (handle2, contents2) = (Arc::clone(&handle), Arc::clone(&contents));
        let reader = thread::spawn(move || {
            let entry = theirs.entry(0);
            publish(entry, KEY | COUNTED);
            if handle2.load(Ordering::Acquire) == KEY {
                // SAFETY: the slot keeps the storage; loom checks it.
                contents2.with(|contents| assert_eq!(unsafe { *contents }, 1));
            }
            entry.store(0, Ordering::Release);
        });
        handle.swap(0, Ordering::SeqCst);
        sync::heavy_barrier();
        let mut published = false;
        theirs.for_each(KEY, &mut |_| published = true);
        if !published {
            // SAFETY: nobody has a slot and nobody can get one; loom checks it.
            contents.with_mut(|contents| unsafe { *contents = 0 });
        }
        reader.join().unwrap();
    });
}

#[test]
fn loom_turns_exclude_each_other() {
    loom::model(|| {
        let cell = Arc::new((SpinLock::default(), UnsafeCell::new(0_u32)));
        // Who waits tries again: two attempts stand for any number.
        let add = |cell: &(SpinLock, UnsafeCell<u32>)| {
            let inside = (0..2).any(|_| cell.0.try_enter());
            if inside {
                // SAFETY: one thread is inside; loom checks it.
                cell.1.with_mut(|value| unsafe { *value += 1 });
                cell.0.leave();
            }
            u32::from(inside)
        };
        let other = Arc::clone(&cell);
        let thread = thread::spawn(move || add(&other));
        let entered = add(&cell) + thread.join().unwrap();
        // SAFETY: nobody else is left.
        cell.1.with(|value| assert_eq!(unsafe { *value }, entered));
    });
}
