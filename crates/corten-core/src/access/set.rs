//! The access set of a kernel.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::slice;

use smallvec::SmallVec;

use super::Access;
use super::enter::{Entered, FEW, enter_biased, enter_waiting};
use crate::geometry::check_in_bounds;
use crate::storage::run_programs;
use crate::tensor::Geometry;
use crate::{
    DType, Element, Error, Layout, Result, Storage, StorageImpl, TensorBase, bail, ensure, err,
};

/// The operands of a kernel, held for the kernel's time.
///
/// Made by [`acquire`](Self::acquire), released when dropped, by the same thread. Typed slices are
/// handed out for contiguous operands; strided loops take raw pointers and answer for their bounds.
///
/// ```
/// use corten_core::{Access, AccessSet, Reader, TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[3], TensorOptions::default())?;
/// let set = AccessSet::acquire(&[(&x, Access::Write)])?;
/// set.write::<f32>(0)?.fill(1.0);
/// drop(set);
/// assert_eq!(Reader::<f32>::new(&x)?[..], [1.0, 1.0, 1.0]);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Debug)]
pub struct AccessSet<'a> {
    operands: SmallVec<[Operand<'a>; FEW]>,
    #[allow(dead_code, reason = "dropping it leaves the storages")]
    entered: Entered,
}

/// The access to some storages, without the operands: for objects that keep the operands elsewhere.
///
/// Released when dropped, by the same thread.
///
/// ```
/// use corten_core::access::{Access, Holds};
/// use corten_core::{TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[3], TensorOptions::default())?;
/// let held = Holds::acquire(&[(&x, Access::Read)])?;
/// drop(held);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Holds {
    #[allow(dead_code, reason = "dropping it leaves the storages")]
    entered: Entered,
    /// Storages that leaving touches; dropped after leaving.
    #[allow(dead_code, reason = "kept alive")]
    kept: SmallVec<[Storage; 1]>,
}

/// Where an operand and its storage lie, while it is held.
///
/// ```
/// use corten_core::access::{Access, HeldPlace, Holds};
/// use corten_core::{TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[3], TensorOptions::default())?;
/// let mut places = [HeldPlace::NONE; Holds::FEW];
/// let held = Holds::acquire_few(&[(&x, Access::Read)], &mut places)?;
/// assert!(places[0].nbytes >= 12);
/// drop(held);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HeldPlace {
    /// The first element; null if there is no data.
    pub start: *mut u8,
    /// The start of the storage.
    pub storage: *mut u8,
    /// The size of the storage in bytes.
    pub nbytes: usize,
}

impl HeldPlace {
    /// Nowhere.
    pub const NONE: Self = Self { start: ptr::null_mut(), storage: ptr::null_mut(), nbytes: 0 };
}

impl Holds {
    /// So many operands are enough for almost all operators.
    pub const FEW: usize = FEW;

    /// [`acquire`](Self::acquire) for [`FEW`](Self::FEW) operands at most; `places` says where they
    /// are.
    pub fn acquire_few(
        wanted: &[(&TensorBase, Access)],
        places: &mut [HeldPlace; FEW],
    ) -> Result<Self> {
        let mut found = [ptr::null(); FEW];
        if let Some(entered) = enter_biased(wanted, &mut found) {
            let Some(entered) = check_all(wanted, &found, entered)? else {
                return Self::acquire_few(wanted, places);
            };
            for ((place, &(tensor, mode)), &storage) in places.iter_mut().zip(wanted).zip(&found) {
                *place = Operand::new(tensor, storage, mode).place();
            }
            return Ok(Self { entered, kept: SmallVec::new() });
        }
        let set = AccessSet::acquire_waiting(wanted)?;
        for (place, operand) in places.iter_mut().zip(&set.operands) {
            *place = operand.place();
        }
        Ok(set.into_holds())
    }

    /// As [`AccessSet::acquire`]; the operands may go before the access does.
    #[inline(always)]
    pub fn acquire(wanted: &[(&TensorBase, Access)]) -> Result<Self> {
        let mut found = [ptr::null(); FEW];
        match enter_biased(wanted, &mut found) {
            Some(entered) => match check_all(wanted, &found, entered)? {
                Some(entered) => Ok(Self { entered, kept: SmallVec::new() }),
                None => Ok(AccessSet::acquire_waiting(wanted)?.into_holds()),
            },
            None => Ok(AccessSet::acquire_waiting(wanted)?.into_holds()),
        }
    }
}

/// Nothing: a program had to run before the access, and has. The storages must be entered again, then.
#[inline(always)]
fn check_all(
    wanted: &[(&TensorBase, Access)],
    found: &[*const StorageImpl],
    entered: Entered,
) -> Result<Option<Entered>> {
    for (&(tensor, mode), &storage) in wanted.iter().zip(found) {
        // SAFETY: the caller is inside of the storage, which keeps it alive; null means none.
        if let Some(storage) = unsafe { storage.as_ref() } {
            if storage.must_check(mode == Access::Write) {
                let modes = wanted.iter().map(|&(_, mode)| mode);
                let pending = super::enter::pending_of(modes, found);
                if !pending.is_empty() {
                    drop(entered);
                    run_programs(&pending)?;
                    return Ok(None);
                }
                storage.before_access(mode == Access::Write)?;
            }
            tensor.check_within(storage.nbytes())?;
            if storage.data_ptr().is_null() && tensor.numel() > 0 {
                return Err(no_data(tensor));
            }
        }
    }
    Ok(Some(entered))
}

/// A kernel was given a tensor of shapes only, beside one with data.
#[cold]
fn no_data(tensor: &TensorBase) -> Error {
    err!(
        Runtime,
        "Expected all tensors to be on the same device, but found one without data on {}",
        tensor.device()
    )
}

/// A tensor and its storage; mode and state are in the low bits of the storage's address.
#[derive(Debug)]
struct Operand<'a> {
    tensor: &'a TensorBase,
    storage: Cell<*const StorageImpl>,
}

/// The operand is declared written.
const WRITTEN: usize = 1;
/// A mutable slice was handed out.
const TAKEN: usize = 2;
/// A slice of an operand that is declared written was handed out.
const LENT: usize = 4;

const _: () =
    assert!(align_of::<StorageImpl>() > (WRITTEN | TAKEN | LENT), "the low bits are free");

impl<'a> AccessSet<'a> {
    /// Holds the storages of all operands, or none of them on error.
    ///
    /// Undefined tensors and tensors without a storage take part with a null pointer.
    #[inline(always)]
    pub fn acquire(wanted: &[(&'a TensorBase, Access)]) -> Result<Self> {
        let mut found = [ptr::null(); FEW];
        match enter_biased(wanted, &mut found) {
            Some(entered) => Self::after_entering(wanted, &found, entered),
            None => Self::acquire_waiting(wanted),
        }
    }

    #[cold]
    fn acquire_waiting(wanted: &[(&'a TensorBase, Access)]) -> Result<Self> {
        let (entered, found) = enter_waiting(wanted)?;
        Self::after_entering(wanted, &found, entered)
    }

    #[inline(always)]
    fn after_entering(
        wanted: &[(&'a TensorBase, Access)],
        found: &[*const StorageImpl],
        entered: Entered,
    ) -> Result<Self> {
        let mut operands = SmallVec::new();
        if wanted.len() > FEW {
            // Bounded: operands.
            operands.reserve(wanted.len());
        }
        let Some(entered) = check_all(wanted, found, entered)? else {
            return Self::acquire_waiting(wanted);
        };
        for (&(tensor, mode), &storage) in wanted.iter().zip(found) {
            operands.push(Operand::new(tensor, storage, mode));
        }
        Ok(Self { operands, entered })
    }

    /// Gives up the operands and keeps the access.
    pub fn into_holds(self) -> Holds {
        let Self { operands, entered } = self;
        let mut kept = SmallVec::new();
        if entered.is_counted() {
            // Leaving changes the counts, so the storages must outlast the tensors.
            kept.extend(operands.iter().filter_map(Operand::storage).map(Storage::from_ref));
        }
        Holds { entered, kept }
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
        let operand = self.operand(index)?;
        let shared_with_writer = self.sharing(operand).any(Operand::is_taken);
        ensure!(!shared_with_writer, Runtime, "operand {index} shares memory with a written one");
        let (data, len) = operand.contiguous::<T>()?;
        if operand.is_written() {
            operand.mark(LENT);
        }
        // SAFETY: `contiguous` has checked pointer, bounds, alignment and values; the storage is
        // entered, no mutable slice of it was handed out, and `write` hands out none of an operand that is
        // lent or shares its storage with another one.
        Ok(unsafe { slice::from_raw_parts(data, len) })
    }

    /// The elements of operand `index` for writing, once. It must be declared [`Access::Write`],
    /// be contiguous, of dtype `T`, and its storage must belong to no other operand.
    #[allow(clippy::mut_from_ref, reason = "each operand is handed out at most once")]
    pub fn write<T: Element>(&self, index: usize) -> Result<&mut [T]> {
        let operand = self.operand(index)?;
        operand.check_writable(index)?;
        ensure!(
            self.sharing(operand).count() <= 1,
            Runtime,
            "operand {index} shares its storage with another operand"
        );
        let (data, len) = operand.contiguous::<T>()?;
        ensure!(!operand.is_lent(), Runtime, "operand {index} is being read");
        ensure!(operand.take(), Runtime, "operand {index} was taken already");
        // SAFETY: as in `read`; the storage is entered for writing and this is its only slice.
        Ok(unsafe { slice::from_raw_parts_mut(data, len) })
    }

    /// An aligned pointer to the first element of operand `index`, of dtype `T`; null if it has no data.
    ///
    /// Dereferencing it is sound within the bounds of [`extent`](Self::extent), until the set is
    /// dropped.
    #[inline]
    pub fn read_ptr<T: Element>(&self, index: usize) -> Result<*const T> {
        let operand = self.operand(index)?;
        operand.check_dtype::<T>()?;
        aligned(operand.byte_ptr()).map(<*mut T>::cast_const)
    }

    /// As [`read_ptr`](Self::read_ptr), for writing: the operand must be declared written.
    #[inline]
    pub fn write_ptr<T: Element>(&self, index: usize) -> Result<*mut T> {
        let operand = self.operand(index)?;
        operand.check_writable(index)?;
        operand.check_dtype::<T>()?;
        aligned(operand.byte_ptr())
    }

    /// As [`read_ptr`](Self::read_ptr), without a dtype.
    #[inline]
    pub fn byte_ptr(&self, index: usize) -> *mut u8 {
        self.operands.get(index).map_or(ptr::null_mut(), Operand::byte_ptr)
    }

    /// Start and size in bytes of the storage of operand `index`.
    pub fn extent(&self, index: usize) -> (*mut u8, usize) {
        let storage = self.operands.get(index).and_then(Operand::storage);
        storage.map_or((ptr::null_mut(), 0), |storage| (storage.data_ptr(), storage.nbytes()))
    }

    /// Refuses an operand that is declared written, or shares its storage with one that is.
    pub(super) fn check_only_read(&self, index: usize) -> Result<()> {
        let operand = self.operand(index)?;
        let is_written = operand.is_written() || self.sharing(operand).any(Operand::is_written);
        ensure!(!is_written, Runtime, "operand {index} shares memory with a written one");
        Ok(())
    }

    /// Hands out an operand that is declared written and shares its storage with no other; once.
    pub(super) fn take_alone(&self, index: usize) -> Result<()> {
        let operand = self.operand(index)?;
        operand.check_writable(index)?;
        ensure!(
            self.sharing(operand).count() <= 1,
            Runtime,
            "operand {index} shares its storage with another operand"
        );
        ensure!(!operand.is_lent(), Runtime, "operand {index} is being read");
        ensure!(operand.take(), Runtime, "operand {index} was taken already");
        Ok(())
    }

    fn operand(&self, index: usize) -> Result<&Operand<'a>> {
        match self.operands.get(index) {
            Some(operand) => Ok(operand),
            None => bail!(Internal, "operand {index} of {}", self.operands.len()),
        }
    }

    /// All operands with the storage of one, that one included.
    fn sharing(&self, operand: &Operand<'a>) -> impl Iterator<Item = &Operand<'a>> {
        let storage = operand.storage_ptr();
        self.operands
            .iter()
            .filter(move |other| !storage.is_null() && ptr::eq(other.storage_ptr(), storage))
    }
}

/// The elements of an operand at any strides, within its storage.
pub(super) struct Strided {
    geometry: Geometry,
    data: *mut u8,
    dtype: DType,
}

impl Strided {
    /// Where the elements of operand `index` lie, which must be in host memory and have that rank.
    pub(super) fn new(set: &AccessSet<'_>, index: usize, rank: usize) -> Result<Self> {
        let operand = set.operand(index)?;
        let tensor = operand.tensor;
        ensure!(
            tensor.defined() && tensor.layout() == Layout::Strided && tensor.device().is_cpu(),
            Runtime,
            "TensorAccessor expected a strided tensor in host memory, but got {}",
            if tensor.defined() { tensor.device().to_string() } else { "none".to_owned() }
        );
        ensure!(
            !tensor.is_conj() && !tensor.is_neg(),
            Runtime,
            "TensorAccessor expected a tensor without a pending conjugation or negation: call \
             resolve_conj() and resolve_neg() first"
        );
        let geometry = tensor.geometry();
        let found = geometry.sizes.len();
        ensure!(
            found == rank,
            Runtime,
            "TensorAccessor expected {rank} dims but tensor has {found}"
        );
        let nbytes = match operand.storage() {
            Some(storage) if !storage.data_ptr().is_null() => storage.nbytes(),
            _ => 0,
        };
        let (sizes, strides) = (&geometry.sizes, &geometry.strides);
        // The geometry may be another than the one that was held.
        check_in_bounds(sizes, strides, geometry.storage_offset, tensor.itemsize(), nbytes)?;
        let base = operand.storage().map_or(ptr::null_mut(), StorageImpl::data_ptr);
        let offset = geometry.storage_offset as isize * tensor.itemsize() as isize;
        Ok(Self { data: base.wrapping_offset(offset), dtype: tensor.dtype(), geometry })
    }

    /// The first element, sizes and strides; all elements are within the storage.
    pub(super) fn elements<T: Element, const N: usize>(
        &self,
    ) -> Result<(*mut T, [usize; N], [isize; N])> {
        let (found, wanted) = (self.dtype, T::DTYPE);
        ensure!(found == wanted, Runtime, "expected scalar type {wanted} but found {found}");
        let Geometry { sizes, strides, .. } = &self.geometry;
        let sizes = std::array::from_fn(|dim| sizes[dim] as usize);
        let strides = std::array::from_fn(|dim| strides[dim] as isize);
        let is_empty = self.geometry.numel == 0;
        let data = if is_empty { NonNull::dangling().as_ptr() } else { aligned(self.data)? };
        Ok((data, sizes, strides))
    }
}

/// The address as that of elements, between whose places a buffer of the user's may hold them.
#[inline]
fn aligned<T: Element>(at: *mut u8) -> Result<*mut T> {
    let data: *mut T = at.cast();
    ensure!(
        data.is_aligned(),
        Runtime,
        "the data is not aligned for {}: it lies between the places of its dtype, where this operator \
         cannot read or write it; clone() the tensor first",
        T::DTYPE
    );
    Ok(data)
}

impl<'a> Operand<'a> {
    #[inline(always)]
    fn new(tensor: &'a TensorBase, storage: *const StorageImpl, mode: Access) -> Self {
        let flag = if mode == Access::Write { WRITTEN } else { 0 };
        Self { tensor, storage: Cell::new(storage.map_addr(|address| address | flag)) }
    }

    #[inline(always)]
    fn storage_ptr(&self) -> *const StorageImpl {
        self.storage.get().map_addr(|address| address & !(WRITTEN | TAKEN | LENT))
    }

    #[inline(always)]
    fn storage(&self) -> Option<&StorageImpl> {
        // SAFETY: the set is inside of the storage, which keeps it alive; null means none.
        unsafe { self.storage_ptr().as_ref() }
    }

    fn is_written(&self) -> bool {
        self.storage.get().addr() & WRITTEN != 0
    }

    fn is_taken(&self) -> bool {
        self.storage.get().addr() & TAKEN != 0
    }

    /// Marks the operand as handed out. `false`: it was before.
    fn take(&self) -> bool {
        let before = self.is_taken();
        self.mark(TAKEN);
        !before
    }

    fn is_lent(&self) -> bool {
        self.storage.get().addr() & LENT != 0
    }

    fn mark(&self, flag: usize) {
        self.storage.set(self.storage.get().map_addr(|address| address | flag));
    }

    #[inline]
    fn byte_ptr(&self) -> *mut u8 {
        let base = self.storage().map_or(ptr::null_mut(), StorageImpl::data_ptr);
        if base.is_null() {
            return base;
        }
        let offset = self.tensor.storage_offset() as isize * self.tensor.itemsize() as isize;
        base.wrapping_offset(offset)
    }

    #[inline(always)]
    fn place(&self) -> HeldPlace {
        let Some(storage) = self.storage() else { return HeldPlace::NONE };
        HeldPlace { start: self.byte_ptr(), storage: storage.data_ptr(), nbytes: storage.nbytes() }
    }

    fn check_writable(&self, index: usize) -> Result<()> {
        ensure!(self.is_written(), Runtime, "operand {index} is not declared written");
        Ok(())
    }

    #[inline]
    fn check_dtype<T: Element>(&self) -> Result<()> {
        let (found, wanted) = (self.tensor.dtype(), T::DTYPE);
        ensure!(found == wanted, Runtime, "expected scalar type {wanted} but found {found}");
        Ok(())
    }

    /// Pointer and length, after checking everything that a slice needs.
    fn contiguous<T: Element>(&self) -> Result<(*mut T, usize)> {
        self.check_dtype::<T>()?;
        let Some((len, offset)) = self.tensor.contiguous_extent() else {
            bail!(Runtime, "a slice needs a contiguous tensor");
        };
        ensure!(self.tensor.device().is_cpu(), Runtime, "the data is not in host memory");
        let len = len as usize;
        if len == 0 {
            return Ok((NonNull::dangling().as_ptr(), 0));
        }
        let (base, nbytes) = match self.storage() {
            Some(storage) if !storage.data_ptr().is_null() => {
                (storage.data_ptr(), storage.nbytes())
            }
            _ => bail!(Runtime, "Cannot access data pointer of Tensor that doesn't have storage"),
        };
        let start = usize::try_from(offset).ok();
        let end = start.and_then(|start| start.checked_add(len)?.checked_mul(size_of::<T>()));
        let within = end.is_some_and(|end| end <= nbytes);
        ensure!(within, Runtime, "the tensor reaches beyond its storage of {nbytes} bytes");
        let data = aligned::<T>(base.wrapping_add(offset as usize * size_of::<T>()))?;
        if T::DTYPE == DType::Bool && self.storage.get().addr() & WRITTEN != 0 {
            // SAFETY: the range was checked above; the storage is entered for writing.
            let bytes: &mut [u8] = unsafe { slice::from_raw_parts_mut(data.cast(), len) };
            // New memory holds anything, and is about to be written.
            bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        } else if T::DTYPE == DType::Bool {
            // SAFETY: the range was checked above, and bytes have no invalid values.
            check_bools(unsafe { slice::from_raw_parts(data.cast(), len) })?;
        }
        Ok((data, len))
    }
}

/// Bytes other than 0 and 1 are not valid bools in Rust.
fn check_bools(bytes: &[u8]) -> Result<()> {
    let valid = bytes.iter().fold(0, |seen, byte| seen | byte) <= 1;
    ensure!(valid, Runtime, "a bool tensor holds bytes other than 0 and 1");
    Ok(())
}
