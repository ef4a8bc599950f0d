//! Several threads on one tensor.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use corten_core::geometry::contiguous_strides;
use corten_core::*;

fn empty(sizes: &[i64]) -> TensorBase {
    TensorBase::empty(sizes, DType::Int64).unwrap()
}

/// Rounds of a stress test; fewer where every instruction is watched.
const ROUNDS: usize = if cfg!(miri) { 50 } else { 20_000 };

#[test]
fn geometry_is_never_torn() {
    // Shapes whose sizes, strides, offset and count all tell the same number.
    let shape = |rank: usize| (vec![1_i64; rank], vec![rank as i64; rank], rank as i64);
    let t = empty(&[1]);
    let (sizes, strides, offset) = shape(1);
    t.set_sizes_and_strides(&sizes, &strides, offset).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let geometry = t.geometry();
                    let rank = geometry.sizes.len();
                    assert_eq!(geometry.strides.len(), rank);
                    assert!(geometry.strides.iter().all(|&stride| stride == rank as i64));
                    assert!(geometry.sizes.iter().all(|&size| size == 1));
                    assert_eq!(geometry.storage_offset, rank as i64);
                    assert!(t.sizes().iter().all(|&size| size == 1));
                }
            });
        }
        for round in 0..ROUNDS {
            let (sizes, strides, offset) = shape(1 + (round * 7) % 12);
            t.set_sizes_and_strides(&sizes, &strides, offset).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn writers_exclude_each_other() {
    let t = empty(&[4]);
    Writer::<i64>::new(&t).unwrap().fill(0);
    let other = empty(&[4]);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (t, other) = (&t, &other);
            scope.spawn(move || {
                for _ in 0..ROUNDS / 8 {
                    if worker % 2 == 0 {
                        for element in Writer::<i64>::new(t).unwrap().iter_mut() {
                            *element += 1;
                        }
                    } else {
                        let set = AccessSet::acquire(&[(other, Access::Read), (t, Access::Read)])
                            .unwrap();
                        let all = set.read::<i64>(1).unwrap();
                        assert!(all.iter().all(|element| *element == all[0]));
                    }
                }
            });
        }
    });
    assert!(Reader::<i64>::new(&t).unwrap().iter().all(|&n| n == 2 * (ROUNDS / 8) as i64));
}

#[test]
fn sets_in_any_order_do_not_deadlock() {
    let tensors: Vec<TensorBase> = (0..4).map(|_| empty(&[1])).collect();
    for t in &tensors {
        Writer::<i64>::new(t).unwrap()[0] = 0;
    }
    thread::scope(|scope| {
        for worker in 0..4 {
            let tensors = &tensors;
            scope.spawn(move || {
                for round in 0..ROUNDS / 8 {
                    let [a, b] = [worker + round, worker + round * 3 + 1].map(|n| &tensors[n % 4]);
                    let set = AccessSet::acquire(&[(a, Access::Write), (b, Access::Read)]).unwrap();
                    // SAFETY: the set holds `a` for writing.
                    unsafe { *set.write_ptr::<i64>(0).unwrap() += 1 };
                }
            });
        }
    });
    let total: i64 = tensors.iter().map(|t| Reader::<i64>::new(t).unwrap()[0]).sum();
    assert_eq!(total, 4 * (ROUNDS / 8) as i64);
}

#[test]
fn a_conflicting_thread_waits() {
    let t = empty(&[1]);
    Writer::<i64>::new(&t).unwrap()[0] = 1;
    let (held, done) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Writer::<i64>::new(&t).unwrap();
            held.wait();
            thread::sleep(Duration::from_millis(20));
            writer[0] = 2;
            done.store(true, Ordering::Relaxed);
        });
        held.wait();
        let reader = Reader::<i64>::new(&t).unwrap();
        assert!(done.load(Ordering::Relaxed));
        assert_eq!(reader[0], 2);
    });
}

#[test]
fn readers_of_two_threads_do_not_wait_for_each_other() {
    let t = empty(&[1]);
    Writer::<i64>::new(&t).unwrap()[0] = 1;
    let reader = Reader::<i64>::new(&t).unwrap();
    thread::scope(|scope| {
        let inside = || Reader::<i64>::new(&t).unwrap()[0];
        assert_eq!(scope.spawn(inside).join().unwrap(), 1);
    });
    assert_eq!(reader[0], 1);
}

#[test]
fn storages_are_exchanged_and_resized_under_readers() {
    let t = empty(&[8]);
    Writer::<i64>::new(&t).unwrap().fill(3);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // The storage can be exchanged between its change of shape and its change of
                    // contents; then the slice is refused, never wrong.
                    if let Ok(reader) = Reader::<i64>::new(&t) {
                        assert!(reader.iter().all(|&element| element == 3));
                    }
                    drop(t.storage().unwrap());
                    drop(t.as_view_of(&[1], &[1], 0).unwrap());
                    let _ = t.data_ptr();
                }
            });
        }
        for round in 0..ROUNDS / 10 {
            let other = empty(&[8 + (round % 3) as i64]);
            Writer::<i64>::new(&other).unwrap().fill(3);
            t.set_data(&other).unwrap();
            if round % 4 == 0 {
                t.resize(&[4], None).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn handles_are_counted_across_threads() {
    struct Last(Arc<AtomicBool>);
    impl Drop for Last {
        fn drop(&mut self) {
            assert!(!self.0.swap(true, Ordering::SeqCst), "freed twice");
        }
    }
    let freed = Arc::new(AtomicBool::new(false));
    let mut elements = [7_i64; 2];
    let owner = Box::new(Last(Arc::clone(&freed)));
    // SAFETY: the array outlives the tensor, and nobody else touches it meanwhile.
    let storage = unsafe { Storage::from_owner(owner, elements.as_mut_ptr().cast(), 16) };
    let keys = KeySet::of(&[DispatchKey::CPU]);
    let strides = contiguous_strides(&[2]).unwrap();
    let t = TensorBase::new_with_storage(storage, DType::Int64, keys, &[2], &strides, 0).unwrap();
    let weak = t.downgrade();
    thread::scope(|scope| {
        for _ in 0..3 {
            let (mine, weak) = (t.clone(), weak.clone());
            scope.spawn(move || {
                for _ in 0..ROUNDS / 4 {
                    drop(mine.clone());
                    drop(weak.upgrade());
                    drop(weak.clone());
                }
            });
        }
        drop(t);
    });
    assert!(weak.upgrade().is_none() && weak.expired());
    assert!(freed.load(Ordering::SeqCst));
}

#[test]
fn blocks_travel_between_threads() {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<TensorBase>(64);
    thread::scope(|scope| {
        scope.spawn(move || {
            for round in 0..ROUNDS / 4 {
                let t = empty(&[1 + (round as i64 * 37) % 500]);
                Writer::<i64>::new(&t).unwrap().fill(round as i64);
                sender.send(t).unwrap();
            }
        });
        for (round, t) in receiver.into_iter().enumerate() {
            assert!(Reader::<i64>::new(&t).unwrap().iter().all(|&n| n == round as i64));
        }
    });
}

#[cfg(all(unix, not(miri)))]
#[test]
fn a_forked_child_can_allocate_and_access() {
    let t = empty(&[3]);
    Writer::<i64>::new(&t).unwrap().fill(5);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Another thread that is in the allocator most of the time, and always inside a storage.
        scope.spawn(|| {
            let reader = Reader::<i64>::new(&t).unwrap();
            while !stop.load(Ordering::Relaxed) {
                let others: Vec<_> = (0..300).map(|n| empty(&[n * 1000])).collect();
                assert_eq!((others.len(), reader[0]), (300, 5));
            }
        });
        for _ in 0..10 {
            // SAFETY: the child only allocates and leaves without running destructors.
            match unsafe { libc::fork() } {
                0 => {
                    let copies: Vec<_> = (0..300).map(|n| empty(&[n * 1000])).collect();
                    let sum: i64 = Reader::<i64>::new(&t).map_or(0, |reader| reader.iter().sum());
                    let fine = sum == 15 && copies.len() == 300 && memory_stats().num_ooms == 0;
                    // SAFETY: ends the child at once.
                    unsafe { libc::_exit(if fine { 0 } else { 1 }) };
                }
                child => {
                    let mut status = 0;
                    // SAFETY: waits for the child made above.
                    unsafe { libc::waitpid(child, &mut status, 0) };
                    assert_eq!(status, 0);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
