//! `resize_`: a new shape over a storage that grows when it must.

use super::TensorBase;
use crate::geometry::{checked_numel, memory_format_strides, storage_bytes_needed};
use crate::{MemoryFormat, Result, Storage, bail};

impl TensorBase {
    /// Gives the tensor a new shape with the strides of `format`. The storage grows if it is too
    /// small, keeping its bytes; it never shrinks. A shape equal to the present one changes nothing.
    pub fn resize(&self, sizes: &[i64], format: Option<MemoryFormat>) -> Result<()> {
        if let Some(size) = sizes.iter().find(|&&size| size < 0) {
            bail!(Runtime, "Trying to resize to a negative dimension {size}: {sizes:?}");
        }
        if self.sizes().as_slice() == sizes && format.is_none() {
            return Ok(());
        }
        self.check_metadata_change("resize_")?;
        let strides = memory_format_strides(sizes, format.unwrap_or_default())?;
        let numel = checked_numel(sizes)?;
        self.grow_storage(sizes, &strides)?;
        self.store_geometry(sizes, &strides, self.storage_offset(), numel);
        Ok(())
    }

    /// Makes the storage large enough for a geometry at the present offset.
    fn grow_storage(&self, sizes: &[i64], strides: &[i64]) -> Result<()> {
        let offset = self.storage_offset();
        let needed = storage_bytes_needed(sizes, strides, self.itemsize(), offset)?;
        if needed == 0 {
            return Ok(());
        }
        match self.storage_opt() {
            Some(storage) if storage.nbytes() >= needed => Ok(()),
            Some(storage) => storage.resize(needed),
            None => {
                self.swap_storage(Some(Storage::new(needed, self.device())?));
                Ok(())
            }
        }
    }
}
