//! Shared values of any type, and the lock for a few instructions.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use corten_core::{BriefCell, Make, Ready, Shared, Unshared};

/// Counts how often it is dropped.
struct Guarded(Arc<AtomicUsize>, u32);

impl Drop for Guarded {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_last_handle_drops_the_value_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    let first = Shared::new(Guarded(drops.clone(), 7));
    let second = first.clone();
    assert!(first.ptr_eq(&second));
    assert_eq!((first.use_count(), first.address()), (2, second.address()));
    drop(first);
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    assert_eq!(second.1, 7);
    drop(second);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn a_weak_handle_outlives_the_value() {
    let drops = Arc::new(AtomicUsize::new(0));
    let strong = Shared::new(Guarded(drops.clone(), 7));
    let weak = strong.downgrade();
    assert_eq!(weak.upgrade().unwrap().1, 7);
    drop(strong);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    assert!(weak.clone().upgrade().is_none());
    drop(weak);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn a_value_can_be_changed_before_it_is_shared() {
    let drops = Arc::new(AtomicUsize::new(0));
    let mut value = Unshared::new(Guarded(drops.clone(), 1));
    value.1 += 1;
    assert_eq!(value.1, 2);
    assert_eq!(value.share().1, 2);
    drop(Unshared::new(Guarded(drops.clone(), 3)));
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

#[test]
fn a_value_is_made_where_one_was() {
    let drops = Arc::new(AtomicUsize::new(0));
    let first = Shared::new(Guarded(drops.clone(), 1));
    let (weak, address) = (first.downgrade(), first.address());
    drop(first);
    let mut second = Unshared::build_again(Some(weak), Ready(Guarded(drops.clone(), 2)));
    let weak = second.downgrade();
    let second = second.share();
    assert_eq!((second.1, second.address(), second.use_count()), (2, address, 1));
    assert_eq!(weak.upgrade().unwrap().1, 2);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    drop(second);
    assert!(weak.upgrade().is_none());
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

#[test]
fn a_place_that_others_refer_to_is_left_alone() {
    let drops = Arc::new(AtomicUsize::new(0));
    let strong = Shared::new(Guarded(drops.clone(), 1));
    let of_living = strong.downgrade();
    let made = Unshared::build_again(Some(of_living), Ready(Guarded(drops.clone(), 2)));
    assert_ne!(made.share().address(), strong.address());
    let (kept, given) = (strong.downgrade(), strong.downgrade());
    drop(strong);
    let made = Unshared::build_again(Some(given), Ready(Guarded(drops.clone(), 3))).share();
    assert!(kept.upgrade().is_none());
    assert_eq!((made.1, drops.load(Ordering::SeqCst)), (3, 2));
    let none = Unshared::build_again(None, Ready(Guarded(drops.clone(), 4)));
    assert_eq!(none.1, 4);
}

#[test]
fn nothing_is_left_where_making_a_value_again_fails() {
    struct Fails;
    impl Make<Guarded> for Fails {
        fn make(self) -> Guarded {
            panic!("on purpose")
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let weak = Shared::new(Guarded(drops.clone(), 1)).downgrade();
    let build = || drop(Unshared::build_again(Some(weak), Fails));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(build)).is_err());
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn handles_cross_threads() {
    let drops = Arc::new(AtomicUsize::new(0));
    let value = Shared::new(Guarded(drops.clone(), 1));
    let weak = value.downgrade();
    thread::scope(|scope| {
        for _ in 0..4 {
            let (value, weak) = (value.clone(), weak.clone());
            scope.spawn(move || {
                for _ in 0..1000 {
                    assert_eq!(value.clone().1 + weak.upgrade().unwrap().1, 2);
                }
            });
        }
    });
    drop(value);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn one_thread_at_a_time_is_inside() {
    let cell = BriefCell::new(0_usize);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| cell.with(|value| *value += 1)));
        }
    });
    let mut cell = cell;
    assert_eq!(*cell.get_mut(), 40_000);
}

#[test]
fn a_panic_inside_leaves_the_cell_usable() {
    let cell = Arc::new(BriefCell::new(1));
    let other = cell.clone();
    let outcome = thread::spawn(move || other.with(|_| panic!("on purpose"))).join();
    assert!(outcome.is_err());
    assert_eq!(cell.with(|value| *value), 1);
}
