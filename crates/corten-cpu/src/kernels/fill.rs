//! One number everywhere.

use crate::row_loops::compiled;
use corten_core::{Element, Result, Scalar, bug, match_dtype};
use corten_ops::iter::TensorIterator;
use corten_ops::parallel::GRAIN;

/// Writes the scalar to every element of the output.
///
/// # Errors
/// When access is refused.
pub fn fill(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let Some(&value) = scalars.first() else { bug!("fill needs a number") };
    match_dtype!(iter.dtype(0), "fill_cpu", All, T => fill_with(iter, T::from_scalar(value)))
}

fn fill_with<T: Element>(iter: &mut TensorIterator, value: T) -> Result<()> {
    iter.for_each(
        |at, strides, n0, n1| {
            for row in 0..n1 {
                let first = at[0].wrapping_offset((strides[1] * row) as isize);
                // SAFETY: the iterator vouches for `n0` elements of this dtype in the row.
                unsafe { fill_row(first, strides[0], n0, value) };
            }
        },
        GRAIN,
    )
}

/// # Safety
/// The row must be writable for `n` elements of type `T`.
unsafe fn fill_row<T: Element>(first: *mut u8, stride: i64, n: i64, value: T) {
    if stride == size_of::<T>() as i64 {
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
        unsafe { place.write(value) };
    }
}
