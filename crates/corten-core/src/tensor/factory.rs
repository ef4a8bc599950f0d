//! Tensors with fresh, arbitrary contents.

use super::TensorBase;
use super::base::{Info, Parts, TensorImpl, extend_keys};
use super::dense::fresh_host_keys;
use super::handle::check_ranks;
use super::version::VersionSlot;
use crate::geometry::{
    ContiguityFlags, DIMS_IN_PLACE, checked_numel, memory_format_strides, storage_bytes_contiguous,
    storage_bytes_needed,
};
use crate::{DType, Device, Element, KeySet, Layout, MemoryFormat, Result, Storage, TensorOptions};
use crate::{bail, ensure};

impl TensorBase {
    /// A tensor of shape `sizes` with arbitrary contents.
    pub fn empty(sizes: &[i64], options: impl Into<TensorOptions>) -> Result<Self> {
        let options = options.into();
        let dtype = options.dtype_or_default();
        let itemsize = dtype.itemsize();
        let mut room = [0; DIMS_IN_PLACE];
        if matches!(options.memory_format, None | Some(MemoryFormat::Contiguous))
            && let Some(strides) = room.get_mut(..sizes.len())
            && let Some((numel, nbytes)) = lay_out(sizes, strides, itemsize)
        {
            return Self::with_fresh_storage(sizes, strides, numel, nbytes, dtype, &options, true);
        }
        check_not_negative(sizes)?;
        let nbytes = storage_bytes_contiguous(sizes, itemsize, 0)?;
        let strides = memory_format_strides(sizes, options.memory_format.unwrap_or_default())?;
        let numel = checked_numel(sizes)?;
        Self::with_fresh_storage(sizes, &strides, numel, nbytes, dtype, &options, false)
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
            sizes.iter().zip(strides).all(|(&size, &stride)| stride >= 0 || size == 1)
                || sizes.contains(&0),
            Runtime,
            "Storage size calculation overflowed with sizes={sizes:?} and strides={strides:?}"
        );
        let dtype = options.dtype_or_default();
        let nbytes = storage_bytes_needed(sizes, strides, dtype.itemsize(), 0)?;
        let numel = checked_numel(sizes)?;
        Self::with_fresh_storage(sizes, strides, numel, nbytes, dtype, &options, false)
    }

    /// A tensor of rank 0 on the host with this value.
    pub fn of_value<T: Element>(value: T) -> Result<Self> {
        let storage = Storage::new(size_of::<T>(), Device::CPU)?;
        // SAFETY: the storage has the bytes of one element, aligned for every type, and nobody else
        // has seen it.
        unsafe { storage.data_ptr().cast::<T>().write(value) };
        Ok(Self::around(storage, (&[], &[], 1), T::DTYPE, Device::CPU, true))
    }

    fn with_fresh_storage(
        sizes: &[i64],
        strides: &[i64],
        numel: i64,
        nbytes: usize,
        dtype: DType,
        options: &TensorOptions,
        contiguous: bool,
    ) -> Result<Self> {
        let device = options.device_or_default();
        check_makeable(dtype, options.layout_or_default(), device)?;
        let storage = Storage::new(nbytes, device)?;
        // The current device of a type has an index from here on.
        let device = if device.is_cuda() { storage.device() } else { device };
        let tensor = Self::around(storage, (sizes, strides, numel), dtype, device, contiguous);
        if options.requires_grad_or_default() {
            tensor.autograd_meta_or_init().set_requires_grad(true)?;
        }
        Ok(tensor)
    }

    /// A strided tensor of sizes, strides and an element count over all of a storage.
    fn around(
        storage: Storage,
        (sizes, strides, numel): (&[i64], &[i64], i64),
        dtype: DType,
        device: Device,
        contiguous: bool,
    ) -> Self {
        let keys = match Info::is_fresh_dense(dtype, device) {
            true => fresh_host_keys(),
            false => extend_keys(KeySet::for_tensor(device.device_type, Layout::Strided, dtype)),
        };
        let parts = Parts {
            storage: Some(storage),
            dtype,
            device,
            keys,
            version: VersionSlot::own(),
            flags: 0,
        };
        let flags = if contiguous && sizes.len() < 4 {
            Info::PLAIN
        } else {
            Info::shape_flags(ContiguityFlags::compute(sizes, strides, numel))
        };
        Self(TensorImpl::build(parts, sizes, strides, 0, numel, flags))
    }
}

/// Stores the strides of a contiguous tensor; its element count and bytes, if nothing is negative or
/// overflows.
#[inline]
fn lay_out(sizes: &[i64], strides: &mut [i64], itemsize: usize) -> Option<(i64, usize)> {
    let (mut next, mut numel) = (1_i64, 1_i64);
    for (&size, stride) in sizes.iter().zip(strides).rev() {
        if size < 0 {
            return None;
        }
        *stride = next;
        next = next.checked_mul(size.max(1))?;
        numel *= size.min(1);
    }
    let nbytes = usize::try_from(next).ok()?.checked_mul(itemsize)?;
    let nbytes = if numel == 0 { 0 } else { isize::try_from(nbytes).ok()?.unsigned_abs() };
    Some((numel * next, nbytes))
}

/// That no size is negative.
///
/// # Errors
/// `Runtime` otherwise.
pub(super) fn check_not_negative(sizes: &[i64]) -> Result<()> {
    if let Some(size) = sizes.iter().find(|&&size| size < 0) {
        bail!(Runtime, "Trying to create tensor with negative dimension {size}: {sizes:?}");
    }
    Ok(())
}

fn check_makeable(dtype: DType, layout: Layout, device: Device) -> Result<()> {
    ensure!(dtype != DType::Undefined, Runtime, "cannot create a tensor of undefined dtype");
    if layout != Layout::Strided {
        let key = KeySet::for_tensor(device.device_type, layout, dtype).highest_key();
        bail!(
            NotImplemented,
            "Could not run 'aten::empty_strided' with arguments from the '{key}' backend: a tensor of \
             layout {layout} has no strided storage on {device}"
        );
    }
    Ok(())
}
