//! Elements side by side, held together: what a loop over dense operands needs.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::AtomicPtr;

use super::Access;
use super::enter::{Entered, FEW, Wanted, enter_biased, enter_waiting, pending_of};
use crate::storage::run_programs;
use crate::{Result, StorageImpl, TensorBase};

/// A tensor, what for, and how many bytes from its first element on.
pub type WantedBlock<'a> = (&'a TensorBase, Access, usize);

impl Wanted for WantedBlock<'_> {
    #[inline(always)]
    fn source(&self) -> &AtomicPtr<StorageImpl> {
        self.0.storage_source()
    }
    #[inline(always)]
    fn flag(&self) -> usize {
        self.1.flag()
    }
}

/// Bytes of up to four tensors, held until it is dropped, by the same thread.
///
/// ```
/// use corten_core::{Access, Blocks, TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[3], TensorOptions::default())?;
/// let mut blocks = Blocks::none();
/// assert!(blocks.acquire(&[(&x, Access::Read, 12)])?);
/// assert!(!blocks.address(0).is_null());
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Blocks<'a> {
    addresses: [*mut u8; FEW],
    /// Leaving touches the storages, which the tensors keep.
    tensors: PhantomData<&'a TensorBase>,
    entered: Option<Entered>,
}

impl<'a> Blocks<'a> {
    /// Nothing yet.
    #[inline(always)]
    pub const fn none() -> Self {
        Self { addresses: [ptr::null_mut(); FEW], tensors: PhantomData, entered: None }
    }

    /// Holds the storages of all tensors, or none of them, instead of what was held. `false`: there
    /// are more than four, or one has no memory for so many bytes, whatever its sizes say.
    ///
    /// # Errors
    /// When the calling thread already holds a storage in a conflicting way, and when a storage
    /// refuses access.
    // In place: returned as a value, the addresses would be moved by wider loads than they were
    // stored with, which wait until the stores have reached the cache.
    #[inline(always)]
    pub fn acquire(&mut self, wanted: &[WantedBlock<'a>]) -> Result<bool> {
        self.entered = None;
        let mut found = [ptr::null(); FEW];
        match enter_biased(wanted, &mut found) {
            Some(entered) => self.after_entering(wanted, &found, entered),
            None => self.acquire_waiting(wanted),
        }
    }

    #[cold]
    fn acquire_waiting(&mut self, wanted: &[WantedBlock<'a>]) -> Result<bool> {
        if wanted.len() > FEW {
            return Ok(false);
        }
        let (entered, found) = enter_waiting(wanted)?;
        self.after_entering(wanted, &found, entered)
    }

    #[inline(always)]
    fn after_entering(
        &mut self,
        wanted: &[WantedBlock<'a>],
        found: &[*const StorageImpl],
        entered: Entered,
    ) -> Result<bool> {
        for ((&(tensor, mode, nbytes), &storage), address) in
            wanted.iter().zip(found).zip(&mut self.addresses)
        {
            // SAFETY: this thread is inside of the storage, which keeps it alive; null means none.
            let Some(storage) = (unsafe { storage.as_ref() }) else { return Ok(false) };
            if storage.must_check(mode == Access::Write) {
                return self.after_checks(wanted, found, entered);
            }
            match block(tensor, storage, nbytes) {
                Some(start) => *address = start,
                None => return Ok(false),
            }
        }
        self.entered = Some(entered);
        Ok(true)
    }

    /// As [`after_entering`](Self::after_entering), where a storage has checks. All of them come before the
    /// first address: one may give a storage other memory.
    #[cold]
    fn after_checks(
        &mut self,
        wanted: &[WantedBlock<'a>],
        found: &[*const StorageImpl],
        entered: Entered,
    ) -> Result<bool> {
        // SAFETY: this thread is inside of the storages, which keeps them alive; null means none.
        let storages = || found[..wanted.len()].iter().map(|&storage| unsafe { storage.as_ref() });
        let pending = pending_of(wanted.iter().map(|&(_, mode, _)| mode), found);
        if !pending.is_empty() {
            drop(entered);
            run_programs(&pending)?;
            return self.acquire_waiting(wanted);
        }
        for (&(_, mode, _), storage) in wanted.iter().zip(storages()) {
            let Some(storage) = storage else { return Ok(false) };
            storage.before_access(mode == Access::Write)?;
        }
        let blocks = wanted.iter().zip(storages()).zip(&mut self.addresses);
        for ((&(tensor, _, nbytes), storage), address) in blocks {
            match storage.and_then(|storage| block(tensor, storage, nbytes)) {
                Some(start) => *address = start,
                None => return Ok(false),
            }
        }
        self.entered = Some(entered);
        Ok(true)
    }

    /// Where the bytes of tensor `index` start; they may be read, or read and written, as asked for,
    /// while they are held.
    #[inline(always)]
    pub fn address(&self, index: usize) -> *mut u8 {
        self.addresses[index]
    }
}

/// The first element of a tensor, if `nbytes` bytes from there on lie in its storage.
#[inline(always)]
fn block(tensor: &TensorBase, storage: &StorageImpl, nbytes: usize) -> Option<*mut u8> {
    let offset = tensor.storage_offset() as usize;
    let start = offset.checked_mul(tensor.itemsize())?;
    let within = start.checked_add(nbytes)? <= storage.nbytes();
    let data = storage.data_ptr();
    (within && !data.is_null()).then(|| data.wrapping_add(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn blocks_lie_within_their_storages() -> Result<()> {
        let tensor = TensorBase::empty(&[4, 2], DType::Float32)?;
        let row = tensor.as_view_of(&[2], &[1], 6)?;
        let start = tensor.storage()?.data_ptr();
        let mut held = Blocks::none();
        assert!(held.acquire(&[(&tensor, Access::Write, 32), (&row, Access::Read, 8)])?);
        assert_eq!(held.address(0), start);
        assert_eq!(held.address(1), start.wrapping_add(24));
        drop(held);
        assert!(!Blocks::none().acquire(&[(&row, Access::Read, 9)])?);
        assert!(!Blocks::none().acquire(&[(&tensor, Access::Read, usize::MAX)])?);
        let beyond = tensor.as_view_of(&[1], &[1], -1)?;
        assert!(!Blocks::none().acquire(&[(&beyond, Access::Read, 4)])?);
        let nothing = TensorBase::undefined();
        assert!(!Blocks::none().acquire(&[(&nothing, Access::Read, 0)])?);
        assert!(!Blocks::none().acquire(&[(&row, Access::Read, 4); 5])?);
        Ok(())
    }

    #[test]
    fn held_blocks_exclude_others() -> Result<()> {
        let tensor = TensorBase::empty(&[4], DType::Float32)?;
        let mut held = Blocks::none();
        assert!(held.acquire(&[(&tensor, Access::Read, 16)])?);
        assert!(Blocks::none().acquire(&[(&tensor, Access::Write, 16)]).is_err());
        assert!(Blocks::none().acquire(&[(&tensor, Access::Read, 16)])?);
        // What was held is left before anything else is asked for.
        assert!(held.acquire(&[(&tensor, Access::Write, 16)])?);
        assert!(Blocks::none().acquire(&[(&tensor, Access::Read, 16)]).is_err());
        drop(held);
        assert!(Blocks::none().acquire(&[(&tensor, Access::Write, 16)])?);
        Ok(())
    }

    #[test]
    fn storages_of_other_threads_are_held_too() -> Result<()> {
        let tensor = TensorBase::empty(&[4], DType::Float32)?;
        std::thread::scope(|scope| {
            let other = scope.spawn(|| -> Result<bool> {
                Blocks::none().acquire(&[(&tensor, Access::Write, 16)])
            });
            other.join().expect("no panic")
        })?;
        assert!(Blocks::none().acquire(&[(&tensor, Access::Write, 16)])?);
        Ok(())
    }
}
