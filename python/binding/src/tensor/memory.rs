//! Tensors over bytes, and what the binding asks of any tensor.

use crate::functions::op1;
use crate::py::Py;
use crate::py::errors::runtime_error;
use corten_core::geometry::{ForeignGeometry, check_in_bounds};
use corten_core::mapped::is_memory_writable;
use corten_core::{
    DType, Device, Geometry, KeySet, Layout, LentMemory, Result, Storage, TensorBase,
    TensorOptions, try_to_vec,
};
use corten_ops::Tensor;
use std::any::Any;

/// Whether a gradient flows to the tensor.
#[inline]
pub(crate) fn requires_grad(tensor: &Tensor) -> bool {
    corten_autograd::graph::requires_grad(tensor)
}

/// Sets whether a leaf collects its gradient.
pub(crate) fn set_requires_grad(tensor: &Tensor, wanted: bool) -> Result<()> {
    if !wanted && !requires_grad(tensor) {
        return Ok(());
    }
    let dtype = tensor.dtype();
    if wanted && !dtype.is_floating_point() && !dtype.is_complex() {
        corten_core::bail!(
            Runtime,
            "Only Tensors of floating point and complex dtype can require gradients"
        );
    }
    corten_autograd::Autograd::set_requires_grad_flag(tensor, wanted)
}

/// An uninitialised contiguous tensor on the host.
pub(crate) fn empty(sizes: &[i64], dtype: DType) -> Result<Tensor> {
    TensorBase::empty(sizes, TensorOptions::new().dtype(dtype)).map(Tensor::from)
}

/// A one-dimensional tensor holding a copy of the bytes.
pub(crate) fn from_bytes(bytes: &[u8], dtype: DType) -> Result<Tensor> {
    let made = empty(&[(bytes.len() / dtype.itemsize().max(1)) as i64], dtype)?;
    if !bytes.is_empty() {
        // SAFETY: the tensor is new and holds that many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), made.data_ptr(), made.nbytes());
        }
    }
    Ok(made)
}

/// The bytes of a tensor's elements in order.
pub(crate) fn to_bytes(tensor: &Tensor) -> Py<Vec<u8>> {
    let dense = op1!("aten::contiguous", tensor, corten_core::MemoryFormat::Contiguous)?;
    let length = dense.nbytes();
    if length == 0 {
        return Ok(Vec::new());
    }
    dense.storage()?.flush()?;
    // SAFETY: the tensor is contiguous and holds that many bytes; it lives until they are copied.
    Ok(try_to_vec(unsafe { std::slice::from_raw_parts(dense.data_ptr(), length) })?)
}

/// A tensor over foreign memory at `data` that lives as long as `owner`, with a geometry that was
/// checked. Memory that its library calls read-only is written all the same, as in PyTorch, unless the
/// system protects it.
pub(crate) fn over_foreign(
    owner: Box<dyn Any + Send + Sync>,
    data: *mut u8,
    geometry: &ForeignGeometry,
    dtype: DType,
    read_only: bool,
) -> Py<Tensor> {
    over_foreign_on(Device::CPU, owner, data, geometry, dtype, read_only)
}

/// As [`over_foreign`], for memory of any device.
pub(crate) fn over_foreign_on(
    device: Device,
    owner: Box<dyn Any + Send + Sync>,
    data: *mut u8,
    geometry: &ForeignGeometry,
    dtype: DType,
    read_only: bool,
) -> Py<Tensor> {
    let (start, nbytes) = (data.wrapping_add(geometry.start), geometry.nbytes);
    let pointer = corten_core::DataPtr::with_owner(start, owner, device);
    let storage = Storage::from_data_ptr(pointer, nbytes);
    if read_only && device.is_cpu() && !is_memory_writable(start, nbytes) {
        storage.set_write_error(Some(PROTECTED.to_owned()));
    }
    let keys = KeySet::for_tensor(device.device_type, Layout::Strided, dtype);
    let (sizes, strides) = (&geometry.sizes, &geometry.strides);
    Ok(TensorBase::new_with_storage(storage, dtype, keys, sizes, strides, 0)?.into())
}

/// Why some imported memory cannot be written.
const PROTECTED: &str = "the memory of this tensor is read-only: it was imported from memory that is \
    protected against writes, such as a file that is mapped for reading. Write to a clone() of it.";

/// A tensor's memory for objects of other libraries, which may outlive the tensor and see none of what
/// is done to it.
pub(crate) struct Lent {
    pub(crate) memory: LentMemory,
    /// The element with all indices zero; null if there are no elements.
    pub(crate) first: *mut u8,
    pub(crate) geometry: Geometry,
    pub(crate) writable: bool,
}

/// Lends the memory of a tensor, all elements of which lie in it.
pub(crate) fn lend(tensor: &Tensor) -> Py<Lent> {
    tensor.checked_data_ptr()?;
    let storage = tensor.storage()?;
    let (memory, geometry) = (storage.lend()?, tensor.geometry());
    let mut first = std::ptr::null_mut();
    if geometry.numel > 0 {
        let (offset, itemsize) = (geometry.storage_offset, tensor.itemsize());
        let (sizes, strides) = (&geometry.sizes, &geometry.strides);
        check_in_bounds(sizes, strides, offset, itemsize, memory.nbytes())?;
        if memory.start().is_null() {
            return Err(runtime_error(
                "Cannot access data pointer of Tensor that doesn't have storage",
            ));
        }
        first = memory.start().wrapping_add(offset as usize * itemsize);
    }
    Ok(Lent { memory, first, geometry, writable: storage.is_writable() })
}

/// The same values without history and without lazy conjugation or negation, on the host.
pub(crate) fn dense_copy(tensor: &Tensor) -> Result<Tensor> {
    let mut plain = op1!("aten::detach", tensor)?;
    if !plain.device().is_cpu() {
        plain = op1!(
            "aten::to.device",
            &plain,
            Device::CPU,
            plain.dtype(),
            false,
            false,
            None::<corten_core::MemoryFormat>
        )?;
    }
    if plain.is_conj() {
        plain = op1!("aten::resolve_conj", &plain)?;
    }
    if plain.is_neg() {
        plain = op1!("aten::resolve_neg", &plain)?;
    }
    Ok(plain)
}

/// Memory that others see must not move.
pub(crate) fn forbid_resizing(tensor: &Tensor) {
    if let Some(storage) = tensor.storage_opt() {
        storage.forbid_resizing();
    }
}
