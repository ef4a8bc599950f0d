//! Where the results of reductions go.

use crate::vec::convert::Conversion;
use corten_core::{DType, Element};
use std::mem::MaybeUninit;

/// Columns that are folded at a time: as many of the widest elements as a buffer has room for.
pub(crate) const COLUMNS: usize = 256;

/// One or two results of a fold.
pub(crate) trait Results {
    /// Their dtypes.
    const DTYPES: &'static [DType];
    /// Stores some, the first of them at the places and the others behind it at the strides.
    ///
    /// # Safety
    /// Each place must be writable for as many elements of its tensor: those of the result's dtype, or
    /// what its conversion makes of them.
    unsafe fn store_row(
        row: impl ExactSizeIterator<Item = Self> + Clone,
        places: &[OutputRow],
        conversions: &[Option<Conversion>],
    ) where
        Self: Sized;
}

/// Where results go: the first address, the stride, and the size of an element, in bytes.
pub(crate) struct OutputRow {
    pub(crate) first: *mut u8,
    pub(crate) stride: i64,
    pub(crate) size: usize,
}

/// # Safety
/// The place must be writable for as many elements of the conversion's target.
unsafe fn store_run<T: Element>(
    values: impl ExactSizeIterator<Item = T>,
    place: &OutputRow,
    conversion: Option<Conversion>,
) {
    let dense = place.stride == place.size as i64;
    let at = |i: usize| place.first.wrapping_offset((place.stride * i as i64) as isize);
    let Some(conversion) = conversion else {
        for (i, value) in values.enumerate() {
            let to = if dense { place.first.cast::<T>().wrapping_add(i) } else { at(i).cast() };
            // SAFETY: the caller's.
            unsafe { to.write_unaligned(value) };
        }
        return;
    };
    let count = values.len().min(COLUMNS);
    let mut run = [MaybeUninit::<T>::uninit(); COLUMNS];
    for (slot, value) in run.iter_mut().zip(values) {
        slot.write(value);
    }
    if dense {
        // SAFETY: that many were written; the caller's.
        return unsafe { conversion.run(run.as_ptr().cast(), place.first, count) };
    }
    for (i, value) in run[..count].iter().enumerate() {
        // SAFETY: the value was written; the caller's.
        unsafe { conversion.run(value.as_ptr().cast(), at(i), 1) };
    }
}

impl<A: Element> Results for (A,) {
    const DTYPES: &'static [DType] = &[A::DTYPE];
    unsafe fn store_row(
        row: impl ExactSizeIterator<Item = Self> + Clone,
        places: &[OutputRow],
        conversions: &[Option<Conversion>],
    ) {
        // SAFETY: the caller's.
        unsafe { store_run(row.map(|results| results.0), &places[0], conversions[0]) };
    }
}

impl<A: Element, B: Element> Results for (A, B) {
    const DTYPES: &'static [DType] = &[A::DTYPE, B::DTYPE];
    unsafe fn store_row(
        row: impl ExactSizeIterator<Item = Self> + Clone,
        places: &[OutputRow],
        conversions: &[Option<Conversion>],
    ) {
        // SAFETY: the caller's.
        unsafe {
            store_run(row.clone().map(|results| results.0), &places[0], conversions[0]);
            store_run(row.map(|results| results.1), &places[1], conversions[1]);
        }
    }
}

/// An element and its place, or the place alone where there is one output.
pub(crate) struct Found<T>(pub(crate) T, pub(crate) i64);

impl<T: Element> Results for Found<T> {
    const DTYPES: &'static [DType] = &[T::DTYPE, DType::Int64];
    unsafe fn store_row(
        row: impl ExactSizeIterator<Item = Self> + Clone,
        places: &[OutputRow],
        conversions: &[Option<Conversion>],
    ) {
        let ([.., last], [.., conversion]) = (places, conversions) else { return };
        // SAFETY: the caller's.
        unsafe {
            store_run(row.clone().map(|found| found.1), last, *conversion);
            if places.len() > 1 {
                store_run(row.map(|found| found.0), &places[0], conversions[0]);
            }
        }
    }
}
