//! Copies, and changes of a tensor's storage.

use super::factory::fill_grown;
use super::view;
use crate::iter::{allocate, allocate_like, copy_dense, preserved_strides, read_scalar};
use crate::{Tensor, op};
use corten_core::{
    BelowADInplaceOrViewGuard, DType, Device, KeySet, Layout, MemoryFormat, Result, Scalar,
    Storage, TensorBase, bail, ensure, err, geometry,
};

/// A copy; by default with the same layout in memory. Lazy conjugation and negation are carried
/// out.
///
/// # Errors
/// `Runtime` for a memory format that the rank does not allow.
pub fn clone(self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    let copy = match memory_format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => allocate_like(self_, self_.dtype())?,
        format => {
            let (sizes, strides) = (self_.sizes(), strides_for(self_, format)?);
            allocate(&sizes, Some(&strides), self_.dtype(), self_.device())?
        }
    };
    if !(self_.is_conj() || self_.is_neg()) {
        copy_dense(&copy, self_)?;
        return Ok(copy);
    }
    let _below = BelowADInplaceOrViewGuard::new();
    let stored = view::stored(self_)?;
    if !self_.is_conj() {
        return op::neg_out(&stored, &copy);
    }
    op::_conj_physical_out(&stored, &copy)?;
    if self_.is_neg() { op::neg_(&copy) } else { Ok(copy) }
}

fn strides_for(self_: &Tensor, format: MemoryFormat) -> Result<corten_core::Dims> {
    match format {
        MemoryFormat::Preserve => Ok(preserved_strides(self_)),
        format => geometry::memory_format_strides(&self_.sizes(), format),
    }
}

/// A copy that shares the memory until one of the two is written to; see Note [Copy on write].
///
/// # Errors
/// Those of the allocation, where the memory cannot be shared.
pub fn lazy_clone(self_: &Tensor) -> Result<Tensor> {
    let storage = self_.storage()?.lazy_clone()?;
    let keys = KeySet::for_tensor(self_.device().device_type, self_.layout(), self_.dtype());
    let (sizes, strides, offset) = (self_.sizes(), self_.strides(), self_.storage_offset());
    let base =
        TensorBase::new_with_storage(storage, self_.dtype(), keys, &sizes, &strides, offset)?;
    Ok(base.into())
}

/// A copy in another dtype or on another device.
///
/// # Errors
/// `Runtime` for a memory format that the rank does not allow, `NotImplemented` for a source
/// without data.
pub fn to_copy(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    ensure!(
        layout.is_none_or(|layout| layout == self_.layout()),
        Runtime,
        "to(options) doesn't support converting to a different layout, but got self.layout being \
         {} and options.layout set as {}",
        self_.layout(),
        layout.unwrap_or(self_.layout())
    );
    let format = memory_format.unwrap_or(MemoryFormat::Preserve);
    let dtype = dtype.unwrap_or(self_.dtype());
    let stays = device.is_none_or(|device| device == self_.device()) && pin_memory != Some(true);
    let copy = if stays && format == MemoryFormat::Preserve && self_.is_dense_cpu() {
        allocate_like(self_, dtype)?
    } else {
        let device = device.unwrap_or(self_.device());
        let (sizes, strides) = (self_.sizes(), strides_for(self_, format)?);
        let (dtype, device) = (Some(dtype), Some(device));
        super::factory::empty_strided(&sizes, &strides, dtype, layout, device, pin_memory)?
    };
    let _below = BelowADInplaceOrViewGuard::new();
    op::copy_(&copy, self_, non_blocking)?;
    Ok(copy)
}

/// The only element as a number.
///
/// # Errors
/// `Runtime` for tensors without data.
pub fn local_scalar_dense(self_: &Tensor) -> Result<Scalar> {
    match self_.device() {
        device if device.is_cpu() => read_scalar(self_),
        device if device.is_meta() => {
            bail!(Runtime, "Tensor.item() cannot be called on meta tensors")
        }
        _ => {
            let host = to_copy(self_, None, None, Some(Device::CPU), None, false, None)?;
            read_scalar(&host)
        }
    }
}

/// Whether two tensors have the same shape and equal elements.
///
/// # Errors
/// `Runtime` for different devices, `NotImplemented` for tensors without data.
pub fn equal(self_: &Tensor, other: &Tensor) -> Result<bool> {
    ensure!(
        self_.device() == other.device(),
        Runtime,
        "Expected all tensors to be on the same device, but found at least two devices, {} and {}!",
        self_.device(),
        other.device()
    );
    ensure!(
        !self_.device().is_meta(),
        NotImplemented,
        "aten::equal: attempted to run this operator with Meta tensors, but there was no fake \
         impl or Meta kernel registered."
    );
    if self_.sizes() != other.sizes() {
        return Ok(false);
    }
    Ok(op::item(&op::all(&op::eq_tensor(self_, other)?)?)?.to_bool())
}

/// Whether two tensors are the same view of the same storage.
///
/// # Errors
/// None.
pub fn is_set_to(self_: &Tensor, tensor: &Tensor) -> Result<bool> {
    Ok(self_.is_alias_of(tensor)
        && self_.storage_offset() == tensor.storage_offset()
        && self_.sizes() == tensor.sizes()
        && self_.strides() == tensor.strides())
}

/// Another shape in place; the storage grows where it is too small.
///
/// # Errors
/// `Runtime` for a negative size or a memory format that the rank does not allow.
pub fn resize_(
    self_: &Tensor,
    size: &[i64],
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    ensure!(
        memory_format != Some(MemoryFormat::Preserve),
        Runtime,
        "Unsupported memory formatPreserve"
    );
    let before = self_.storage_opt().map_or(0, |storage| storage.nbytes());
    self_.resize(size, memory_format)?;
    fill_grown(self_, before)?;
    Ok(self_.clone())
}

/// The shape of another tensor in place.
///
/// # Errors
/// Those of [`resize_`].
pub fn resize_as_(
    self_: &Tensor,
    the_template: &Tensor,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    resize_(self_, &the_template.sizes(), None)?;
    let format = match memory_format {
        None => return Ok(self_.clone()),
        Some(MemoryFormat::Preserve) => the_template.suggest_memory_format(),
        Some(format) => format,
    };
    let sizes = self_.sizes();
    let strides = geometry::memory_format_strides(&sizes, format)?;
    self_.set_sizes_and_strides(&sizes, &strides, self_.storage_offset())?;
    Ok(self_.clone())
}

fn check_same_device(self_: &Tensor, device: Device) -> Result<()> {
    ensure!(
        self_.device() == device,
        Runtime,
        "Attempted to set the storage of a tensor on device \"{}\" to a storage on different \
         device \"{device}\".  This is no longer allowed; the devices must match.",
        self_.device()
    );
    Ok(())
}

/// Becomes empty, with a storage of its own.
///
/// # Errors
/// `OutOfMemory`.
pub fn set_(self_: &Tensor) -> Result<Tensor> {
    let storage = Storage::new(0, self_.device())?;
    self_.set_storage_and_geometry(storage, 0, &[0], &[1])?;
    Ok(self_.clone())
}

/// Becomes the vector of all elements of a storage.
///
/// # Errors
/// `Runtime` for a storage on another device.
pub fn set_source_storage_(self_: &Tensor, source: &Storage) -> Result<Tensor> {
    let itemsize = self_.itemsize();
    ensure!(
        source.nbytes().is_multiple_of(itemsize),
        Runtime,
        "attempted to set storage of size {} as a tensor of item size {itemsize}",
        source.nbytes()
    );
    let length = (source.nbytes() / itemsize) as i64;
    set_source_storage_offset_(self_, source, 0, &[length], &[])
}

/// Becomes a view of a storage, which grows where it is too small; contiguous without strides.
///
/// # Errors
/// `Runtime` for a storage on another device or a geometry that is not allowed.
pub fn set_source_storage_offset_(
    self_: &Tensor,
    source: &Storage,
    storage_offset: i64,
    size: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    ensure!(
        stride.is_empty() || size.len() == stride.len(),
        Runtime,
        "unequal size length ({}) and stride length ({})",
        size.len(),
        stride.len()
    );
    check_same_device(self_, source.device())?;
    ensure!(storage_offset >= 0, Runtime, "Tensor: invalid storage offset {storage_offset}");
    ensure!(
        stride.iter().all(|&stride| stride >= 0),
        Runtime,
        "Storage size calculation overflowed with sizes={size:?} and strides={stride:?}"
    );
    let strides = match stride {
        [] => geometry::contiguous_strides(size)?,
        given => given.into(),
    };
    // Nothing may fail once the storage has grown.
    geometry::checked_numel(size)?;
    let needed = self_.bytes_needed(size, &strides, storage_offset)?;
    if needed > source.nbytes() {
        source.resize(needed)?;
    }
    self_.set_storage_and_geometry(source.clone(), storage_offset, size, &strides)?;
    Ok(self_.clone())
}

/// Becomes the same view as another tensor.
///
/// # Errors
/// `Runtime` for another dtype or device.
pub fn set_source_tensor_(self_: &Tensor, source: &Tensor) -> Result<Tensor> {
    if self_.is_same(source) {
        return Ok(self_.clone());
    }
    check_same_dtype(self_, source)?;
    check_same_device(self_, source.device())?;
    let (sizes, strides) = (source.sizes(), source.strides());
    self_.set_storage_and_geometry(source.storage()?, source.storage_offset(), &sizes, &strides)?;
    Ok(self_.clone())
}

fn check_same_dtype(self_: &Tensor, source: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "Could not set tensor of type {} to a tensor of type {}",
        crate::meta::cpp_name(source.dtype()),
        crate::meta::cpp_name(self_.dtype())
    );
    Ok(())
}

/// Becomes a view of another tensor's storage, from that tensor's offset on.
///
/// # Errors
/// `Runtime` for another dtype or device, a source that is not contiguous, or a geometry that is
/// not allowed.
pub fn set_source_tensor_offset_(
    self_: &Tensor,
    source: &Tensor,
    storage_offset: i64,
    size: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    check_same_dtype(self_, source)?;
    ensure!(
        source.is_contiguous(),
        Runtime,
        "passed in tensor to be used as storage must be contiguous"
    );
    let offset = source.storage_offset().checked_add(storage_offset);
    let offset = offset.ok_or_else(|| {
        err!(
            Runtime,
            "Storage size calculation overflowed with sizes={size:?} and strides={stride:?}"
        )
    })?;
    set_source_storage_offset_(self_, &source.storage()?, offset, size, stride)
}
