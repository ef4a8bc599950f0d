//! The access set of a kernel.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::slice;

use smallvec::SmallVec;

use super::{Access, Hold};
use crate::{DType, Element, Result, Storage, TensorBase, bail, ensure};

/// The operands of a kernel, held for the kernel's time.
///
/// Made by [`acquire`](Self::acquire), released when dropped, by the same thread. Typed slices are
/// handed out for contiguous operands; strided loops take raw pointers and answer for their bounds.
#[derive(Debug)]
pub struct AccessSet<'a> {
    operands: SmallVec<[Operand<'a>; 4]>,
    #[allow(dead_code, reason = "dropping the holds releases the storages")]
    holds: SmallVec<[Hold; 4]>,
    thread: PhantomData<*mut ()>,
}

/// Held storages, released when dropped, by the same thread.
#[derive(Debug)]
pub struct Holds {
    _holds: SmallVec<[Hold; 4]>,
}

#[derive(Debug)]
struct Operand<'a> {
    tensor: &'a TensorBase,
    base: *mut u8,
    nbytes: usize,
    key: usize,
    mode: Access,
    taken: Cell<bool>,
}

impl<'a> AccessSet<'a> {
    /// Holds the storages of all operands, or none of them on error.
    ///
    /// Undefined tensors and tensors without a storage take part with a null pointer.
    pub fn acquire(wanted: &[(&'a TensorBase, Access)]) -> Result<Self> {
        let mut storages = SmallVec::<[(Storage, Access); 4]>::new();
        let mut keys = SmallVec::<[usize; 4]>::new();
        for (tensor, mode) in wanted {
            let Some(storage) = tensor.storage_opt() else {
                keys.push(0);
                continue;
            };
            keys.push(storage.key());
            match storages.iter_mut().find(|(held, _)| held.ptr_eq(&storage)) {
                Some((_, strongest)) => *strongest = (*strongest).max(*mode),
                None => storages.push((storage, *mode)),
            }
        }
        storages.sort_unstable_by_key(|(storage, _)| storage.key());
        let mut holds = SmallVec::new();
        for (storage, mode) in &storages {
            holds.push(Hold::new(&storage.0, *mode)?);
            storage.check_accessible()?;
            if *mode == Access::Write {
                storage.0.before_write()?;
            }
        }
        let operand = |(&(tensor, mode), &key): (&(&'a TensorBase, Access), &usize)| {
            let storage = storages.iter().find(|(storage, _)| storage.key() == key);
            let (base, nbytes) = match storage {
                Some((storage, _)) => (storage.data_ptr(), storage.nbytes()),
                None => (ptr::null_mut(), 0),
            };
            Operand { tensor, base, nbytes, key, mode, taken: Cell::new(false) }
        };
        let operands = wanted.iter().zip(&keys).map(operand).collect();
        Ok(Self { operands, holds, thread: PhantomData })
    }

    /// Keeps the storages held without borrowing the tensors; for whoever owns those as well.
    pub fn into_holds(self) -> Holds {
        Holds { _holds: self.holds }
    }

    /// How many operands there are.
    pub fn len(&self) -> usize {
        self.operands.len()
    }

    /// Whether there is no operand.
    pub fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// The elements of operand `index`, which must be contiguous and of dtype `T`.
    pub fn read<T: Element>(&self, index: usize) -> Result<&[T]> {
        let operand = &self.operands[index];
        let (data, len) = operand.contiguous::<T>()?;
        let shared_with_writer = self
            .operands
            .iter()
            .any(|other| other.key == operand.key && other.key != 0 && other.taken.get());
        ensure!(!shared_with_writer, Runtime, "operand {index} shares memory with a written one");
        // SAFETY: `contiguous` has checked pointer, bounds and alignment; the storage is held, and
        // no mutable slice of it was handed out.
        let elements = unsafe { slice::from_raw_parts(data, len) };
        if T::DTYPE == DType::Bool {
            check_bools(elements)?;
        }
        Ok(elements)
    }

    /// The elements of operand `index` for writing, once. It must be declared [`Access::Write`],
    /// be contiguous, of dtype `T`, and its storage must belong to no other operand.
    #[allow(clippy::mut_from_ref, reason = "each operand is handed out at most once")]
    pub fn write<T: Element>(&self, index: usize) -> Result<&mut [T]> {
        let operand = &self.operands[index];
        ensure!(operand.mode == Access::Write, Runtime, "operand {index} is not declared written");
        let sharers = self.operands.iter().filter(|other| other.key == operand.key).count();
        ensure!(
            operand.key == 0 || sharers == 1,
            Runtime,
            "operand {index} shares its storage with another operand"
        );
        let (data, len) = operand.contiguous::<T>()?;
        ensure!(!operand.taken.replace(true), Runtime, "operand {index} was taken already");
        // SAFETY: as in `read`; the storage is held for writing and this is its only slice.
        let elements = unsafe { slice::from_raw_parts_mut(data, len) };
        if T::DTYPE == DType::Bool {
            check_bools(elements)?;
        }
        Ok(elements)
    }

    /// A pointer to the first element of operand `index`, of dtype `T`; null if it has no data.
    ///
    /// Dereferencing it is sound within the bounds of [`extent`](Self::extent), until the set is
    /// dropped.
    pub fn read_ptr<T: Element>(&self, index: usize) -> Result<*const T> {
        Ok(self.operands[index].pointer::<T>()?.cast_const())
    }

    /// As [`read_ptr`](Self::read_ptr), for writing: the operand must be declared written.
    pub fn write_ptr<T: Element>(&self, index: usize) -> Result<*mut T> {
        let operand = &self.operands[index];
        ensure!(operand.mode == Access::Write, Runtime, "operand {index} is not declared written");
        operand.pointer::<T>()
    }

    /// As [`read_ptr`](Self::read_ptr), without a dtype.
    pub fn byte_ptr(&self, index: usize) -> *mut u8 {
        self.operands[index].byte_pointer()
    }

    /// Start and size of the held storage of operand `index`.
    pub fn extent(&self, index: usize) -> (*mut u8, usize) {
        let operand = &self.operands[index];
        (operand.base, operand.nbytes)
    }
}

impl Operand<'_> {
    fn byte_pointer(&self) -> *mut u8 {
        if self.base.is_null() {
            return self.base;
        }
        let offset = self.tensor.storage_offset() * self.tensor.itemsize() as i64;
        self.base.wrapping_offset(offset as isize)
    }

    fn pointer<T: Element>(&self) -> Result<*mut T> {
        self.check_dtype::<T>()?;
        Ok(self.byte_pointer().cast())
    }

    fn check_dtype<T: Element>(&self) -> Result<()> {
        let found = self.tensor.dtype();
        ensure!(found == T::DTYPE, Runtime, "expected scalar type {} but found {found}", T::DTYPE);
        Ok(())
    }

    /// Pointer and length, after checking everything that a slice needs.
    fn contiguous<T: Element>(&self) -> Result<(*mut T, usize)> {
        self.check_dtype::<T>()?;
        let geometry = self.tensor.geometry();
        ensure!(geometry.is_contiguous(), Runtime, "a slice needs a contiguous tensor");
        let len = geometry.numel as usize;
        if len == 0 {
            return Ok((ptr::NonNull::dangling().as_ptr(), 0));
        }
        if self.base.is_null() {
            bail!(Runtime, "the tensor has no data on this device");
        }
        let end = usize::try_from(geometry.storage_offset)
            .ok()
            .and_then(|offset| offset.checked_add(len)?.checked_mul(size_of::<T>()));
        let within = end.is_some_and(|end| end <= self.nbytes);
        ensure!(within, Runtime, "the tensor reaches beyond its storage of {} bytes", self.nbytes);
        let data = self.base.wrapping_add(geometry.storage_offset as usize * size_of::<T>());
        let data: *mut T = data.cast();
        ensure!(data.is_aligned(), Runtime, "the data is not aligned for {}", T::DTYPE);
        ensure!(self.tensor.device().is_cpu(), Runtime, "the data is not in host memory");
        Ok((data, len))
    }
}

/// Bytes other than 0 and 1 are not valid bools in Rust.
fn check_bools<T>(elements: &[T]) -> Result<()> {
    debug_assert_eq!(size_of::<T>(), 1);
    // SAFETY: the elements are one byte each.
    let bytes = unsafe { slice::from_raw_parts(elements.as_ptr().cast::<u8>(), elements.len()) };
    let valid = bytes.iter().fold(0, |seen, byte| seen | byte) <= 1;
    ensure!(valid, Runtime, "a bool tensor holds bytes other than 0 and 1");
    Ok(())
}
