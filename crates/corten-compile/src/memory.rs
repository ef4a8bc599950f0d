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

/// Gives a storage without memory that of another one, which nobody reads any more. Says whether it did: not where
/// the memory is somebody else's, too.
///
/// # Errors
/// When somebody is using one of them.
pub(crate) fn take_over(from: &Storage, to: &Storage) -> Result<bool> {
    let nbytes = to.nbytes();
    let fits = to.data_ptr().is_null()
        && !from.data_ptr().is_null()
        && from.nbytes() == nbytes
        && from.is_resizable()
        && from.is_sole_owner()
        && !from.is_copy_on_write();
    if fits {
        let memory = from.set_data_ptr(DataPtr::null(from.device()), nbytes)?;
        drop(to.set_data_ptr(memory, nbytes)?);
    }
    Ok(fits)
}

/// The internal and consumed buffers that nothing uses after each step, given what the steps use.
pub(crate) fn last_uses<'a>(
    program: &Program,
    steps: impl DoubleEndedIterator<Item = &'a [BufferId]> + ExactSizeIterator,
) -> Vec<SmallVec<[BufferId; 2]>> {
    let mut seen = vec![false; program.buffers().len()];
    let mut dead: Vec<SmallVec<[BufferId; 2]>> = vec![SmallVec::new(); steps.len()];
    for (used, dead) in steps.rev().zip(dead.iter_mut().rev()) {
        for &buffer in used {
            let ends = program.buffer(buffer).role.ends_in_program();
            if ends && !std::mem::replace(&mut seen[buffer.index()], true) {
                dead.push(buffer);
            }
        }
    }
    dead
}

/// What a step does with memory.
pub(crate) struct StepMemory<'a> {
    pub(crate) used: &'a [BufferId],
    pub(crate) dead: &'a [BufferId],
    /// Buffers that take over the memory of others.
    pub(crate) takes: SmallVec<[(BufferId, BufferId); 1]>,
}

/// The most bytes that internal, output and consumed buffers hold at once.
pub(crate) fn peak<'a>(program: &Program, steps: impl Iterator<Item = StepMemory<'a>>) -> usize {
    let size = |buffer: BufferId| program.buffer(buffer).storage.nbytes();
    let buffers = program.buffers();
    let mut held: Vec<bool> = buffers.iter().map(|buffer| buffer.role.is_given()).collect();
    let consumed = buffers.iter().filter(|buffer| buffer.role == Role::Consumed);
    let mut now: usize = consumed.map(|buffer| buffer.storage.nbytes()).sum();
    let mut peak = now;
    for StepMemory { used, dead, takes } in steps {
        for &(to, from) in &takes {
            held[to.index()] = true;
            held[from.index()] = false;
        }
        let taken = |buffer: BufferId| takes.iter().any(|&(_, from)| from == buffer);
        for &buffer in used {
            if !taken(buffer) && !std::mem::replace(&mut held[buffer.index()], true) {
                now += size(buffer);
            }
        }
        peak = peak.max(now);
        for &buffer in dead {
            if std::mem::replace(&mut held[buffer.index()], false) {
                now -= size(buffer);
            }
        }
    }
    peak
}
