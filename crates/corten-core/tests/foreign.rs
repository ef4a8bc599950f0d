//! Foreign memory: random descriptions against exact arithmetic, and lent memory that outlives its
//! storage.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use corten_core::geometry::*;
use corten_core::*;

/// A small generator of random numbers (splitmix64), the same on every machine.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }

    /// Mostly small numbers, and some at the borders of their type.
    fn number(&mut self) -> i64 {
        const BORDERS: [i64; 12] = [
            i64::MIN,
            i64::MIN + 1,
            i64::MAX,
            i64::MAX - 1,
            1 << 62,
            -(1 << 62),
            1 << 32,
            1 << 31,
            -(1 << 31),
            (1 << 61) + 1,
            i64::MAX / 8,
            i64::MAX / 16 + 1,
        ];
        match self.below(16) {
            0 => BORDERS[self.below(12) as usize],
            1 => self.word() as i64,
            2 => -(self.below(9) as i64),
            3 => 1 << self.below(63),
            _ => self.below(9) as i64,
        }
    }

    fn list(&mut self, rank: usize) -> Vec<i64> {
        (0..rank).map(|_| self.number()).collect()
    }
}

/// How strides are given.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    None,
    Elements,
    Bytes,
}

#[derive(Debug)]
struct Case {
    address: usize,
    byte_offset: u64,
    sizes: Vec<i64>,
    strides: Vec<i64>,
    unit: Unit,
    itemsize: usize,
    available: Option<usize>,
}

impl Case {
    fn random(random: &mut Random) -> Self {
        let rank = match random.below(64) {
            0 => MAX_FOREIGN_DIMS + random.below(3) as usize,
            _ => random.below(6) as usize,
        };
        let unit = [Unit::None, Unit::Elements, Unit::Bytes][random.below(3) as usize];
        let itemsize = 1_usize << random.below(5);
        let sizes = random.list(rank);
        let further = usize::from(random.below(99) == 0);
        let mut strides = random.list(rank + further);
        if unit == Unit::Bytes && random.below(2) == 0 {
            strides.iter_mut().for_each(|s| *s = s.wrapping_mul(itemsize as i64));
        }
        let address = match random.below(8) {
            0 => 0,
            1 => usize::MAX - random.below(4096) as usize,
            2 => random.word() as usize,
            _ => 0x7f00_0000_0000 + random.below(1 << 20) as usize,
        };
        let byte_offset = match random.below(6) {
            0 => random.word(),
            1 => random.number() as u64,
            _ => random.below(64),
        };
        let available = (random.below(2) == 0).then(|| random.below(4096) as usize);
        Self { address, byte_offset, sizes, strides, unit, itemsize, available }
    }

    fn memory(&self) -> ForeignMemory<'_> {
        let strides = match self.unit {
            Unit::None => ForeignStrides::Contiguous,
            Unit::Elements => ForeignStrides::Elements(&self.strides),
            Unit::Bytes => ForeignStrides::Bytes(&self.strides),
        };
        ForeignMemory {
            address: self.address,
            byte_offset: self.byte_offset,
            sizes: &self.sizes,
            strides,
            itemsize: self.itemsize,
            available: self.available,
        }
    }

    /// The lowest and the highest byte after the elements, from the address on, in numbers that do not
    /// overflow; nothing if the description means nothing.
    fn exact(&self) -> Option<(i128, i128)> {
        let rank = self.sizes.len();
        let wrong_rank = self.unit != Unit::None && self.strides.len() != rank;
        if wrong_rank || rank > MAX_FOREIGN_DIMS || self.sizes.iter().any(|&size| size < 0) {
            return None;
        }
        let offset = i128::from(self.byte_offset);
        if self.sizes.contains(&0) {
            return Some((offset, offset));
        }
        let itemsize = self.itemsize as i128;
        let (mut low, mut high) = (offset, offset + itemsize);
        let mut dense = itemsize;
        for d in (0..rank).rev() {
            let size = i128::from(self.sizes[d]);
            let stride = match self.unit {
                Unit::None => dense,
                Unit::Elements => i128::from(self.strides[d]) * itemsize,
                Unit::Bytes => i128::from(self.strides[d]),
            };
            dense = dense.checked_mul(size).filter(|&dense| dense < 1 << 100)?;
            if size > 1 && stride % itemsize != 0 {
                return None;
            }
            // What saturates is far beyond all memory.
            let reach = stride.saturating_mul(size - 1);
            low = low.saturating_add(reach.min(0));
            high = high.saturating_add(reach.max(0));
        }
        Some((low, high))
    }

    /// Whether a storage can be made of what is described.
    fn is_sound(&self) -> bool {
        let Some((low, high)) = self.exact() else { return false };
        let empty = self.sizes.contains(&0);
        let numel = self.sizes.iter().try_fold(1_i64, |numel, &size| numel.checked_mul(size));
        let negative = self.unit != Unit::None
            && self.sizes.iter().zip(&self.strides).any(|(&n, &s)| n > 1 && s < 0 && !empty);
        let end = high.saturating_add(self.address as i128);
        let inside = if empty { end <= usize::MAX as i128 } else { end < isize::MAX as i128 };
        (empty || numel.is_some())
            && low == i128::from(self.byte_offset)
            && !negative
            && inside
            && (empty || self.address != 0)
            && self.available.is_none_or(|available| high <= available as i128)
    }
}

fn cases() -> u64 {
    if cfg!(debug_assertions) { 100_000 } else { 1_000_000 }
}

#[test]
fn random_descriptions_stay_within_their_memory() {
    let mut random = Random(56);
    let mut accepted = 0;
    for _ in 0..cases() {
        let case = Case::random(&mut random);
        let memory = case.memory();
        let found = memory.check();
        assert_eq!(found.is_ok(), case.is_sound(), "{case:?}: {found:?}");
        let geometry = match found {
            Ok(geometry) => geometry,
            Err(error) => {
                assert!(!memory.explain(error).to_string().is_empty());
                continue;
            }
        };
        accepted += 1;
        let (low, high) = case.exact().unwrap();
        let (start, end) = (geometry.start, geometry.start + geometry.nbytes);
        assert_eq!((start as i128, end as i128), (low, high), "{case:?}");
        assert_eq!(geometry.sizes.as_slice(), case.sizes);
        let (sizes, strides) = (&geometry.sizes, &geometry.strides);
        // What later code asks before it touches an element.
        check_in_bounds(sizes, strides, 0, case.itemsize, geometry.nbytes).unwrap();
        assert!(strides.iter().all(|&stride| stride >= 0), "{case:?}");
        let twice = |place: usize| (sizes[place] > 1).then_some(strides[place]);
        for place in (0..sizes.len()).filter(|_| !sizes.contains(&0)) {
            let Some(stride) = twice(place) else { continue };
            let bytes = i128::from(stride) * case.itemsize as i128;
            match case.unit {
                Unit::None => {}
                Unit::Elements => assert_eq!(stride, case.strides[place]),
                Unit::Bytes => assert_eq!(bytes, i128::from(case.strides[place])),
            }
        }
    }
    assert!(accepted > cases() / 20, "only {accepted} descriptions were sound");
}

#[test]
fn errors_say_what_is_wrong() {
    let text = |sizes: &[i64], strides: ForeignStrides<'_>, address, byte_offset, available| {
        let memory = ForeignMemory { address, byte_offset, sizes, strides, itemsize: 8, available };
        memory.explain(memory.check().unwrap_err()).to_string()
    };
    use ForeignStrides::{Bytes, Contiguous, Elements};
    let cases = [
        (text(&[-3], Contiguous, 64, 0, None), "negative dimension -3: [-3]"),
        (text(&[1 << 40, 1 << 40], Elements(&[0, 0]), 64, 0, None), "multiplication overflow"),
        (text(&[4], Elements(&[-1]), 64, 0, None), "sizes=[4] and strides=[-1]: tensors with neg"),
        (text(&[4], Bytes(&[12]), 64, 0, None), "not multiples of the element size, 8 bytes"),
        (text(&[4], Contiguous, 0, 0, None), "null address"),
        (text(&[4], Contiguous, 64, u64::MAX, None), "from byte 18446744073709551615"),
        (text(&[4], Contiguous, 64, 8, Some(32)), "need 40 bytes, but the memory has 32"),
        (text(&[4], Elements(&[1, 1]), 64, 0, None), "2 and 1, of at most 128"),
    ];
    for (found, expected) in cases {
        assert!(found.contains(expected), "{found:?} lacks {expected:?}");
    }
}

fn filled(value: u8, nbytes: usize) -> Storage {
    let storage = Storage::new(nbytes, Device::CPU).unwrap();
    storage.write_bytes(0, &vec![value; nbytes]).unwrap();
    storage
}

fn contents(memory: &LentMemory) -> Vec<u8> {
    // SAFETY: the memory is the test's own, and nobody writes to it meanwhile.
    unsafe { std::slice::from_raw_parts(memory.start(), memory.nbytes()) }.to_vec()
}

/// Takes what is freed again and overwrites it.
fn reuse(nbytes: usize) -> Vec<Storage> {
    (0..8).map(|_| filled(0xEE, nbytes)).collect()
}

#[test]
fn lent_memory_outlives_every_replacement() {
    type Replace = fn(&Storage);
    let replacements: [(&str, Replace); 4] = [
        ("resize", |s| s.resize(4 * s.nbytes()).unwrap()),
        ("reset", |s| s.reset().unwrap()),
        ("set_data_ptr", |s| drop(s.set_data_ptr(DataPtr::null(Device::CPU), 0).unwrap())),
        #[cfg(target_os = "linux")]
        ("share", |s| drop(s.share().unwrap())),
        #[cfg(not(target_os = "linux"))]
        ("nothing", |_| ()),
    ];
    for nbytes in [64, 4096, 3 << 20] {
        for (name, replace) in replacements {
            let storage = filled(7, nbytes);
            let first = storage.lend().unwrap();
            let second = storage.lend().unwrap();
            assert_eq!((first.start(), first.nbytes()), (storage.data_ptr(), nbytes));
            assert_eq!(second.start(), first.start());
            let part = first.slice(16, 32).unwrap();
            assert!(first.slice(nbytes - 1, 2).is_err() && first.slice(usize::MAX, 2).is_err());
            replace(&storage);
            drop(first);
            let kept = reuse(nbytes);
            assert_eq!(contents(&second), vec![7; nbytes], "{name} of {nbytes} bytes");
            drop(storage);
            assert_eq!(contents(&second), vec![7; nbytes], "{name} of {nbytes} bytes");
            drop(second);
            let more = reuse(nbytes);
            assert_eq!(part.read_bytes().unwrap(), vec![7; 32], "{name} of {nbytes} bytes");
            drop((kept, more));
        }
    }
}

#[test]
fn lending_frees_the_memory_once() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let freed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&freed);
    let mut bytes = vec![1_u8; 16];
    let start = bytes.as_mut_ptr();
    let free = move |_: *mut u8| {
        drop(std::mem::take(&mut bytes));
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let storage = Storage::from_data_ptr(DataPtr::with_closure(start, free, Device::CPU), 16);
    let lent = storage.lend().unwrap();
    let more: Vec<_> = (0..3).map(|_| storage.lend().unwrap()).collect();
    drop(storage);
    drop(more);
    assert_eq!(freed.load(Ordering::Relaxed), 0);
    drop(lent);
    assert_eq!(freed.load(Ordering::Relaxed), 1);
}

#[test]
fn owners_are_found_in_lent_memory() {
    let storage = Storage::from_vec(vec![1_u8, 2, 3]);
    let length = |owner: &Vec<u8>| owner.len();
    assert_eq!(storage.with_owner(length), Some(3));
    let lent = storage.lend().unwrap();
    assert_eq!(storage.with_owner(length), Some(3));
    assert_eq!(contents(&lent), [1, 2, 3]);
    assert_eq!(storage.with_owner(|_: &String| ()), None);
}

#[test]
fn threads_lend_while_others_ask_and_replace() {
    let storage = filled(3, 256);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let lent = storage.lend().unwrap();
                    assert_eq!(contents(&lent)[0], 3);
                    assert_eq!(storage.with_owner(|_: &Vec<u8>| ()), None);
                }
            });
        }
        scope.spawn(|| {
            for round in 0..200 {
                storage.resize(256 + 64 * (round % 5)).unwrap();
            }
        });
    });
}

#[test]
fn lending_materialises() {
    let storage = filled(1, 64);
    let hook: Materialise = Box::new(|_, nbytes| {
        let fresh = get_allocator(DeviceType::Cpu)?.allocate(nbytes)?;
        // SAFETY: the memory is new and has that many bytes.
        unsafe { fresh.get().write_bytes(9, nbytes) };
        Ok(fresh)
    });
    storage.set_materialise(hook).unwrap();
    let lent = storage.lend().unwrap();
    assert_eq!((contents(&lent)[5], lent.start()), (9, storage.data_ptr()));
}

#[cfg(target_os = "linux")]
#[test]
fn protected_memory_is_recognised() {
    use corten_core::mapped::is_memory_writable;
    let page = 4096;
    // SAFETY: fresh private mappings of the test's own, unmapped below.
    let start = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(std::ptr::null_mut(), 3 * page, protection, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(start.byte_add(page), page, libc::PROT_READ), 0);
        start.cast::<u8>()
    };
    assert!(is_memory_writable(start, page));
    assert!(!is_memory_writable(start, page + 1));
    assert!(!is_memory_writable(start.wrapping_add(page + 100), 1));
    assert!(is_memory_writable(start.wrapping_add(2 * page), page));
    assert!(is_memory_writable(start.wrapping_add(page), 0));
    // SAFETY: the mapping is the test's own.
    unsafe { libc::munmap(start.cast(), 3 * page) };
}
