//! Copies between any two layouts and dtypes.

use crate::strided::{Rows, gather, scatter};
use crate::tiles::copy_block;
use crate::vec::convert::Conversion;
use corten_core::{Result, Scalar};
use corten_ops::iter::TensorIterator;
use corten_ops::parallel::GRAIN;

/// Elements per step of a conversion between strided rows.
const STEP: usize = 256;

/// Copies input 0 to output 0, converting between their dtypes.
///
/// # Errors
/// When access is refused.
pub fn copy(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let (to, from) = (iter.dtype(0), iter.dtype(1));
    let size = from.itemsize();
    if from == to {
        return iter.for_each(
            |at, strides, n0, n1| {
                let (from, to) = blocks(at, strides);
                // SAFETY: the iterator vouches for the operands of this block.
                unsafe { copy_block(size, from, to, n0 as usize, n1 as usize) };
            },
            GRAIN,
        );
    }
    let conversion =
        Converted { size, to_size: to.itemsize(), conversion: Conversion::new(from, to) };
    iter.for_each(
        |at, strides, n0, n1| {
            let (from, to) = blocks(at, strides);
            for row in 0..n1 {
                // SAFETY: the iterator vouches for the operands of this block.
                unsafe { conversion.row(from.row(row), to.row(row), n0 as usize) };
            }
        },
        GRAIN,
    )
}

/// The rows of the source and of the target.
fn blocks(at: &[*mut u8], strides: &[i64]) -> (Rows, Rows) {
    let rows = |i: usize| Rows { at: at[i], inner: strides[i], outer: strides[i + 2] };
    (rows(1), rows(0))
}

/// A conversion with the sizes of the elements.
struct Converted {
    size: usize,
    to_size: usize,
    conversion: Conversion,
}

impl Converted {
    /// # Safety
    /// Both rows must have `n` elements of their dtypes.
    unsafe fn row(&self, from: Rows, to: Rows, n: usize) {
        let dense_from = from.inner == self.size as i64 || n == 1;
        let dense_to = to.inner == self.to_size as i64 || n == 1;
        if dense_from && dense_to {
            // SAFETY: the caller's; tensors of two dtypes do not overlap.
            return unsafe { self.conversion.run(from.at, to.at, n) };
        }
        let (mut source, mut target) = ([[0u64; 2]; STEP], [[0u64; 2]; STEP]);
        let (source, target) = (source.as_mut_ptr().cast::<u8>(), target.as_mut_ptr().cast::<u8>());
        for start in (0..n).step_by(STEP) {
            let length = STEP.min(n - start);
            let (from, to) = (from.element(start), to.element(start));
            // SAFETY: the part lies within the rows, the buffers have room for any dtype.
            unsafe {
                gather(self.size, from, source, length, 1);
                self.conversion.run(source, target, length);
                scatter(self.to_size, target, to, length, 1);
            }
        }
    }
}
