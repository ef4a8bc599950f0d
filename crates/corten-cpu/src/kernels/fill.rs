//! One number everywhere.

use crate::pointwise::inner_loop::element;
use crate::pointwise::steps::{self, FillStep};
use crate::rows::loops::compiled;
use crate::vec::stream::{CacheAligned, SHORTEST_RUN, Stream};
use corten_core::{Element, Result, Scalar, bug, match_dtype};
use corten_ops::iter::TensorIterator;
use corten_ops::parallel::GRAIN;

/// Writes the scalar to every element of the output.
///
/// # Errors
/// When access is refused.
pub fn fill(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let Some(&value) = scalars.first() else { bug!("fill needs a number") };
    if steps::is_recording() {
        let (dtype, element) = (iter.dtype(0), element(value, iter.dtype(0))?);
        steps::push(iter, FillStep { element, size: dtype.itemsize() })?;
    }
    match_dtype!(iter.dtype(0), "fill_cpu", All, T => fill_with(iter, T::from_scalar(value)))
}

fn fill_with<T: Element>(iter: &mut TensorIterator, value: T) -> Result<()> {
    let written = (iter.numel() as usize).saturating_mul(size_of::<T>());
    iter.for_each(
        |at, strides, n0, n1| {
            let size = size_of::<T>();
            let is_long = strides[0] == size as i64 && n0 as usize * size >= SHORTEST_RUN;
            let stream = Stream::of(written).filter(|_| is_long);
            let past = stream.map(|stream| (stream, CacheAligned([value; PATTERN])));
            for row in 0..n1 {
                let first = at[0].wrapping_offset((strides[1] * row) as isize);
                // SAFETY: the iterator vouches for `n0` elements of this dtype in the row.
                unsafe {
                    match &past {
                        Some((stream, own)) => repeat(stream, own, first.cast(), n0 as usize),
                        None => fill_row(first, strides[0], n0, value),
                    }
                }
            }
        },
        GRAIN,
    )
}

/// Elements that are written with non-temporal stores at once.
const PATTERN: usize = 1 << 10;

/// Writes the pattern with non-temporal stores, as often as it takes.
///
/// # Safety
/// The row must be writable for `n` elements.
unsafe fn repeat<T>(
    stream: &Stream,
    pattern: &CacheAligned<[T; PATTERN]>,
    first: *mut T,
    n: usize,
) {
    for start in (0..n).step_by(PATTERN) {
        let bytes = PATTERN.min(n - start) * size_of::<T>();
        // SAFETY: the caller's, of as many elements as are left.
        unsafe { stream.copy(pattern.0.as_ptr().cast(), first.add(start).cast(), bytes) };
    }
}

/// # Safety
/// The row must be writable for `n` elements of type `T`.
unsafe fn fill_row<T: Element>(first: *mut u8, stride: i64, n: i64, value: T) {
    if stride == size_of::<T>() as i64 && first.cast::<T>().is_aligned() {
        // SAFETY: the caller's; elements of plain old data need no initialised memory.
        let row = unsafe {
            std::slice::from_raw_parts_mut(first.cast::<std::mem::MaybeUninit<T>>(), n as usize)
        };
        let value = std::mem::MaybeUninit::new(value);
        return compiled(|| row.fill(value));
    }
    for i in 0..n {
        let place = first.wrapping_offset((stride * i) as isize).cast::<T>();
        // SAFETY: the caller's.
        unsafe { place.write_unaligned(value) };
    }
}
