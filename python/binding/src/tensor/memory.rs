//! Tensors over bytes, and what the binding asks of any tensor.

use crate::functions::op1;
use crate::py::Py;
use crate::py::errors::runtime_error;
use corten_core::{
    Access, AccessSet, DType, Device, DispatchKey, KeySet, Layout, Result, Storage, TensorBase,
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
    // SAFETY: the tensor is contiguous and holds that many bytes; it lives until they are copied.
    Ok(try_to_vec(unsafe { std::slice::from_raw_parts(dense.data_ptr(), length) })?)
}

/// A tensor over foreign memory that lives as long as `owner`.
pub(crate) fn from_owner(
    owner: Box<dyn Any + Send + Sync>,
    data: *mut u8,
    nbytes: usize,
    dtype: DType,
    device: Device,
    sizes: &[i64],
    strides: &[i64],
) -> Py<Tensor> {
    let pointer = corten_core::DataPtr::with_owner(data, owner, device);
    let storage = Storage::from_data_ptr(pointer, nbytes);
    let keys = KeySet::for_tensor(device.device_type, Layout::Strided, dtype);
    debug_assert!(!keys.has(DispatchKey::AutogradOther));
    Ok(TensorBase::new_with_storage(storage, dtype, keys, sizes, strides, 0)?.into())
}

/// The same values without history and without lazy conjugation or negation, on the host.
pub(crate) fn plain_copy(tensor: &Tensor) -> Result<Tensor> {
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

/// The first element, for others to read and write: all elements are in the storage.
pub(crate) fn data_within(tensor: &Tensor) -> Py<*mut u8> {
    // The storage is entered to find that out, and left at once: the others know no accesses.
    let held = AccessSet::acquire(&[(tensor.base(), Access::Read)])?;
    let first = held.byte_ptr(0);
    if first.is_null() && tensor.numel() > 0 {
        return Err(runtime_error(
            "Cannot access data pointer of Tensor that doesn't have storage",
        ));
    }
    Ok(first)
}

/// Memory that others see must not move.
pub(crate) fn forbid_resizing(tensor: &Tensor) {
    if let Some(storage) = tensor.storage_opt() {
        storage.forbid_resizing();
    }
}
