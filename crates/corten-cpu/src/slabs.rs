//! Blocks of bytes from one dense tensor into places of another: what concatenation moves.

use corten_core::{Access, AccessSet, Result, ensure};
use corten_ops::Tensor;
use corten_ops::parallel::{GRAIN, parallel_for};

/// `count` blocks of `length` bytes, one after another in the source, every `step` bytes from byte
/// `start` on in the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    pub(crate) count: usize,
    pub(crate) length: usize,
    pub(crate) start: usize,
    pub(crate) step: usize,
}

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
    unsafe fn copy(self, from: usize, to: usize, length: usize) {
        // SAFETY: the caller's; the tensors have different storages.
        unsafe { std::ptr::copy_nonoverlapping(self.0.add(from), self.1.add(to), length) }
    }
}

/// Copies the blocks of a contiguous tensor to a contiguous tensor with another storage.
///
/// # Errors
/// When access is refused, or the blocks do not lie within the tensors.
pub(crate) fn copy_blocks(source: &Tensor, target: &Tensor, blocks: Blocks) -> Result<()> {
    let Blocks { count, length, start, step } = blocks;
    if count == 0 || length == 0 {
        return Ok(());
    }
    let wanted = [(source.base(), Access::Read), (target.base(), Access::Write)];
    let held = AccessSet::acquire(&wanted)?;
    let room = |index: usize| {
        let (first, bytes) = held.extent(index);
        bytes.saturating_sub(held.byte_ptr(index).addr().wrapping_sub(first.addr()))
    };
    let last = (count - 1).saturating_mul(step).saturating_add(start).saturating_add(length);
    ensure!(
        count.saturating_mul(length) <= room(0)
            && last <= room(1)
            && source.storage_key() != target.storage_key()
            && (count == 1 || length <= step),
        Internal,
        "{blocks:?} do not lie within the tensors"
    );
    let ends = Ends(held.byte_ptr(0).cast_const(), held.byte_ptr(1));
    if count == 1 {
        return parallel_for(0..length as i64, GRAIN * 4, |range| {
            let (first, bytes) = (range.start as usize, (range.end - range.start) as usize);
            // SAFETY: the range lies in the only block, whose bounds were checked.
            unsafe { ends.copy(first, start + first, bytes) };
            Ok(())
        });
    }
    let grain = (GRAIN * 4 / length as i64).max(1);
    parallel_for(0..count as i64, grain, |range| {
        for block in range.start as usize..range.end as usize {
            // SAFETY: the bounds of all blocks were checked, and their places are apart.
            unsafe { ends.copy(block * length, start + block * step, length) };
        }
        Ok(())
    })
}
