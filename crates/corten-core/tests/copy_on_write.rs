//! Storages that share memory until one of them is written to.
#![allow(clippy::unwrap_used)]

use corten_core::*;

fn counting(n: usize) -> Storage {
    Storage::new(n, Device::CPU).and_then(|s| fill(&s, 1).map(|()| s)).unwrap()
}

fn fill(storage: &Storage, value: u8) -> Result<()> {
    storage.write_bytes(0, &vec![value; storage.nbytes()])
}

fn tensor(storage: &Storage) -> TensorBase {
    let keys = KeySet::for_tensor(DeviceType::Cpu, Layout::Strided, DType::UInt8);
    let sizes = [storage.nbytes() as i64];
    TensorBase::new_with_storage(storage.clone(), DType::UInt8, keys, &sizes, &[1], 0).unwrap()
}

#[test]
fn reads_share_and_the_first_write_copies() {
    let storage = counting(100);
    let start = storage.data_ptr();
    let clone = storage.lazy_clone().unwrap();
    assert!(storage.is_copy_on_write() && clone.is_copy_on_write() && !storage.ptr_eq(&clone));
    assert_eq!((clone.data_ptr(), storage.data_ptr(), clone.nbytes()), (start, start, 100));
    assert_eq!(clone.read_bytes().unwrap(), [1; 100]);
    assert!(storage.is_copy_on_write() && clone.is_copy_on_write(), "reading changes nothing");
    fill(&clone, 2).unwrap();
    assert!(storage.is_copy_on_write() && !clone.is_copy_on_write());
    assert_ne!(clone.data_ptr(), start);
    assert_eq!(storage.read_bytes().unwrap(), [1; 100]);
    // The last share is taken and not copied.
    fill(&storage, 3).unwrap();
    assert!(!storage.is_copy_on_write() && storage.data_ptr() == start);
    assert_eq!(clone.read_bytes().unwrap(), [2; 100]);
}

#[test]
fn clones_of_clones_are_independent() {
    let storage = counting(64);
    let clones: Vec<_> = (0..4).map(|_| storage.lazy_clone().unwrap()).collect();
    let second = clones[0].lazy_clone().unwrap();
    for (place, clone) in clones.iter().enumerate() {
        fill(clone, 10 + place as u8).unwrap();
    }
    for (place, clone) in clones.iter().enumerate() {
        assert_eq!(clone.read_bytes().unwrap(), [10 + place as u8; 64]);
    }
    assert_eq!(second.read_bytes().unwrap(), [1; 64]);
    drop(storage);
    let start = second.data_ptr();
    second.materialise().unwrap();
    assert_eq!((second.data_ptr(), second.is_copy_on_write()), (start, false));
}

#[test]
fn every_access_for_writing_materialises() {
    let writes: [fn(&Storage); 6] = [
        |s| drop(Writer::<u8>::new(&tensor(s)).unwrap()),
        |s| drop(AccessSet::acquire(&[(&tensor(s), Access::Write)]).unwrap()),
        |s| assert!(Blocks::none().acquire(&[(&tensor(s), Access::Write, 8)]).unwrap()),
        |s| drop(s.lend().unwrap()),
        |s| s.resize(200).unwrap(),
        |s| s.reset().unwrap(),
    ];
    for write in writes {
        let storage = counting(100);
        let clone = storage.lazy_clone().unwrap();
        write(&clone);
        assert!(!clone.is_copy_on_write() && clone.data_ptr() != storage.data_ptr());
        assert_eq!(storage.read_bytes().unwrap(), [1; 100]);
    }
    let storage = counting(100);
    let clone = storage.lazy_clone().unwrap();
    drop(Reader::<u8>::new(&tensor(&clone)).unwrap());
    assert!(Blocks::none().acquire(&[(&tensor(&clone), Access::Read, 8)]).unwrap());
    assert!(clone.is_copy_on_write());
}

#[test]
fn blocks_of_one_storage_have_one_address() {
    let storage = counting(100);
    let _clone = storage.lazy_clone().unwrap();
    let (source, target) = (tensor(&storage), tensor(&storage));
    let mut held = Blocks::none();
    // The operand that is read comes first and must see the memory that is written.
    assert!(held.acquire(&[(&source, Access::Read, 8), (&target, Access::Write, 8)]).unwrap());
    assert_eq!((held.address(0), held.address(1)), (storage.data_ptr(), storage.data_ptr()));
}

#[test]
fn memory_that_others_write_to_is_copied_at_once() {
    let storage = counting(100);
    let lent = storage.lend().unwrap();
    let clone = storage.lazy_clone().unwrap();
    assert!(!clone.is_copy_on_write() && !storage.is_copy_on_write());
    // SAFETY: the memory has 100 bytes, and nobody is inside.
    unsafe { lent.start().write_bytes(7, 100) };
    assert_eq!((storage.read_bytes().unwrap()[5], clone.read_bytes().unwrap()[5]), (7, 1));
    drop(lent);
    assert!(storage.lazy_clone().unwrap().is_copy_on_write(), "nobody is left");
    let owned = Storage::from_vec(vec![1_u8, 2, 3]);
    assert!(!owned.lazy_clone().unwrap().is_copy_on_write());
    let empty = Storage::new(0, Device::CPU).unwrap();
    assert_eq!(empty.lazy_clone().unwrap().nbytes(), 0);
    let meta = Storage::new(100, Device::META).unwrap();
    assert_eq!(meta.lazy_clone().unwrap().nbytes(), 100);
}

#[test]
fn refusals_stay() {
    let storage = counting(10);
    storage.set_write_error(Some("read-only".into()));
    let clone = storage.lazy_clone().unwrap();
    assert_eq!(fill(&storage, 1).unwrap_err().message(), "read-only");
    assert!(storage.is_copy_on_write(), "nothing was written");
    fill(&clone, 5).unwrap();
    storage.set_write_error(None);
    fill(&storage, 6).unwrap();
    assert_eq!((storage.read_bytes().unwrap()[0], clone.read_bytes().unwrap()[0]), (6, 5));
}

#[test]
fn threads_write_their_own_clones() {
    for round in 0..50 {
        let storage = counting(4096);
        let clones: Vec<_> = (0..3).map(|_| storage.lazy_clone().unwrap()).collect();
        std::thread::scope(|scope| {
            for (place, clone) in clones.iter().chain([&storage]).enumerate() {
                scope.spawn(move || {
                    assert_eq!(clone.read_bytes().unwrap(), [1; 4096]);
                    fill(clone, 10 + place as u8).unwrap();
                    assert_eq!(clone.read_bytes().unwrap(), [10 + place as u8; 4096]);
                });
            }
        });
        for (place, clone) in clones.iter().chain([&storage]).enumerate() {
            assert_eq!(clone.read_bytes().unwrap(), [10 + place as u8; 4096], "round {round}");
        }
    }
}
