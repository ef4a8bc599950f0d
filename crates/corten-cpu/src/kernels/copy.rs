//! Copies between any two layouts and dtypes.

use crate::copy::strided::{Rows, gather, scatter};
use crate::copy::transpose::copy_block;
use crate::pointwise::steps::{self, ConvertStep, CopyStep};
use crate::vec::convert::Conversion;
use crate::vec::stream::{CacheAligned, SHORTEST_RUN, Stream, streams};
use corten_core::{Result, Scalar, not_implemented_for};
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
    let written = written_past_caches(iter);
    if from == to {
        if steps::is_recording() {
            steps::push(iter, CopyStep(size))?;
        }
        return iter.for_each(
            |at, strides, n0, n1| {
                let (from, to) = blocks(at, strides);
                let (n0, n1) = (n0 as usize, n1 as usize);
                // SAFETY: the iterator vouches for the operands of this block, which share no
                // memory where they stream.
                unsafe {
                    match Stream::of(written).filter(|_| are_long(size, from, to, n0)) {
                        Some(stream) => stream_rows(&stream, from, to, n0 * size, n1),
                        None => copy_block(size, from, to, n0, n1),
                    }
                }
            },
            GRAIN,
        );
    }
    if let Some(stored_only) = [to, from].into_iter().find(|dtype| !dtype.is_numeric()) {
        return Err(not_implemented_for("copy_", stored_only));
    }
    if steps::is_recording() {
        steps::push(iter, ConvertStep::new(from, to))?;
    }
    let conversion =
        Converted { size, to_size: to.itemsize(), conversion: Conversion::new(from, to) };
    iter.for_each(
        |at, strides, n0, n1| {
            let (from, to) = blocks(at, strides);
            let stream = Stream::of(written);
            for row in 0..n1 {
                // SAFETY: as above.
                unsafe {
                    conversion.row(from.row(row), to.row(row), n0 as usize, stream.as_ref());
                }
            }
        },
        GRAIN,
    )
}

/// The bytes of the output if they may are stored non-temporally: no step reads what another writes.
fn written_past_caches(iter: &TensorIterator) -> usize {
    let written = iter.numel() as usize * iter.dtype(0).itemsize();
    if streams(written) && iter.parts_are_independent() { written } else { 0 }
}

/// Whether the elements of each row lie one after the other, in two different places, and are many.
fn are_long(size: usize, from: Rows, to: Rows, n0: usize) -> bool {
    let dense = from.inner == size as i64 && to.inner == size as i64;
    dense && from.at != to.at && n0 * size >= SHORTEST_RUN
}

/// # Safety
/// Both must be `n1` rows of `bytes` bytes each, and they must not overlap.
unsafe fn stream_rows(stream: &Stream, from: Rows, to: Rows, bytes: usize, n1: usize) {
    for row in 0..n1 as i64 {
        // SAFETY: the caller's.
        unsafe { stream.copy(from.row(row).at, to.row(row).at, bytes) };
    }
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
    /// Both rows must have `n` elements of their dtypes, and be apart if they are streamed.
    unsafe fn row(&self, from: Rows, to: Rows, n: usize, stream: Option<&Stream>) {
        let dense_from = from.inner == self.size as i64 || n == 1;
        let dense_to = to.inner == self.to_size as i64 || n == 1;
        let stream = stream.filter(|_| dense_to && n >= STEP);
        if dense_from && dense_to && stream.is_none() {
            // SAFETY: the caller's; tensors of two dtypes do not overlap.
            return unsafe { self.conversion.run(from.at, to.at, n) };
        }
        let mut room = [const { CacheAligned([[0u64; 2]; STEP]) }; 2];
        let [source, target] = room.each_mut().map(|room| room.0.as_mut_ptr().cast::<u8>());
        for start in (0..n).step_by(STEP) {
            let length = STEP.min(n - start);
            let (from, to) = (from.element(start), to.element(start));
            // SAFETY: the part lies within the rows, the buffers have room for any dtype.
            unsafe {
                let dense = match dense_from {
                    true => from.at.cast_const(),
                    false => {
                        gather(self.size, from, source, length, 1);
                        source.cast_const()
                    }
                };
                self.conversion.run(dense, target, length);
                match stream {
                    Some(stream) => stream.copy(target, to.at, length * self.to_size),
                    None => scatter(self.to_size, target, to, length, 1),
                }
            }
        }
    }
}
