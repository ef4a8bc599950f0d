//! Which buffers live when, and where their memory comes from.

use crate::ir::{BufferId, Program, Role};
use corten_core::{DataPtr, Result, Storage, get_allocator};
use smallvec::SmallVec;

/// Gives a storage memory if it has none.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn provide(storage: &Storage) -> Result<()> {
    let nbytes = storage.nbytes();
    if nbytes > 0 && storage.data_ptr().is_null() {
        let device = storage.device();
        let allocator = get_allocator(device.device_type)?;
        let fresh = match device.is_cpu() {
            true => allocator.allocate(nbytes)?,
            false => allocator.allocate_on(nbytes, device.index)?,
        };
        drop(storage.set_data_ptr(fresh, nbytes)?);
    }
    Ok(())
}

/// Takes the memory of a storage away, and leaves the size.
///
/// # Errors
/// When somebody is using it.
pub(crate) fn release(storage: &Storage) -> Result<()> {
    let nbytes = storage.nbytes();
    drop(storage.set_data_ptr(DataPtr::null(storage.device()), nbytes)?);
    Ok(())
}

/// The internal buffers that nothing uses after each step, given what the steps use.
pub(crate) fn last_uses<'a>(
    program: &Program,
    steps: impl DoubleEndedIterator<Item = &'a [BufferId]> + ExactSizeIterator,
) -> Vec<SmallVec<[BufferId; 2]>> {
    let mut seen = vec![false; program.buffers().len()];
    let mut dead: Vec<SmallVec<[BufferId; 2]>> = vec![SmallVec::new(); steps.len()];
    for (used, dead) in steps.rev().zip(dead.iter_mut().rev()) {
        for &buffer in used {
            let internal = program.buffer(buffer).role == Role::Internal;
            if internal && !std::mem::replace(&mut seen[buffer.index()], true) {
                dead.push(buffer);
            }
        }
    }
    dead
}

/// The most bytes that internal and output buffers hold at once, given what the steps use and what is dead
/// after each.
pub(crate) fn peak<'a>(
    program: &Program,
    steps: impl Iterator<Item = (&'a [BufferId], &'a [BufferId])>,
) -> usize {
    let mut held = vec![false; program.buffers().len()];
    let (mut now, mut peak) = (0, 0);
    for (used, dead) in steps {
        for &buffer in used {
            let fresh = program.buffer(buffer).role != Role::Input;
            if fresh && !std::mem::replace(&mut held[buffer.index()], true) {
                now += program.buffer(buffer).storage.nbytes();
            }
        }
        peak = peak.max(now);
        for &buffer in dead {
            now -= program.buffer(buffer).storage.nbytes();
        }
    }
    peak
}
