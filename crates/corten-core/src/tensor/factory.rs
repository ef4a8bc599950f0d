//! Tensors with fresh, arbitrary contents.

use super::TensorBase;
use super::base::{Parts, extend_keys};
use super::handle::check_ranks;
use super::version::VersionSlot;
use crate::geometry::{
    checked_numel, contiguous_strides_wrapping, memory_format_strides, storage_bytes_contiguous,
    storage_bytes_needed,
};
use crate::{DType, Device, KeySet, Layout, MemoryFormat, Result, Storage, TensorOptions};
use crate::{bail, ensure};

impl TensorBase {
    /// A tensor of shape `sizes` with arbitrary contents.
    pub fn empty(sizes: &[i64], options: impl Into<TensorOptions>) -> Result<Self> {
        let options = options.into();
        check_not_negative(sizes)?;
        let dtype = options.dtype_or_default();
        let nbytes = storage_bytes_contiguous(sizes, dtype.itemsize(), 0)?;
        let numel = checked_numel(sizes)?;
        let strides = match options.memory_format {
            None | Some(MemoryFormat::Contiguous) => contiguous_strides_wrapping(sizes),
            Some(format) => memory_format_strides(sizes, format)?,
        };
        Self::with_fresh_storage(sizes, &strides, numel, nbytes, dtype, &options)
    }

    /// A tensor of shape `sizes` with given strides and arbitrary contents.
    pub fn empty_strided(
        sizes: &[i64],
        strides: &[i64],
        options: impl Into<TensorOptions>,
    ) -> Result<Self> {
        let options = options.into();
        check_ranks(sizes, strides)?;
        check_not_negative(sizes)?;
        ensure!(
            strides.iter().all(|&stride| stride >= 0) || sizes.contains(&0),
            Runtime,
            "Storage size calculation overflowed with sizes={sizes:?} and strides={strides:?}"
        );
        let dtype = options.dtype_or_default();
        let nbytes = storage_bytes_needed(sizes, strides, dtype.itemsize(), 0)?;
        Self::with_fresh_storage(sizes, strides, checked_numel(sizes)?, nbytes, dtype, &options)
    }

    fn with_fresh_storage(
        sizes: &[i64],
        strides: &[i64],
        numel: i64,
        nbytes: usize,
        dtype: DType,
        options: &TensorOptions,
    ) -> Result<Self> {
        let (layout, device) = (options.layout_or_default(), options.device_or_default());
        check_makeable(dtype, layout, device)?;
        let parts = Parts {
            storage: Some(Storage::new(nbytes, device)?),
            dtype,
            device,
            keys: extend_keys(KeySet::for_tensor(device.device_type, layout, dtype)),
            version: VersionSlot::empty(),
            flags: 0,
        };
        let tensor = Self::from_parts(parts, sizes, strides, 0, numel);
        if options.requires_grad_or_default() {
            tensor.autograd_meta_or_init().set_requires_grad(true)?;
        }
        Ok(tensor)
    }
}

fn check_not_negative(sizes: &[i64]) -> Result<()> {
    if let Some(size) = sizes.iter().find(|&&size| size < 0) {
        bail!(Runtime, "Trying to create tensor with negative dimension {size}: {sizes:?}");
    }
    Ok(())
}

fn check_makeable(dtype: DType, layout: Layout, device: Device) -> Result<()> {
    ensure!(dtype != DType::Undefined, Runtime, "cannot create a tensor of undefined dtype");
    ensure!(
        layout == Layout::Strided,
        Runtime,
        "a tensor of layout {layout} has no strided storage on {device}"
    );
    Ok(())
}
