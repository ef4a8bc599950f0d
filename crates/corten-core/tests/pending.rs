//! Storages that wait for a program: who runs it, when, and from which thread.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten_core::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A program that fills storages with a byte, and counts its runs.
struct Fill {
    targets: Mutex<Vec<Storage>>,
    /// What it only reads.
    sources: Mutex<Vec<Storage>>,
    byte: u8,
    runs: AtomicUsize,
    runner: Mutex<Option<std::thread::ThreadId>>,
}

impl Fill {
    fn of(byte: u8, storages: &[&Storage]) -> Arc<Self> {
        let targets = Mutex::new(storages.iter().map(|&storage| storage.clone()).collect());
        let (runs, runner) = (AtomicUsize::new(0), Mutex::new(None));
        let sources = Mutex::default();
        let program = Arc::new(Self { targets, sources, byte, runs, runner });
        let deferred: Arc<dyn Deferred> = program.clone();
        for storage in storages {
            assert!(storage.note_use(&deferred, true).is_empty());
        }
        program
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl Deferred for Fill {
    fn flush(&self, waits: bool) -> Result<()> {
        if self.is_running_here() {
            return Ok(());
        }
        let mut targets = match waits {
            true => self.targets.lock().unwrap(),
            false => self.targets.try_lock().map_err(|_| err!(Runtime, "it runs elsewhere"))?,
        };
        *self.runner.lock().unwrap() = Some(std::thread::current().id());
        if !targets.is_empty() {
            self.runs.fetch_add(1, Ordering::SeqCst);
        }
        for storage in targets.drain(..) {
            if storage.data_ptr().is_null() {
                let fresh = Storage::new(storage.nbytes(), Device::CPU)?;
                let memory = fresh.set_data_ptr(DataPtr::null(Device::CPU), 0)?;
                storage.set_data_ptr(memory, storage.nbytes())?;
            }
            storage.write_bytes(0, &vec![self.byte; storage.nbytes()])?;
            storage.forget_use(self);
        }
        for storage in self.sources.lock().unwrap().drain(..) {
            storage.forget_use(self);
        }
        *self.runner.lock().unwrap() = None;
        Ok(())
    }

    fn is_running_here(&self) -> bool {
        *self.runner.lock().unwrap() == Some(std::thread::current().id())
    }
}

fn tensor_over(storage: &Storage) -> TensorBase {
    let keys = KeySet::from_key(DispatchKey::CPU);
    let length = storage.nbytes() as i64;
    TensorBase::new_with_storage(storage.clone(), DType::UInt8, keys, &[length], &[1], 0).unwrap()
}

type ReadBytes = fn(&Storage) -> Result<Vec<u8>>;

/// Each way to the bytes of a storage.
const WAYS: &[ReadBytes] = &[
    |storage| storage.read_bytes(),
    |storage| Ok(Reader::<u8>::new(&tensor_over(storage))?.to_vec()),
    |storage| Ok(Writer::<u8>::new(&tensor_over(storage))?.to_vec()),
    |storage| {
        let tensor = tensor_over(storage);
        let set = AccessSet::acquire(&[(&tensor, Access::Read), (&tensor, Access::Read)])?;
        Ok(set.read::<u8>(0)?.to_vec())
    },
    |storage| {
        let tensor = tensor_over(storage);
        let mut blocks = Blocks::none();
        assert!(blocks.acquire(&[(&tensor, Access::Read, storage.nbytes())])?);
        let start = blocks.address(0).cast_const();
        // SAFETY: so many bytes are held for reading.
        Ok(unsafe { std::slice::from_raw_parts(start, storage.nbytes()) }.to_vec())
    },
    |storage| {
        let tensor = tensor_over(storage);
        let held = access::Holds::acquire(&[(&tensor, Access::Write)])?;
        drop(held);
        storage.read_bytes()
    },
    |storage| {
        let tensor = tensor_over(storage);
        assert!(!tensor.checked_data_ptr()?.is_null());
        storage.read_bytes()
    },
    |storage| {
        let lent = storage.lend()?;
        // SAFETY: the memory is lent, and nobody writes to it here.
        Ok(unsafe { std::slice::from_raw_parts(lent.start(), lent.nbytes()) }.to_vec())
    },
    |storage| storage.lazy_clone()?.read_bytes(),
    |storage| {
        storage.resize(storage.nbytes())?;
        storage.read_bytes()
    },
    |storage| {
        let (other, made) = (TensorBase::empty(&[4], DType::UInt8)?, tensor_over(storage));
        other.copy_block_from(&made)?;
        Ok(Reader::<u8>::new(&other)?.to_vec())
    },
];

#[test]
fn every_way_to_the_bytes_runs_the_program_once() {
    for (number, way) in WAYS.iter().enumerate() {
        let fresh = Storage::without_memory(4).unwrap();
        let program = Fill::of(7, &[&fresh]);
        assert!(fresh.is_pending() && fresh.data_ptr().is_null());
        assert_eq!(way(&fresh).unwrap(), [7; 4], "way {number}");
        assert_eq!(program.runs(), 1, "way {number}");
        assert!(!fresh.is_pending());

        let written = Storage::from_vec(vec![1u8; 4]);
        if number == 9 {
            continue; // such memory is not resizable
        }
        let program = Fill::of(9, &[&written]);
        assert_eq!(way(&written).unwrap(), [9; 4], "way {number}");
        assert_eq!((program.runs(), way(&written).unwrap()), (1, vec![9; 4]));
    }
}

#[test]
fn reading_what_is_only_read_runs_nothing() {
    let storage = Storage::from_vec(vec![1u8; 4]);
    let target = Storage::without_memory(4).unwrap();
    let program = Fill::of(3, &[&target]);
    let deferred: Arc<dyn Deferred> = program.clone();
    assert!(storage.note_use(&deferred, false).is_empty());
    program.sources.lock().unwrap().push(storage.clone());
    storage.read_bytes().unwrap();
    drop(Reader::<u8>::new(&tensor_over(&storage)).unwrap());
    assert_eq!(program.runs(), 0);
    drop(Writer::<u8>::new(&tensor_over(&storage)));
    assert_eq!(program.runs(), 1);
    assert!(!storage.is_pending());
}

#[test]
fn metadata_runs_nothing() {
    let storage = Storage::without_memory(4).unwrap();
    let program = Fill::of(3, &[&storage]);
    let tensor = tensor_over(&storage);
    assert_eq!((tensor.numel(), storage.nbytes(), tensor.has_storage()), (4, 4, true));
    let view = tensor.as_view_of(&[2], &[1], 2).unwrap();
    assert_eq!(view.sizes()[..], [2]);
    assert_eq!(program.runs(), 0);
    assert_eq!(Reader::<u8>::new(&view).unwrap()[..], [3, 3]);
}

#[test]
fn conflicting_programs_are_named() {
    let storage = Storage::from_vec(vec![1u8; 4]);
    let other = Storage::from_vec(vec![1u8; 4]);
    let first = Fill::of(2, &[&storage]);
    let second: Arc<dyn Deferred> = Fill::of(3, &[&other]);
    let conflicts = storage.note_use(&second, false);
    assert_eq!(conflicts.len(), 1);
    run_programs(&conflicts).unwrap();
    assert_eq!(first.runs(), 1);
    assert!(storage.note_use(&second, false).is_empty());
    storage.forget_use(&*second);
}

#[test]
fn refusals_stay_where_uses_go() {
    let storage = Storage::from_vec(vec![1u8; 4]);
    storage.set_write_error(Some("read only".to_owned()));
    let reads: Arc<dyn Deferred> = Fill::of(2, &[]);
    assert!(storage.note_use(&reads, false).is_empty());
    storage.forget_use(&*reads);
    assert!(storage.write_bytes(0, &[1]).is_err());
    storage.set_write_error(None);
    storage.write_bytes(0, &[1]).unwrap();
    storage.set_access_error(Some("failed".to_owned()));
    assert!(storage.note_use(&reads, true).is_empty());
    storage.forget_use(&*reads);
    assert!(storage.read_bytes().is_err());
}

#[test]
fn handles_of_programs_are_not_counted() {
    let storage = Storage::without_memory(4).unwrap();
    let program = Fill::of(2, &[&storage]);
    assert_eq!(storage.use_count(), 1);
    program.flush(true).unwrap();
    assert_eq!(storage.use_count(), 1);
}

#[test]
fn sole_owners_are_told_from_lenders() {
    let storage = Storage::new(4, Device::CPU).unwrap();
    assert!(storage.is_sole_owner());
    let lent = storage.lend().unwrap();
    assert!(!storage.is_sole_owner());
    drop(lent);
    assert!(storage.is_sole_owner());
    let clone = storage.lazy_clone().unwrap();
    assert!(storage.is_sole_owner() && clone.is_sole_owner());
    assert!(Storage::from_vec(vec![1u8]).is_sole_owner());
    let mut outside = [1u8; 4];
    let data = DataPtr::borrowed(outside.as_mut_ptr(), Device::CPU);
    assert!(!Storage::from_data_ptr(data, 4).is_sole_owner());
}

#[test]
fn one_of_many_threads_runs_the_program() {
    for round in 0..200 {
        let storages: Vec<Storage> = (0..3).map(|_| Storage::without_memory(8).unwrap()).collect();
        let program = Fill::of(round as u8, &storages.iter().collect::<Vec<_>>());
        std::thread::scope(|scope| {
            for number in 0..4 {
                let storage = &storages[number % 3];
                scope.spawn(move || {
                    let way = WAYS[(number + round) % 7];
                    assert_eq!(way(storage).unwrap(), [round as u8; 8]);
                });
            }
        });
        assert_eq!(program.runs(), 1);
    }
}
