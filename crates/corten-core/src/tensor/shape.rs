//! Sizes and strides in place, readable while another thread changes them.
//!
//! Note [Geometry seqlock]: `resize_`, `set_`, `t_` and `.data =` change a tensor in place while
//! other threads may look at it. Every field is an atomic word; a sequence number is odd while a
//! change is under way, and readers copy and start again if it moved. The number doubles as the
//! writers' lock. Shapes of more than five dimensions live in heap blocks, which a reader may still
//! hold the address of: they are never freed before the tensor dies, only reused. Rejected: a lock
//! per tensor (a locked instruction on each `sizes()`), and immutable shapes behind a shared
//! pointer (an allocation per view).
//!
//! Note [Shapes in place]: a new tensor's shape is filled where the tensor lies, by
//! `TensorImpl::place`. Moved there after its words were stored one by one, it would be read by
//! wider loads, which wait until the stores have reached the cache: that took as long as the rest
//! of making a tensor. A list of sizes is filled where it was declared, for the same reason.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering, fence};

use crate::Dims;
use crate::geometry::{DIMS_IN_PLACE, is_contiguous};

/// Dimensions that need no heap block.
pub(super) const INLINE: usize = 5;

/// Sizes, strides, offset and element count of a tensor at one moment.
///
/// ```
/// use corten_core::{TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[2, 3], TensorOptions::default())?;
/// let geometry = x.geometry();
/// assert!(geometry.is_contiguous());
/// assert_eq!(geometry.strides.to_vec(), [3, 1]);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The sizes.
    pub sizes: Dims,
    /// The strides, in elements.
    pub strides: Dims,
    /// Where the element with all indices zero lies in the storage, in elements.
    pub storage_offset: i64,
    /// The number of elements.
    pub numel: i64,
}

impl Geometry {
    /// That of a tensor without dimensions and elements, to be filled.
    pub const EMPTY: Self =
        Self { sizes: Dims::new_const(), strides: Dims::new_const(), storage_offset: 0, numel: 0 };

    /// Whether the last dimension varies fastest and there are no gaps.
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(&self.sizes, &self.strides, self.numel)
    }
}

/// A heap block: the capacity is half its length; sizes and strides lie side by side.
pub(super) type HeapDims = Box<[AtomicI64]>;

/// One word of sequence number and rank, then five sizes and five strides, or the address of a block.
#[derive(Debug)]
pub(super) struct SizesAndStrides {
    sequence: AtomicU32,
    rank: AtomicU32,
    slots: [AtomicI64; 2 * INLINE],
}

const _: () = assert!(size_of::<SizesAndStrides>() == 88, "see Note [TensorImpl size]");
const _: () = assert!(INLINE <= DIMS_IN_PLACE, "they are copied to lists in place");

impl SizesAndStrides {
    /// Shape `[0]`, stride `[1]`.
    pub(super) const fn new() -> Self {
        let mut slots = [const { AtomicI64::new(0) }; 2 * INLINE];
        slots[INLINE] = AtomicI64::new(1);
        Self { sequence: AtomicU32::new(0), rank: AtomicU32::new(1), slots }
    }

    /// Runs `read` until no change happened meanwhile. It must only load atomics.
    #[inline]
    pub(super) fn consistent<R>(&self, mut read: impl FnMut() -> R) -> R {
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            if before & 1 == 0 {
                let result = read();
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == before {
                    return result;
                }
            }
            std::hint::spin_loop();
        }
    }

    /// Becomes the only writer until the guard is dropped.
    pub(super) fn lock(&self) -> WriteGuard<'_> {
        loop {
            let before = self.sequence.load(Ordering::Relaxed);
            if before & 1 == 0
                && self
                    .sequence
                    .compare_exchange_weak(before, before | 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                // Later stores must not become visible before the odd number.
                fence(Ordering::Release);
                return WriteGuard { shape: self, next: before.wrapping_add(2) };
            }
            std::hint::spin_loop();
        }
    }

    /// Rank 0, to be filled: see Note [Shapes in place].
    pub(super) const fn empty() -> Self {
        let slots = [const { AtomicI64::new(0) }; 2 * INLINE];
        Self { sequence: AtomicU32::new(0), rank: AtomicU32::new(0), slots }
    }

    /// Takes over the words of another shape; what `read` returns belongs to them. Nothing if it has
    /// too many dimensions to lie here.
    #[inline(always)]
    pub(super) fn copy_from<R>(&mut self, other: &Self, mut read: impl FnMut() -> R) -> Option<R> {
        let (rank, rest) = other.consistent(|| {
            for (slot, word) in self.slots.iter_mut().zip(&other.slots) {
                *slot.get_mut() = word.load(Ordering::Relaxed);
            }
            (other.rank(), read())
        });
        *self.rank.get_mut() = rank as u32;
        (rank <= INLINE).then_some(rest)
    }

    /// Takes sizes without strides; nothing if there are more than five.
    #[inline(always)]
    pub(super) fn set_sizes(&mut self, sizes: &[i64]) -> Option<()> {
        for (slot, &size) in self.slots[..INLINE].get_mut(..sizes.len())?.iter_mut().zip(sizes) {
            *slot.get_mut() = size;
        }
        *self.rank.get_mut() = sizes.len() as u32;
        Some(())
    }

    /// Sets the strides, at most five, of a shape without.
    #[inline(always)]
    pub(super) fn set_strides(&mut self, strides: &[i64]) {
        for (slot, &stride) in self.slots[INLINE..].iter_mut().zip(strides) {
            *slot.get_mut() = stride;
        }
    }

    /// Takes a dimension out. Returns its size and stride, if there is such a dimension.
    #[inline(always)]
    pub(super) fn remove(&mut self, dim: usize) -> Option<(i64, i64)> {
        let rank = (*self.rank.get_mut() as usize).min(INLINE);
        if dim >= rank {
            return None;
        }
        let (sizes, strides) = self.slots.split_at_mut(INLINE);
        let removed = (*sizes[dim].get_mut(), *strides[dim].get_mut());
        for words in [sizes, strides] {
            words[dim..rank].rotate_left(1);
            *words[rank - 1].get_mut() = 0;
        }
        *self.rank.get_mut() -= 1;
        Some(removed)
    }

    /// Puts a dimension of size 1 before another one, or after all of them. Returns whether there is
    /// such a place, and room.
    #[inline(always)]
    pub(super) fn insert_one(&mut self, dim: usize) -> bool {
        let rank = *self.rank.get_mut() as usize;
        if dim > rank || rank >= INLINE {
            return false;
        }
        let (sizes, strides) = self.slots.split_at_mut(INLINE);
        let span = sizes[dim].get_mut().wrapping_mul(*strides[dim].get_mut());
        for (words, value) in [(sizes, 1), (strides, if dim < rank { span } else { 1 })] {
            words[dim..=rank].rotate_right(1);
            *words[dim].get_mut() = value;
        }
        *self.rank.get_mut() += 1;
        true
    }

    /// Gives a dimension another size and `step` times its stride. Returns both as they were, if there
    /// is such a dimension.
    #[inline(always)]
    pub(super) fn narrow(&mut self, dim: usize, length: i64, step: i64) -> Option<(i64, i64)> {
        let rank = (*self.rank.get_mut() as usize).min(INLINE);
        if dim >= rank {
            return None;
        }
        let (sizes, strides) = self.slots.split_at_mut(INLINE);
        let size = std::mem::replace(sizes[dim].get_mut(), length);
        let stride = *strides[dim].get_mut();
        *strides[dim].get_mut() = stride.wrapping_mul(step);
        Some((size, stride))
    }

    /// Exchanges two dimensions. Returns whether there are both.
    #[inline(always)]
    pub(super) fn swap(&mut self, a: usize, b: usize) -> bool {
        let rank = (*self.rank.get_mut() as usize).min(INLINE);
        let known = a < rank && b < rank;
        if known {
            self.slots.swap(a, b);
            self.slots.swap(INLINE + a, INLINE + b);
        }
        known
    }

    /// Takes the dimensions in another order. Returns whether `order` has each of at most five once.
    #[inline(always)]
    pub(super) fn permute(&mut self, order: &[usize]) -> bool {
        let rank = *self.rank.get_mut() as usize;
        if order.len() != rank || rank > INLINE {
            return false;
        }
        let mut before = [0; 2 * INLINE];
        for (word, slot) in before.iter_mut().zip(&mut self.slots) {
            *word = *slot.get_mut();
        }
        let mut seen = 0_u32;
        for (d, &from) in order.iter().enumerate() {
            if from >= rank || seen & 1 << from != 0 {
                return false;
            }
            seen |= 1 << from;
            *self.slots[d].get_mut() = before[from];
            *self.slots[INLINE + d].get_mut() = before[INLINE + from];
        }
        true
    }

    /// Takes larger sizes for dimensions of size 1, -1 for a size that stays, and further dimensions,
    /// repeated, before the others. Returns whether all of it is possible and there is room; not for
    /// further dimensions of size 1.
    #[inline(always)]
    pub(super) fn expand(&mut self, wanted: &[i64]) -> bool {
        let rank = *self.rank.get_mut() as usize;
        if wanted.len() < rank || wanted.len() > INLINE {
            return false;
        }
        let further = wanted.len() - rank;
        for words in [0, INLINE] {
            self.slots[words..words + wanted.len()].rotate_right(further);
        }
        let (sizes, strides) = self.slots.split_at_mut(INLINE);
        for (d, &wanted) in wanted.iter().enumerate() {
            let (size, stride) = (sizes[d].get_mut(), strides[d].get_mut());
            let stays = d >= further && (wanted == -1 || wanted == *size);
            let grows = if d < further { wanted != 1 } else { *size == 1 };
            if !stays {
                if !grows || wanted < 0 {
                    return false;
                }
                (*size, *stride) = (wanted, 0);
            }
        }
        *self.rank.get_mut() = wanted.len() as u32;
        true
    }

    /// The number of elements, if it can be counted.
    #[inline(always)]
    pub(super) fn checked_numel(&mut self) -> Option<i64> {
        let rank = (*self.rank.get_mut() as usize).min(INLINE);
        self.slots[..rank].iter_mut().try_fold(1_i64, |n, size| n.checked_mul(*size.get_mut()))
    }

    /// The size of one of at most five dimensions.
    #[inline]
    pub(super) fn size_at(&self, dim: usize) -> Option<i64> {
        self.consistent(|| {
            let rank = self.rank();
            (dim < rank && rank <= INLINE).then(|| self.slots[dim].load(Ordering::Relaxed))
        })
    }

    /// The sizes and strides of a matrix; nothing for another rank.
    #[inline]
    pub(super) fn of_matrix(&self) -> Option<([i64; 2], [i64; 2])> {
        let pair = |at: usize| [at, at + 1].map(|at| self.slots[at].load(Ordering::Relaxed));
        self.consistent(|| (self.rank() == 2).then(|| (pair(0), pair(INLINE))))
    }

    /// The size and stride of a vector; nothing for another rank. To be asked within `consistent`.
    #[inline]
    pub(super) fn of_vector(&self) -> Option<(i64, i64)> {
        let slot = |at: usize| self.slots[at].load(Ordering::Relaxed);
        (self.rank() == 1).then(|| (slot(0), slot(INLINE)))
    }

    /// Takes the strides of a fresh tensor. Returns the number of elements, and whether the strides
    /// were those before; nothing if a size is below 1 or there are more than can be counted.
    #[inline(always)]
    pub(super) fn make_contiguous(&mut self) -> Option<(i64, bool)> {
        let rank = (*self.rank.get_mut() as usize).min(INLINE);
        let (sizes, strides) = self.slots.split_at_mut(INLINE);
        let (mut next, mut as_before) = (1_i64, true);
        for (size, stride) in sizes[..rank].iter_mut().zip(&mut strides[..rank]).rev() {
            as_before &= std::mem::replace(stride.get_mut(), next) == next;
            let size = *size.get_mut();
            if size <= 0 {
                return None;
            }
            next = next.checked_mul(size)?;
        }
        Some((next, as_before))
    }

    /// Replaces the one size that is -1, so that there are `numel` elements. Returns whether there is
    /// one and such a size for it; the others must be positive.
    pub(super) fn infer_size(&mut self, numel: i64) -> bool {
        let rank = (*self.rank.get_mut() as usize).min(INLINE);
        let (mut others, mut unknown) = (1_i64, None);
        for slot in self.slots[..rank].iter_mut().map(AtomicI64::get_mut) {
            match *slot {
                -1 if unknown.is_none() => unknown = Some(slot),
                size if size > 0 => others = others.saturating_mul(size),
                _ => return false,
            }
        }
        let Some(unknown) = unknown.filter(|_| numel % others == 0) else { return false };
        *unknown = numel / others;
        true
    }

    /// Whether the sizes are those of another shape of at most five dimensions.
    #[inline]
    pub(super) fn has_sizes_of(&self, other: &Self) -> bool {
        let same = |rank: usize| {
            let words = self.slots.iter().zip(&other.slots).take(rank);
            words.fold(true, |same, (a, b)| {
                same & (a.load(Ordering::Relaxed) == b.load(Ordering::Relaxed))
            })
        };
        self.consistent(|| {
            other.consistent(|| {
                let rank = self.rank();
                rank == other.rank() && rank <= INLINE && same(rank)
            })
        })
    }

    #[inline]
    pub(super) fn rank(&self) -> usize {
        self.rank.load(Ordering::Relaxed) as usize
    }

    /// The words of sizes and strides of more than five dimensions, given a rank read in the same
    /// consistent section.
    ///
    /// The result may be out of date but never dangles.
    fn words(&self, rank: usize) -> Option<(&[AtomicI64], &[AtomicI64])> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let address = self.slots[0].load(Ordering::Relaxed);
        let same_rank = self.rank() == rank;
        fence(Ordering::Acquire);
        // Rank and address belong together only if no writer was active between the two loads.
        let settled = sequence & 1 == 0 && self.sequence.load(Ordering::Relaxed) == sequence;
        if !settled || !same_rank {
            return None;
        }
        let words = std::ptr::with_exposed_provenance::<AtomicI64>(address as usize);
        // SAFETY: a published block is freed only with the tensor and has room for at least the
        // rank that was published with it. See Note [Geometry seqlock].
        let block = unsafe { std::slice::from_raw_parts(words, 2 * rank) };
        Some(block.split_at(rank))
    }

    #[inline(always)]
    pub(super) fn copy_sizes(&self, dims: &mut Dims) {
        self.consistent(|| self.copy_words(dims, 0));
    }

    #[inline(always)]
    pub(super) fn sizes(&self) -> Dims {
        let mut dims = Dims::new_const();
        self.copy_sizes(&mut dims);
        dims
    }

    /// Copies the words of at most five sizes, all of them, and returns the rank.
    #[inline(always)]
    pub(super) fn copy_few_sizes(&self, sizes: &mut [i64; INLINE]) -> Option<usize> {
        let rank = self.consistent(|| {
            for (size, word) in sizes.iter_mut().zip(&self.slots[..INLINE]) {
                *size = word.load(Ordering::Relaxed);
            }
            self.rank()
        });
        (rank <= INLINE).then_some(rank)
    }

    #[inline(always)]
    pub(super) fn copy_strides(&self, dims: &mut Dims) {
        self.consistent(|| self.copy_words(dims, INLINE));
    }

    #[inline(always)]
    pub(super) fn strides(&self) -> Dims {
        let mut dims = Dims::new_const();
        self.copy_strides(&mut dims);
        dims
    }

    #[inline(always)]
    pub(super) fn copy_both(&self, sizes: &mut Dims, strides: &mut Dims) {
        self.copy_words(sizes, 0);
        self.copy_words(strides, INLINE);
    }

    /// Copies the sizes, whose slots start at 0, or the strides, in place: see Note [Shapes in place].
    #[inline(always)]
    fn copy_words(&self, dims: &mut Dims, first: usize) {
        let rank = self.rank();
        if rank > INLINE {
            *dims = self.copy_of_many(rank, first == 0);
            return;
        }
        let place = dims.as_mut_ptr();
        // All of them: a loop that knows its length needs no branches.
        for (d, word) in self.slots[first..first + INLINE].iter().enumerate() {
            // SAFETY: there is room for `DIMS_IN_PLACE` at least, and `d` is below `INLINE`.
            unsafe { place.add(d).write(word.load(Ordering::Relaxed)) };
        }
        // SAFETY: so many were written.
        unsafe { dims.set_len(rank) };
    }

    #[cold]
    fn copy_of_many(&self, rank: usize, sizes: bool) -> Dims {
        let Some(words) = self.words(rank) else { return Dims::new() };
        let words = if sizes { words.0 } else { words.1 };
        words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

/// The right to change a shape; ends the change when dropped.
pub(super) struct WriteGuard<'a> {
    shape: &'a SizesAndStrides,
    next: u32,
}

impl WriteGuard<'_> {
    /// Stores a new shape. `blocks` are the tensor's heap blocks: one with enough room is reused.
    pub(super) fn store(&self, blocks: &mut Vec<HeapDims>, sizes: &[i64], strides: &[i64]) {
        let (shape, rank) = (self.shape, sizes.len());
        if rank <= INLINE {
            store_words(&shape.slots[..INLINE], sizes);
            store_words(&shape.slots[INLINE..], strides);
        } else {
            let block = match blocks.iter().find(|block| block.len() >= 2 * rank) {
                Some(block) => block,
                None => {
                    blocks.push(new_block(rank));
                    &blocks[blocks.len() - 1]
                }
            };
            store_words(&block[..rank], sizes);
            store_words(&block[rank..], strides);
            shape.slots[0].store(address(block), Ordering::Relaxed);
        }
        shape.rank.store(rank as u32, Ordering::Relaxed);
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.shape.sequence.store(self.next, Ordering::Release);
    }
}

fn new_block(capacity: usize) -> HeapDims {
    (0..2 * capacity).map(|_| AtomicI64::new(0)).collect()
}

fn address(block: &HeapDims) -> i64 {
    block.as_ptr().expose_provenance() as i64
}

fn store_words(words: &[AtomicI64], values: &[i64]) {
    for (word, &value) in words.iter().zip(values) {
        word.store(value, Ordering::Relaxed);
    }
}
