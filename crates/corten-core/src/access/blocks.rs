//! Elements side by side, held together: what a loop over dense operands needs.

use std::marker::PhantomData;
use std::sync::atomic::AtomicPtr;

use super::Access;
use super::enter::{Entered, FEW, Wanted, enter_biased, enter_waiting};
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
#[derive(Debug)]
pub struct Blocks<'a> {
    addresses: [*mut u8; FEW],
    /// Leaving touches the storages, which the tensors keep.
    tensors: PhantomData<&'a TensorBase>,
    #[allow(dead_code, reason = "dropping it leaves the storages")]
    entered: Entered,
}

impl<'a> Blocks<'a> {
    /// Holds the storages of all tensors, or none of them. `None`: there are more than four, or one
    /// has no memory for so many bytes, whatever its sizes say.
    ///
    /// # Errors
    /// When the calling thread already holds a storage in a conflicting way, and when a storage
    /// refuses access.
    #[inline(always)]
    pub fn acquire(wanted: &[WantedBlock<'a>]) -> Result<Option<Self>> {
        match enter_biased(wanted) {
            Some((entered, found)) => Self::after_entering(wanted, &found, entered),
            None => Self::acquire_waiting(wanted),
        }
    }

    #[cold]
    fn acquire_waiting(wanted: &[WantedBlock<'a>]) -> Result<Option<Self>> {
        if wanted.len() > FEW {
            return Ok(None);
        }
        let (entered, found) = enter_waiting(wanted)?;
        Self::after_entering(wanted, &found, entered)
    }

    #[inline(always)]
    fn after_entering(
        wanted: &[WantedBlock<'a>],
        found: &[*const StorageImpl],
        entered: Entered,
    ) -> Result<Option<Self>> {
        let mut addresses = [std::ptr::null_mut(); FEW];
        for ((&(tensor, mode, nbytes), &storage), address) in
            wanted.iter().zip(found).zip(&mut addresses)
        {
            // SAFETY: this thread is inside of the storage, which keeps it alive; null means none.
            let Some(storage) = (unsafe { storage.as_ref() }) else { return Ok(None) };
            storage.before_access(mode == Access::Write)?;
            match block(tensor, storage, nbytes) {
                Some(start) => *address = start,
                None => return Ok(None),
            }
        }
        Ok(Some(Self { addresses, tensors: PhantomData, entered }))
    }

    /// Where the bytes of tensor `index` start; they may be read, or read and written, as asked for.
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
        let held = Blocks::acquire(&[(&tensor, Access::Write, 32), (&row, Access::Read, 8)])?;
        let held = held.expect("both fit");
        assert_eq!(held.address(0), start);
        assert_eq!(held.address(1), start.wrapping_add(24));
        drop(held);
        assert!(Blocks::acquire(&[(&row, Access::Read, 9)])?.is_none());
        assert!(Blocks::acquire(&[(&tensor, Access::Read, usize::MAX)])?.is_none());
        let beyond = tensor.as_view_of(&[1], &[1], -1)?;
        assert!(Blocks::acquire(&[(&beyond, Access::Read, 4)])?.is_none());
        let nothing = TensorBase::undefined();
        assert!(Blocks::acquire(&[(&nothing, Access::Read, 0)])?.is_none());
        assert!(Blocks::acquire(&[(&row, Access::Read, 4); 5])?.is_none());
        Ok(())
    }

    #[test]
    fn held_blocks_exclude_others() -> Result<()> {
        let tensor = TensorBase::empty(&[4], DType::Float32)?;
        let held = Blocks::acquire(&[(&tensor, Access::Read, 16)])?;
        assert!(Blocks::acquire(&[(&tensor, Access::Write, 16)]).is_err());
        assert!(Blocks::acquire(&[(&tensor, Access::Read, 16)])?.is_some());
        drop(held);
        assert!(Blocks::acquire(&[(&tensor, Access::Write, 16)])?.is_some());
        Ok(())
    }

    #[test]
    fn storages_of_other_threads_are_held_too() -> Result<()> {
        let tensor = TensorBase::empty(&[4], DType::Float32)?;
        std::thread::scope(|scope| {
            let other = scope.spawn(|| -> Result<bool> {
                Ok(Blocks::acquire(&[(&tensor, Access::Write, 16)])?.is_some())
            });
            other.join().expect("no panic")
        })?;
        assert!(Blocks::acquire(&[(&tensor, Access::Write, 16)])?.is_some());
        Ok(())
    }
}
