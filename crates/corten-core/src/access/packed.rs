//! Accessors that have sizes and strides in themselves.

use crate::Element;
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A whole number that is an index of an element.
///
/// ```
/// use corten_core::ElementIndex;
///
/// assert_eq!(2i64.below(3), Some(2));
/// assert_eq!((-1i64).below(3), None);
/// ```
pub trait ElementIndex: Copy + Debug {
    /// The index, if it is below a size.
    fn below(self, size: usize) -> Option<usize>;
}

macro_rules! element_indices {
    ($($int:ty)*) => {$(
        impl ElementIndex for $int {
            #[inline]
            fn below(self, size: usize) -> Option<usize> {
                usize::try_from(self).ok().filter(|&index| index < size)
            }
        }
    )*};
}

element_indices!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

/// The offset of an index in elements; nothing outside of the sizes.
#[inline]
fn offset_of<I: ElementIndex, const N: usize>(
    index: [I; N],
    sizes: &[usize; N],
    strides: &[isize; N],
) -> Option<isize> {
    let mut offset = 0;
    for dim in 0..N {
        offset += index[dim].below(sizes[dim])? as isize * strides[dim];
    }
    Some(offset)
}

#[cold]
#[track_caller]
fn outside<const N: usize>(index: &dyn Debug, sizes: &[usize; N]) -> ! {
    panic!("index {index:?} is out of bounds for an accessor of sizes {sizes:?}")
}

/// Elements of any strides that are held for reading, with sizes and strides by value: for threads, and
/// with a leading index fixed.
///
/// It is lent by [`TensorAccessor`](super::TensorAccessor) and [`AccessSet`](super::AccessSet).
///
/// ```
/// use corten_core::{AccessSet, Access, TensorAccessor, TensorBase, Storage};
/// # use corten_core::{DType, DeviceType, KeySet, Layout};
///
/// # fn main() -> corten_core::Result<()> {
/// # let keys = KeySet::for_tensor(DeviceType::Cpu, Layout::Strided, DType::Float64);
/// # let storage = Storage::from_vec(vec![1.0f64, 2.0, 3.0, 4.0]);
/// # let tensor = TensorBase::new_with_storage(storage, DType::Float64, keys, &[2, 2], &[2, 1], 0)?;
/// let held = TensorAccessor::<f64, 2>::new(&tensor)?;
/// let a = held.packed();
/// let sum = std::thread::scope(|threads| {
///     let halves = [0, 1].map(|row| threads.spawn(move || a.at(row)[0] + a.at(row)[1]));
///     halves.into_iter().filter_map(|half| half.join().ok()).sum::<f64>()
/// });
/// assert_eq!(sum, 10.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct PackedTensorAccessor<'h, T, const N: usize> {
    data: *const T,
    sizes: [usize; N],
    strides: [isize; N],
    held: PhantomData<&'h T>,
}

// SAFETY: it is a shared borrow of elements, which threads may share.
unsafe impl<T: Sync, const N: usize> Send for PackedTensorAccessor<'_, T, N> {}
// SAFETY: as above.
unsafe impl<T: Sync, const N: usize> Sync for PackedTensorAccessor<'_, T, N> {}

impl<'h, T: Element, const N: usize> PackedTensorAccessor<'h, T, N> {
    /// An accessor of valid elements.
    ///
    /// # Safety
    /// All elements within sizes and strides are valid and not written during `'h`.
    pub(super) unsafe fn new(data: *const T, sizes: [usize; N], strides: [isize; N]) -> Self {
        Self { data, sizes, strides, held: PhantomData }
    }

    /// The sizes.
    pub fn sizes(&self) -> [usize; N] {
        self.sizes
    }

    /// The size of a dimension.
    ///
    /// # Panics
    /// When there is no such dimension.
    #[track_caller]
    pub fn size(&self, dim: usize) -> usize {
        self.sizes[dim]
    }

    /// The strides, in elements.
    pub fn strides(&self) -> [isize; N] {
        self.strides
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The element of an index; nothing outside of the tensor.
    #[inline]
    pub fn get<I: ElementIndex>(&self, index: [I; N]) -> Option<&'h T> {
        let offset = offset_of(index, &self.sizes, &self.strides)?;
        // SAFETY: the index is within the sizes, whose elements are valid and held during `'h`.
        Some(unsafe { &*self.data.offset(offset) })
    }

    /// The element of an index.
    ///
    /// # Safety
    /// Every index is below the size of its dimension.
    #[inline]
    pub unsafe fn get_unchecked(&self, index: [usize; N]) -> &'h T {
        let mut offset = 0;
        for (dim, &at) in index.iter().enumerate() {
            debug_assert!(at < self.sizes[dim]);
            offset += at as isize * self.strides[dim];
        }
        // SAFETY: the caller's; the elements are held during `'h`.
        unsafe { &*self.data.offset(offset) }
    }
}

impl<T: Element, I: ElementIndex, const N: usize> Index<[I; N]> for PackedTensorAccessor<'_, T, N> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: [I; N]) -> &T {
        self.get(index).unwrap_or_else(|| outside(&index, &self.sizes))
    }
}

impl<T: Element> Index<usize> for PackedTensorAccessor<'_, T, 1> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: usize) -> &T {
        self.get([index]).unwrap_or_else(|| outside(&index, &self.sizes))
    }
}

impl<T, const N: usize> Debug for PackedTensorAccessor<'_, T, N> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (sizes, strides) = (&self.sizes, &self.strides);
        f.debug_struct("PackedTensorAccessor")
            .field("sizes", sizes)
            .field("strides", strides)
            .finish()
    }
}

/// Elements of any strides without overlap that are held for writing, with sizes and strides by value.
///
/// It is the only one of its elements: to share them, it is split by leading index ([`rows`](Self::rows),
/// `split_at`), or lent for reading ([`shared`](Self::shared)).
///
/// ```
/// use corten_core::{TensorAccessorMut, TensorBase, Storage};
/// # use corten_core::{DType, DeviceType, KeySet, Layout};
///
/// # fn main() -> corten_core::Result<()> {
/// # let keys = KeySet::for_tensor(DeviceType::Cpu, Layout::Strided, DType::Int32);
/// # let storage = Storage::from_vec(vec![0i32; 6]);
/// # let tensor = TensorBase::new_with_storage(storage, DType::Int32, keys, &[3, 2], &[2, 1], 0)?;
/// let mut held = TensorAccessorMut::<i32, 2>::new(&tensor)?;
/// let (mut first, mut rest) = held.packed_mut().split_at(1);
/// std::thread::scope(|threads| {
///     threads.spawn(move || first[[0, 0]] = 1);
///     threads.spawn(move || rest[[1, 1]] = 2);
/// });
/// assert_eq!((held[[0, 0]], held[[2, 1]]), (1, 2));
/// # Ok(())
/// # }
/// ```
pub struct PackedTensorAccessorMut<'h, T, const N: usize> {
    data: *mut T,
    sizes: [usize; N],
    strides: [isize; N],
    held: PhantomData<&'h mut T>,
}

// SAFETY: it is a unique borrow of elements, which may go to another thread.
unsafe impl<T: Send, const N: usize> Send for PackedTensorAccessorMut<'_, T, N> {}
// SAFETY: a shared reference to it reads elements only, which threads may share.
unsafe impl<T: Sync, const N: usize> Sync for PackedTensorAccessorMut<'_, T, N> {}

impl<'h, T: Element, const N: usize> PackedTensorAccessorMut<'h, T, N> {
    /// An accessor of valid elements.
    ///
    /// # Safety
    /// All elements within sizes and strides are valid, no two indices mean the same, and nobody else reads
    /// or writes them during `'h`.
    pub(super) unsafe fn new(data: *mut T, sizes: [usize; N], strides: [isize; N]) -> Self {
        Self { data, sizes, strides, held: PhantomData }
    }

    /// The sizes.
    pub fn sizes(&self) -> [usize; N] {
        self.sizes
    }

    /// The size of a dimension.
    ///
    /// # Panics
    /// When there is no such dimension.
    #[track_caller]
    pub fn size(&self, dim: usize) -> usize {
        self.sizes[dim]
    }

    /// The strides, in elements.
    pub fn strides(&self) -> [isize; N] {
        self.strides
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The same accessor for a shorter time.
    pub fn reborrow(&mut self) -> PackedTensorAccessorMut<'_, T, N> {
        PackedTensorAccessorMut { held: PhantomData, ..*self }
    }

    /// The accessor that is shared while nobody writes.
    pub fn shared(&self) -> PackedTensorAccessor<'_, T, N> {
        let Self { data, sizes, strides, .. } = *self;
        PackedTensorAccessor { data, sizes, strides, held: PhantomData }
    }

    /// The element of an index; nothing outside of the tensor.
    #[inline]
    pub fn get<I: ElementIndex>(&self, index: [I; N]) -> Option<&T> {
        self.shared().get(index)
    }

    /// The element of an index, to be changed; nothing outside of the tensor.
    #[inline]
    pub fn get_mut<I: ElementIndex>(&mut self, index: [I; N]) -> Option<&mut T> {
        let offset = offset_of(index, &self.sizes, &self.strides)?;
        // SAFETY: the index is within the sizes, whose elements are this accessor's alone.
        Some(unsafe { &mut *self.data.offset(offset) })
    }

    /// Writes one value to all elements.
    pub fn fill(&mut self, value: T) {
        let (sizes, strides, data) = (self.sizes, self.strides, self.data);
        super::accessor::each_offset(&sizes, &strides, |offset| {
            // SAFETY: the offsets are those of this accessor's elements, which are its alone.
            unsafe { *data.offset(offset) = value };
        });
    }
}

impl<T: Element, I: ElementIndex, const N: usize> Index<[I; N]>
    for PackedTensorAccessorMut<'_, T, N>
{
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: [I; N]) -> &T {
        self.get(index).unwrap_or_else(|| outside(&index, &self.sizes))
    }
}

impl<T: Element, I: ElementIndex, const N: usize> IndexMut<[I; N]>
    for PackedTensorAccessorMut<'_, T, N>
{
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: [I; N]) -> &mut T {
        let sizes = self.sizes;
        self.get_mut(index).unwrap_or_else(|| outside(&index, &sizes))
    }
}

impl<T: Element> Index<usize> for PackedTensorAccessorMut<'_, T, 1> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: usize) -> &T {
        self.get([index]).unwrap_or_else(|| outside(&index, &self.sizes))
    }
}

impl<T: Element> IndexMut<usize> for PackedTensorAccessorMut<'_, T, 1> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: usize) -> &mut T {
        let sizes = self.sizes;
        self.get_mut([index]).unwrap_or_else(|| outside(&index, &sizes))
    }
}

impl<T, const N: usize> Debug for PackedTensorAccessorMut<'_, T, N> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (sizes, strides) = (&self.sizes, &self.strides);
        f.debug_struct("PackedTensorAccessorMut")
            .field("sizes", sizes)
            .field("strides", strides)
            .finish()
    }
}

impl<'h, T: Element> PackedTensorAccessor<'h, T, 0> {
    /// The only element.
    pub fn value(&self) -> &'h T {
        // SAFETY: without sizes there is one element, held during `'h`.
        unsafe { &*self.data }
    }
}

impl<T: Element> PackedTensorAccessorMut<'_, T, 0> {
    /// The only element, to be changed.
    pub fn value_mut(&mut self) -> &mut T {
        // SAFETY: without sizes there is one element, this accessor's alone.
        unsafe { &mut *self.data }
    }
}

/// Accessors that are split by their leading index: those of rank 1 to 8.
///
/// ```
/// use corten_core::{LeadingRows, TensorAccessorMut, TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[2, 3], TensorOptions::default())?;
/// assert_eq!(TensorAccessorMut::<f32, 2>::new(&x)?.packed_mut().row_count(), 2);
/// # Ok::<(), corten_core::Error>(())
/// ```
pub trait LeadingRows {
    /// The accessor of one leading index.
    type Row;

    /// The leading size.
    fn row_count(&self) -> usize;

    /// The accessor of one leading index, from a shared reference: for loops over threads.
    ///
    /// # Safety
    /// The index is below [`row_count`](Self::row_count), no other row of the same index lives, and the
    /// accessor itself is not used while the row lives.
    unsafe fn row_alone(&self, index: usize) -> Self::Row;
}

macro_rules! leading {
    ($($rank:literal => $below:literal)*) => {$(
        impl<'h, T: Element> PackedTensorAccessor<'h, T, $rank> {
            /// The accessor of a leading index.
            ///
            /// # Panics
            /// Outside of the leading size.
            #[track_caller]
            pub fn at<I: ElementIndex>(&self, index: I) -> PackedTensorAccessor<'h, T, $below> {
                let Some(at) = index.below(self.sizes[0]) else { outside(&index, &self.sizes) };
                let (sizes, strides) = below(&self.sizes, &self.strides);
                let data = self.data.wrapping_offset(at as isize * self.strides[0]);
                PackedTensorAccessor { data, sizes, strides, held: PhantomData }
            }

            /// The accessors of all leading indices in order.
            pub fn rows(self) -> impl ExactSizeIterator<Item = PackedTensorAccessor<'h, T, $below>> {
                (0..self.sizes[0]).map(move |index| self.at(index))
            }
        }

        impl<'h, T: Element> PackedTensorAccessorMut<'h, T, $rank> {
            /// The accessor of a leading index, for reading.
            ///
            /// # Panics
            /// Outside of the leading size.
            #[track_caller]
            pub fn at<I: ElementIndex>(&self, index: I) -> PackedTensorAccessor<'_, T, $below> {
                self.shared().at(index)
            }

            /// The accessor of a leading index.
            ///
            /// # Panics
            /// Outside of the leading size.
            #[track_caller]
            pub fn at_mut<I: ElementIndex>(
                &mut self,
                index: I,
            ) -> PackedTensorAccessorMut<'_, T, $below> {
                let Some(at) = index.below(self.sizes[0]) else { outside(&index, &self.sizes) };
                // SAFETY: the index was checked, and the row borrows the accessor.
                unsafe { self.row_alone(at) }
            }

            /// The accessors of all leading indices in order; they may be kept beside each other.
            pub fn rows(
                self,
            ) -> impl ExactSizeIterator<Item = PackedTensorAccessorMut<'h, T, $below>> {
                // SAFETY: every index comes once, and the accessor was moved here.
                (0..self.sizes[0]).map(move |index| unsafe { self.row_alone(index) })
            }

            /// The accessors of the leading indices before one, and from it on.
            ///
            /// # Panics
            /// Beyond the leading size.
            #[track_caller]
            pub fn split_at(self, middle: usize) -> (Self, Self) {
                let Self { data, sizes, strides, .. } = self;
                let Some(rest) = sizes[0].checked_sub(middle) else { outside(&middle, &sizes) };
                let (mut first, mut second) = (sizes, sizes);
                (first[0], second[0]) = (middle, rest);
                let end = data.wrapping_offset(middle as isize * strides[0]);
                let first = Self { data, sizes: first, strides, held: PhantomData };
                (first, Self { data: end, sizes: second, strides, held: PhantomData })
            }
        }

        impl<'h, T: Element> LeadingRows for PackedTensorAccessorMut<'h, T, $rank> {
            type Row = PackedTensorAccessorMut<'h, T, $below>;

            fn row_count(&self) -> usize {
                self.sizes[0]
            }

            unsafe fn row_alone(&self, index: usize) -> Self::Row {
                let (sizes, strides) = below(&self.sizes, &self.strides);
                let data = self.data.wrapping_offset(index as isize * self.strides[0]);
                PackedTensorAccessorMut { data, sizes, strides, held: PhantomData }
            }
        }

        impl<T: Element> super::TensorAccessor<'_, T, $rank> {
            /// The accessor of a leading index.
            ///
            /// # Panics
            /// Outside of the leading size.
            #[track_caller]
            pub fn at<I: ElementIndex>(&self, index: I) -> PackedTensorAccessor<'_, T, $below> {
                self.packed().at(index)
            }
        }

        impl<T: Element> super::TensorAccessorMut<'_, T, $rank> {
            /// The accessor of a leading index, for reading.
            ///
            /// # Panics
            /// Outside of the leading size.
            #[track_caller]
            pub fn at<I: ElementIndex>(&self, index: I) -> PackedTensorAccessor<'_, T, $below> {
                self.packed().at(index)
            }
        }
    )*};
}

leading! { 1 => 0 2 => 1 3 => 2 4 => 3 5 => 4 6 => 5 7 => 6 8 => 7 }

/// Sizes and strides behind the leading ones.
fn below<const N: usize, const M: usize>(
    sizes: &[usize; N],
    strides: &[isize; N],
) -> ([usize; M], [isize; M]) {
    (std::array::from_fn(|dim| sizes[dim + 1]), std::array::from_fn(|dim| strides[dim + 1]))
}
