//! The contents of storages in host memory, as bytes.

use std::ptr;

use super::Storage;
use crate::access::Hold;
use crate::{Access, Result, ensure, err};

impl Storage {
    /// A copy of the bytes of a storage in host memory.
    ///
    /// # Errors
    /// `Runtime` for another device.
    pub fn read_bytes(&self) -> Result<Vec<u8>> {
        let _hold = Hold::new(&self.0, Access::Read)?;
        self.0.before_access(false)?;
        let (data, nbytes) = (self.host_data()?, self.nbytes());
        if nbytes == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        let reserved = bytes.try_reserve_exact(nbytes);
        reserved.map_err(|_| err!(OutOfMemory, "a copy of {nbytes} bytes cannot be allocated"))?;
        // SAFETY: `_hold` keeps the memory as it is, and it has that many bytes.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(data, nbytes) });
        Ok(bytes)
    }

    /// Replaces bytes of a storage in host memory, from place `at` on.
    ///
    /// # Errors
    /// `Index` beyond the end; `Runtime` for another device or memory that may not be written.
    pub fn write_bytes(&self, at: usize, bytes: &[u8]) -> Result<()> {
        let _hold = Hold::new(&self.0, Access::Write)?;
        self.0.before_access(true)?;
        let data = self.host_data()?;
        let inside = at.checked_add(bytes.len()).is_some_and(|end| end <= self.nbytes());
        ensure!(inside, Index, "index out of range");
        if !bytes.is_empty() {
            // SAFETY: `_hold` is for writing, and the range lies within the storage. It may be memory
            // of an object that also lends `bytes`, so they may overlap.
            unsafe { ptr::copy(bytes.as_ptr(), data.add(at), bytes.len()) };
        }
        Ok(())
    }

    fn host_data(&self) -> Result<*mut u8> {
        let data = self.data_ptr();
        ensure!(
            self.device().is_cpu() && (!data.is_null() || self.nbytes() == 0),
            Runtime,
            "the bytes of this storage are not in host memory"
        );
        Ok(data)
    }
}
