//! References and metadata of tensors.

use super::handle::{TensorHandle, give, handle_at, take, tensor_at};
use super::outcome::{Outcome, guard};
use crate::tensor::write_to;
use corten::autograd::Autograd as _;
use corten::core::geometry::check_in_bounds;
use corten::core::{Geometry, bail, grad_mode_enabled, set_grad_mode};
use corten::{Result, Tensor};
use std::ffi::c_void;

/// Functions that ask a tensor something.
macro_rules! questions {
    ($($name:ident($type:ty): |$tensor:ident| $value:expr;)+) => {$(
        /// # Safety
        /// The handle must be alive, the place valid for a write.
        unsafe extern "C" fn $name(tensor: TensorHandle, place: *mut $type) -> Outcome {
            // SAFETY: the caller's.
            guard(|| unsafe {
                let $tensor = tensor_at(tensor)?;
                write_to(place, $value)
            })
        }
    )+};
}

questions! {
    aoti_torch_get_data_ptr(*mut c_void): |tensor| address(tensor, true)?;
    torch_get_mutable_data_ptr(*mut c_void): |tensor| address(tensor, true)?;
    torch_get_const_data_ptr(*mut c_void): |tensor| address(tensor, false)?;
    aoti_torch_get_storage_size(i64): |tensor| tensor.storage()?.nbytes() as i64;
    aoti_torch_get_storage_numel(i64): |tensor| {
        (tensor.storage()?.nbytes() / tensor.itemsize().max(1)) as i64
    };
    aoti_torch_get_dim(i64): |tensor| tensor.dim() as i64;
    aoti_torch_get_numel(i64): |tensor| tensor.numel();
    aoti_torch_get_dtype(i32): |tensor| tensor.dtype() as i32;
    aoti_torch_get_device_type(i32): |tensor| device_of(tensor)?.device_type as i32;
    aoti_torch_get_device_index(i32): |tensor| i32::from(device_of(tensor)?.index);
    aoti_torch_get_layout(i32): |tensor| tensor.layout() as i32;
    aoti_torch_get_storage_offset(i64): |tensor| tensor.storage_offset();
    aoti_torch_is_contiguous(bool): |tensor| tensor.is_contiguous();
    aoti_torch_is_defined(bool): |tensor| tensor.defined();
    torch_has_storage(bool): |tensor| tensor.defined() && tensor.has_storage();
}

fn device_of(tensor: &Tensor) -> Result<corten::Device> {
    match tensor.device_opt() {
        Some(device) => Ok(device),
        None => bail!(Runtime, "tensor does not have a device"),
    }
}

/// Where the element with all indices zero lies: null without elements or memory. All elements lie in it. Memory
/// that is copied on the first write is copied now if it is asked for to write.
fn address(tensor: &Tensor, write: bool) -> Result<*mut c_void> {
    if tensor.device().is_meta() {
        return Ok(std::ptr::null_mut());
    }
    tensor.checked_data_ptr()?;
    let storage = tensor.storage()?;
    if write && tensor.numel() > 0 {
        storage.lend()?;
    }
    let mut found = Geometry::EMPTY;
    tensor.copy_geometry_to(&mut found);
    if found.numel > 0 {
        let (sizes, strides, offset) = (&found.sizes, &found.strides, found.storage_offset);
        check_in_bounds(sizes, strides, offset, tensor.itemsize(), storage.nbytes())?;
    }
    Ok(tensor.data_ptr().cast())
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn aoti_torch_get_sizes(tensor: TensorHandle, sizes: *mut *const i64) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let handle = handle_at(tensor)?;
        write_to(sizes, handle.lend(&handle.tensor.sizes()))
    })
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn aoti_torch_get_strides(
    tensor: TensorHandle,
    strides: *mut *const i64,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let handle = handle_at(tensor)?;
        write_to(strides, handle.lend(&handle.tensor.strides()))
    })
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn aoti_torch_get_size(
    tensor: TensorHandle,
    dim: i64,
    size: *mut i64,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(size, tensor_at(tensor)?.size(dim)?) })
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn aoti_torch_get_stride(
    tensor: TensorHandle,
    dim: i64,
    stride: *mut i64,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(stride, tensor_at(tensor)?.stride(dim)?) })
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn aoti_torch_new_tensor_handle(
    tensor: TensorHandle,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(made, give(tensor_at(tensor)?.clone())) })
}

/// # Safety
/// The handle must be the caller's, and is not used afterwards.
unsafe extern "C" fn aoti_torch_delete_tensor_object(tensor: TensorHandle) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { take(tensor) }.map(drop))
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn aoti_torch_new_uninitialized_tensor(made: *mut TensorHandle) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(made, give(Tensor::undefined())) })
}

/// Makes a handle refer to the tensor of another.
///
/// # Safety
/// Both must be alive; nobody else may use `to` meanwhile.
unsafe extern "C" fn aoti_torch_assign_tensors(from: TensorHandle, to: TensorHandle) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        let tensor = unsafe { tensor_at(from) }?.clone();
        // SAFETY: the caller's.
        match unsafe { to.as_mut() } {
            Some(to) => to.tensor = tensor,
            None => bail!(Runtime, "the handle of a tensor is null"),
        }
        Ok(())
    })
}

/// # Safety
/// As `aoti_torch_new_tensor_handle`.
unsafe extern "C" fn aoti_torch_assign_tensors_out(
    from: TensorHandle,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe { aoti_torch_new_tensor_handle(from, made) }
}

/// # Safety
/// The handle must be alive.
unsafe extern "C" fn torch_set_requires_grad(tensor: TensorHandle, requires: bool) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        unsafe { tensor_at(tensor) }?.requires_grad_(requires)?;
        Ok(())
    })
}

extern "C" fn aoti_torch_grad_mode_is_enabled() -> bool {
    grad_mode_enabled()
}

extern "C" fn aoti_torch_grad_mode_set_enabled(enabled: bool) {
    set_grad_mode(enabled);
}

super::functions! {
    aoti_torch_get_data_ptr
    torch_get_mutable_data_ptr
    torch_get_const_data_ptr
    aoti_torch_get_storage_size
    aoti_torch_get_storage_numel
    aoti_torch_get_dim
    aoti_torch_get_numel
    aoti_torch_get_dtype
    aoti_torch_get_device_type
    aoti_torch_get_device_index
    aoti_torch_get_layout
    aoti_torch_get_storage_offset
    aoti_torch_is_contiguous
    aoti_torch_is_defined
    torch_has_storage
    aoti_torch_get_sizes
    aoti_torch_get_strides
    aoti_torch_get_size
    aoti_torch_get_stride
    aoti_torch_new_tensor_handle
    aoti_torch_delete_tensor_object
    aoti_torch_new_uninitialized_tensor
    aoti_torch_assign_tensors
    aoti_torch_assign_tensors_out
    torch_set_requires_grad
    aoti_torch_grad_mode_is_enabled
    aoti_torch_grad_mode_set_enabled
}
