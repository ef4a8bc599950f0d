//! Elements of strided tensors by their indices, for kernels.
//!
//! A [`TensorAccessor`] holds a tensor for reading and a [`TensorAccessorMut`] for writing, as
//! [`Reader`](super::Reader) and [`Writer`](super::Writer) do, but over any strides. The packed
//! forms, which both lend, have sizes and strides in themselves: they are sent to threads, and are
//! what is left when a leading index is fixed.

use super::packed::{PackedTensorAccessor, PackedTensorAccessorMut};
use super::set::{AccessSet, Strided};
use super::{Access, ElementIndex};
use crate::{DType, Element, Result, TensorBase, bail, ensure};
use std::ops::{Index, IndexMut};

/// The elements of a tensor of rank `N`, of any strides, held for reading.
///
/// Dtype, rank and device are checked when it is made, indices when elements are read.
///
/// ```
/// use corten_core::{DType, KeySet, Storage, TensorAccessor, TensorBase};
/// # use corten_core::{DeviceType, Layout};
///
/// # fn main() -> corten_core::Result<()> {
/// let storage = Storage::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let keys = KeySet::for_tensor(DeviceType::Cpu, Layout::Strided, DType::Float32);
/// let transposed = TensorBase::new_with_storage(storage, DType::Float32, keys, &[3, 2], &[1, 3], 0)?;
/// let a = TensorAccessor::<f32, 2>::new(&transposed)?;
/// assert_eq!(a[[0, 1]], 4.0);
/// assert_eq!(a.at(2)[1], 6.0);
/// assert_eq!(a.get([3, 0]), None);
/// assert!(TensorAccessor::<f64, 2>::new(&transposed).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TensorAccessor<'a, T, const N: usize> {
    /// Its lifetime is that of the tensor; it is lent for that of the set alone.
    packed: PackedTensorAccessor<'a, T, N>,
    #[allow(dead_code, reason = "dropping the set releases the storage")]
    set: AccessSet<'a>,
}

impl<'a, T: Element, const N: usize> TensorAccessor<'a, T, N> {
    /// Holds a tensor until the accessor is dropped.
    ///
    /// # Errors
    /// `Runtime` for a tensor of another dtype or rank, outside of host memory or with a pending conjugation
    /// or negation, and where this thread writes to its storage.
    pub fn new(tensor: &'a TensorBase) -> Result<Self> {
        let set = AccessSet::acquire(&[(tensor, Access::Read)])?;
        let strided = Strided::new(&set, 0, N)?;
        // SAFETY: the place was checked, and the set, which is kept, holds it for reading.
        let packed = unsafe { packed_of(&strided)? };
        Ok(Self { packed, set })
    }

    /// The accessor that threads share: sizes and strides are in it.
    pub fn packed(&self) -> PackedTensorAccessor<'_, T, N> {
        self.packed
    }

    /// The element of an index; nothing outside of the tensor.
    pub fn get<I: ElementIndex>(&self, index: [I; N]) -> Option<&T> {
        self.packed.get(index)
    }

    /// The sizes.
    pub fn sizes(&self) -> [usize; N] {
        self.packed.sizes()
    }

    /// The size of a dimension.
    ///
    /// # Panics
    /// When there is no such dimension.
    pub fn size(&self, dim: usize) -> usize {
        self.packed.size(dim)
    }

    /// The strides, in elements.
    pub fn strides(&self) -> [isize; N] {
        self.packed.strides()
    }
}

impl<T: Element, I: ElementIndex, const N: usize> Index<[I; N]> for TensorAccessor<'_, T, N> {
    type Output = T;

    fn index(&self, index: [I; N]) -> &T {
        &self.packed[index]
    }
}

/// The elements of a tensor of rank `N`, of any strides without overlap, held for writing.
///
/// What is written is not recorded: it is for kernels, which run below the gradients.
///
/// ```
/// use corten_core::{DType, KeySet, Storage, TensorAccessorMut, TensorBase};
/// # use corten_core::{DeviceType, Layout};
///
/// # fn main() -> corten_core::Result<()> {
/// let keys = KeySet::for_tensor(DeviceType::Cpu, Layout::Strided, DType::Int64);
/// let storage = Storage::from_vec(vec![0i64; 4]);
/// let tensor = TensorBase::new_with_storage(storage.clone(), DType::Int64, keys, &[2, 2], &[2, 1], 0)?;
/// let mut a = TensorAccessorMut::<i64, 2>::new(&tensor)?;
/// a[[0, 1]] = 5;
/// for (i, mut row) in a.packed_mut().rows().enumerate() {
///     row[0] = i as i64;
/// }
/// assert_eq!((a[[0, 1]], a[[1, 0]]), (5, 1));
/// drop(a);
/// // Rows that are one row: what is written to one would change the others.
/// let expanded = TensorBase::new_with_storage(storage, DType::Int64, keys, &[3, 2], &[0, 1], 0)?;
/// assert!(TensorAccessorMut::<i64, 2>::new(&expanded).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TensorAccessorMut<'a, T, const N: usize> {
    packed: PackedTensorAccessorMut<'a, T, N>,
    #[allow(dead_code, reason = "dropping the set releases the storage")]
    set: AccessSet<'a>,
}

impl<'a, T: Element, const N: usize> TensorAccessorMut<'a, T, N> {
    /// Holds a tensor until the accessor is dropped.
    ///
    /// # Errors
    /// As [`TensorAccessor::new`], and `Runtime` where indices may mean the same element, and where this
    /// thread reads its storage.
    pub fn new(tensor: &'a TensorBase) -> Result<Self> {
        let set = AccessSet::acquire(&[(tensor, Access::Write)])?;
        let strided = Strided::new(&set, 0, N)?;
        // SAFETY: the place was checked, and the set, which is kept, holds it for writing; its
        // only operand is handed out here.
        let packed = unsafe { packed_mut_of(&strided)? };
        Ok(Self { packed, set })
    }

    /// The accessor that is sent to a thread or split among threads.
    pub fn packed_mut(&mut self) -> PackedTensorAccessorMut<'_, T, N> {
        self.packed.reborrow()
    }

    /// The accessor that threads share while nobody writes.
    pub fn packed(&self) -> PackedTensorAccessor<'_, T, N> {
        self.packed.shared()
    }

    /// The element of an index; nothing outside of the tensor.
    pub fn get<I: ElementIndex>(&self, index: [I; N]) -> Option<&T> {
        self.packed.get(index)
    }

    /// The element of an index, to be changed; nothing outside of the tensor.
    pub fn get_mut<I: ElementIndex>(&mut self, index: [I; N]) -> Option<&mut T> {
        self.packed.get_mut(index)
    }

    /// The sizes.
    pub fn sizes(&self) -> [usize; N] {
        self.packed.sizes()
    }

    /// The size of a dimension.
    ///
    /// # Panics
    /// When there is no such dimension.
    pub fn size(&self, dim: usize) -> usize {
        self.packed.size(dim)
    }

    /// The strides, in elements.
    pub fn strides(&self) -> [isize; N] {
        self.packed.strides()
    }
}

impl<T: Element, I: ElementIndex, const N: usize> Index<[I; N]> for TensorAccessorMut<'_, T, N> {
    type Output = T;

    fn index(&self, index: [I; N]) -> &T {
        &self.packed[index]
    }
}

impl<T: Element, I: ElementIndex, const N: usize> IndexMut<[I; N]> for TensorAccessorMut<'_, T, N> {
    fn index_mut(&mut self, index: [I; N]) -> &mut T {
        &mut self.packed[index]
    }
}

impl AccessSet<'_> {
    /// The elements of operand `index`, which must have dtype `T`, rank `N` and be declared [`Access::Read`];
    /// any strides. Operands that are held together cannot wait for each other, as two accessors can.
    ///
    /// # Errors
    /// As [`TensorAccessor::new`]; `Runtime` where the operand, or another of its storage, is declared written.
    pub fn accessor<T: Element, const N: usize>(
        &self,
        index: usize,
    ) -> Result<PackedTensorAccessor<'_, T, N>> {
        self.check_only_read(index)?;
        // SAFETY: the place was checked, the set is borrowed, and none of its operands may write there.
        unsafe { packed_of(&Strided::new(self, index, N)?) }
    }

    /// The elements of operand `index` for writing, once: it must be declared [`Access::Write`], and its
    /// storage must belong to no other operand.
    ///
    /// # Errors
    /// As [`TensorAccessorMut::new`], and `Runtime` the second time.
    pub fn accessor_mut<T: Element, const N: usize>(
        &self,
        index: usize,
    ) -> Result<PackedTensorAccessorMut<'_, T, N>> {
        let strided = Strided::new(self, index, N)?;
        self.take_alone(index)?;
        // SAFETY: the place was checked, the set is borrowed, and this operand, the only one of its
        // storage, is handed out now and never again.
        unsafe { packed_mut_of(&strided) }
    }
}

/// An accessor of a place.
///
/// # Safety
/// The place is held for reading during `'h`.
unsafe fn packed_of<'h, T: Element, const N: usize>(
    strided: &Strided,
) -> Result<PackedTensorAccessor<'h, T, N>> {
    let (data, sizes, strides) = strided.elements::<T, N>()?;
    if T::DTYPE == DType::Bool {
        let mut is_valid = true;
        each_offset(&sizes, &strides, |offset| {
            // SAFETY: the offsets are those of the place's elements, which are bytes here.
            is_valid &= unsafe { *data.cast::<u8>().offset(offset) } <= 1;
        });
        ensure!(is_valid, Runtime, "a bool tensor holds bytes other than 0 and 1");
    }
    // SAFETY: the caller's, and the values were checked.
    Ok(unsafe { PackedTensorAccessor::new(data, sizes, strides) })
}

/// An accessor of a place, to write to.
///
/// # Safety
/// The place is held for writing during `'h`, by nobody else.
unsafe fn packed_mut_of<'h, T: Element, const N: usize>(
    strided: &Strided,
) -> Result<PackedTensorAccessorMut<'h, T, N>> {
    let (data, sizes, strides) = strided.elements::<T, N>()?;
    if may_overlap(&sizes, &strides) {
        bail!(
            Runtime,
            "unsupported operation: more than one element of the written-to tensor refers to a \
             single memory location. Please clone() the tensor before performing the operation."
        );
    }
    if T::DTYPE == DType::Bool {
        // New memory holds anything, and is about to be written.
        each_offset(&sizes, &strides, |offset| {
            // SAFETY: the offsets are those of the place's elements, which are bytes here.
            let byte = unsafe { &mut *data.cast::<u8>().offset(offset) };
            *byte = u8::from(*byte != 0);
        });
    }
    // SAFETY: the caller's; no two indices mean one element.
    Ok(unsafe { PackedTensorAccessorMut::new(data, sizes, strides) })
}

/// Whether two indices may mean one element: whether a stride is not beyond all that the smaller ones reach.
fn may_overlap<const N: usize>(sizes: &[usize; N], strides: &[isize; N]) -> bool {
    if sizes.contains(&0) {
        return false;
    }
    let mut steps: Vec<(usize, usize)> = (0..N)
        .filter(|&dim| sizes[dim] > 1)
        .map(|dim| (strides[dim].unsigned_abs(), sizes[dim]))
        .collect();
    steps.sort_unstable();
    let mut reach = 0;
    steps.iter().any(|&(stride, size)| {
        let overlaps = stride <= reach;
        reach += stride * (size - 1);
        overlaps
    })
}

/// Visits the offsets of all elements.
pub(super) fn each_offset<const N: usize>(
    sizes: &[usize; N],
    strides: &[isize; N],
    mut visit: impl FnMut(isize),
) {
    if sizes.contains(&0) {
        return;
    }
    let (mut index, mut offset) = ([0; N], 0);
    loop {
        visit(offset);
        let mut dim = N;
        loop {
            let Some(before) = dim.checked_sub(1) else { return };
            dim = before;
            index[dim] += 1;
            offset += strides[dim];
            if index[dim] < sizes[dim] {
                break;
            }
            offset -= strides[dim] * sizes[dim] as isize;
            index[dim] = 0;
        }
    }
}
