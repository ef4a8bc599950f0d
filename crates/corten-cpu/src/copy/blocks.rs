//! Blocks of bytes from one dense tensor into places of another: what concatenation moves.

use crate::copy::strided::copy_bytes;
use crate::vec::stream::Stream;
use corten_core::{Access, AccessSet, Result, ensure};
use corten_ops::Tensor;
use corten_ops::parallel::{GRAIN, parallel_for};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// `count` blocks of `length` bytes, every `pitch` bytes in the source, and every `step` bytes from
/// byte `start` on in the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    pub(crate) count: usize,
    pub(crate) length: usize,
    pub(crate) pitch: usize,
    pub(crate) start: usize,
    pub(crate) step: usize,
}

/// Sources that need no memory to be kept in.
const FEW: usize = 5;

/// Bytes of the target that are written by all sources in turn.
const BAND: usize = 1 << 14;

/// Addresses that threads use for disjoint blocks.
#[derive(Clone, Copy)]
struct Ends(*const u8, *mut u8);

// SAFETY: `copy_blocks` holds both storages while the threads run, and each writes blocks of its own.
unsafe impl Send for Ends {}
// SAFETY: as above.
unsafe impl Sync for Ends {}

impl Ends {
    /// # Safety
    /// `length` bytes from `from` on must be readable, those from `to` on writable by this thread
    /// alone.
    #[inline(always)]
    unsafe fn copy(self, from: usize, to: usize, length: usize) {
        // SAFETY: the caller's; the tensors have different storages.
        unsafe { copy_bytes(self.0.add(from), self.1.add(to), length) }
    }

    /// Copies some of the blocks; lengths that the compiler knows become single loads and stores.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy), for each of the blocks.
    unsafe fn copy_some(self, blocks: &Blocks, range: Range<usize>) {
        let Blocks { length, pitch, start, step, .. } = *blocks;
        for block in range {
            let (from, to) = (block * pitch, start + block * step);
            // SAFETY: the caller's.
            unsafe {
                match length {
                    4 => self.copy(from, to, 4),
                    8 => self.copy(from, to, 8),
                    _ => self.copy(from, to, length),
                }
            }
        }
    }
}

/// Copies the blocks of tensors, as many of each, to a contiguous tensor with another storage.
///
/// # Errors
/// When access is refused, or the blocks do not lie within the tensors.
pub(crate) fn copy_blocks(sources: &[(&Tensor, Blocks)], target: &Tensor) -> Result<()> {
    let mut wanted: SmallVec<[_; FEW]> = smallvec![(target.base(), Access::Write)];
    wanted.extend(sources.iter().map(|(source, _)| (source.base(), Access::Read)));
    let held = AccessSet::acquire(&wanted)?;
    let room = |index: usize| {
        let (first, bytes) = held.extent(index);
        bytes.saturating_sub(held.byte_ptr(index).addr().wrapping_sub(first.addr()))
    };
    // Bounded: tensors.
    let mut ends: SmallVec<[_; FEW]> = SmallVec::with_capacity(sources.len());
    for (index, &(source, blocks)) in sources.iter().enumerate() {
        let Blocks { count, length, pitch, start, step } = blocks;
        if count == 0 || length == 0 {
            continue;
        }
        let last = (count - 1).saturating_mul(step).saturating_add(start).saturating_add(length);
        let read = (count - 1).saturating_mul(pitch).saturating_add(length);
        ensure!(
            read <= room(1 + index)
                && last <= room(0)
                && source.storage_key() != target.storage_key()
                && (count == 1 || length <= step)
                && count == sources[0].1.count,
            Internal,
            "{blocks:?} do not lie within the tensors"
        );
        ends.push((Ends(held.byte_ptr(1 + index).cast_const(), held.byte_ptr(0)), blocks));
    }
    let Some((_, Blocks { count, step, .. })) = ends.first() else { return Ok(()) };
    match *count {
        1 => copy_runs(&ends),
        count => copy_bands(&ends, count, *step),
    }
}

/// Copies a single block of each. Threads share the target, so that they start together once.
fn copy_runs(ends: &[(Ends, Blocks)]) -> Result<()> {
    let end = ends.iter().map(|(_, blocks)| blocks.start + blocks.length).max().unwrap_or(0);
    parallel_for(0..end as i64, GRAIN * 4, |range| {
        let stream = Stream::of(end);
        for &(ends, Blocks { start, length, .. }) in ends {
            let first = start.max(range.start as usize);
            let bytes = (start + length).min(range.end as usize).saturating_sub(first);
            if bytes > 0 {
                // SAFETY: the range lies in the only block of this source, whose bounds were checked,
                // and each is written once.
                unsafe {
                    match &stream {
                        Some(stream) => {
                            stream.copy(ends.0.add(first - start), ends.1.add(first), bytes);
                        }
                        None => ends.copy(first - start, first, bytes),
                    }
                }
            }
        }
        Ok(())
    })
}

/// Copies `count` blocks of each, as many at a time as leave the target's lines in the cache for
/// the blocks beside them.
fn copy_bands(ends: &[(Ends, Blocks)], count: usize, step: usize) -> Result<()> {
    let band = (BAND / step.max(1)).max(1);
    let grain = (GRAIN * 4 / step.max(1) as i64).max(1);
    parallel_for(0..count as i64, grain, |range| {
        let range = range.start as usize..range.end as usize;
        for first in range.clone().step_by(band) {
            for (ends, blocks) in ends {
                // SAFETY: the bounds of all blocks were checked, and their places are apart.
                unsafe { ends.copy_some(blocks, first..(first + band).min(range.end)) };
            }
        }
        Ok(())
    })
}
