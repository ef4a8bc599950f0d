//! Tensors that extensions make: of their memory, of another tensor, of nothing.

use super::handle::{TensorHandle, give, tensor_at};
use super::outcome::{Outcome, guard};
use super::protect;
use crate::tensor::{CortenDevice, check_place, device_from, dtype_from, write_to};
use crate::value::slice_of;
use corten::core::geometry::{ForeignMemory, ForeignStrides, check_in_bounds};
use corten::core::{DataPtr, KeySet, Storage, TensorBase, bail, err};
use corten::{DType, Device, Layout, Result, Tensor, op};
use std::ffi::c_void;

fn device(device_type: i32, index: i32) -> Result<Device> {
    device_from(CortenDevice { r#type: device_type, index })
}

/// A length or number of dimensions of C.
pub(super) fn count(number: i64) -> Result<usize> {
    usize::try_from(number).map_err(|_| err!(Runtime, "{number} is no number of elements"))
}

/// # Safety
/// The lists must be valid for so many numbers as stand before them, the place for a write.
unsafe fn empty_strided(
    (ndim, sizes, strides): (i64, *const i64, *const i64),
    dtype: i32,
    (device_type, device_index): (i32, i32),
    pinned: Option<bool>,
    made: *mut TensorHandle,
) -> Outcome {
    guard(|| {
        check_place(made)?;
        // SAFETY: the caller's.
        let (sizes, strides) =
            unsafe { (slice_of(sizes, count(ndim)?)?, slice_of(strides, count(ndim)?)?) };
        let (dtype, device) = (dtype_from(dtype)?, device(device_type, device_index)?);
        let tensor = op::empty_strided(sizes, strides, Some(dtype), None, Some(device), pinned)?;
        // SAFETY: the caller's.
        unsafe { write_to(made, give(tensor)) }
    })
}

/// # Safety
/// The lists must be valid for `ndim` numbers, the place for a write.
unsafe extern "C" fn aoti_torch_empty_strided(
    ndim: i64,
    sizes: *const i64,
    strides: *const i64,
    dtype: i32,
    device_type: i32,
    device_index: i32,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe { empty_strided((ndim, sizes, strides), dtype, (device_type, device_index), None, made) }
}

/// Page-locked memory is the host's, in PyTorch too.
///
/// # Safety
/// As `aoti_torch_empty_strided`.
unsafe extern "C" fn aoti_torch_empty_strided_pinned(
    ndim: i64,
    sizes: *const i64,
    strides: *const i64,
    dtype: i32,
    device_type: i32,
    device_index: i32,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe {
        empty_strided((ndim, sizes, strides), dtype, (device_type, device_index), Some(true), made)
    }
}

/// # Safety
/// The handle must be alive, the lists valid for as many numbers as it has dimensions, the place for a write.
unsafe extern "C" fn aoti_torch_as_strided(
    tensor: TensorHandle,
    sizes: *const i64,
    strides: *const i64,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let tensor = tensor_at(tensor)?;
        let (sizes, strides) = (slice_of(sizes, tensor.dim())?, slice_of(strides, tensor.dim())?);
        write_to(made, give(op::as_strided(tensor, sizes, strides, None)?))
    })
}

/// A view of the same storage, whose place in it counts from its beginning.
///
/// # Safety
/// As `aoti_torch_empty_strided`, and the handle must be alive.
unsafe extern "C" fn aoti_torch__reinterpret_tensor(
    tensor: TensorHandle,
    ndim: i64,
    sizes: *const i64,
    strides: *const i64,
    storage_offset: i64,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let (tensor, ndim) = (tensor_at(tensor)?, count(ndim)?);
        let place = (slice_of(sizes, ndim)?, slice_of(strides, ndim)?, storage_offset);
        write_to(made, give(view_of_storage(tensor, tensor.dtype(), place)?))
    })
}

/// A tensor of the bytes that another one holds.
///
/// # Safety
/// As `aoti_torch__reinterpret_tensor`.
unsafe extern "C" fn aoti_torch__alloc_from_pool(
    pool: TensorHandle,
    offset_bytes: i64,
    dtype: i32,
    ndim: i64,
    sizes: *const i64,
    strides: *const i64,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let (pool, dtype, ndim) = (tensor_at(pool)?, dtype_from(dtype)?, count(ndim)?);
        let itemsize = dtype.itemsize() as i64;
        if offset_bytes % itemsize != 0 {
            bail!(Runtime, "an element of {itemsize} bytes cannot begin at byte {offset_bytes}");
        }
        let place = (slice_of(sizes, ndim)?, slice_of(strides, ndim)?, offset_bytes / itemsize);
        write_to(made, give(view_of_storage(pool, dtype, place)?))
    })
}

fn view_of_storage(
    tensor: &Tensor,
    dtype: DType,
    (sizes, strides, offset): (&[i64], &[i64], i64),
) -> Result<Tensor> {
    let storage = tensor.storage()?;
    let is_empty = sizes.contains(&0);
    if sizes.iter().any(|size| *size < 0) || strides.iter().any(|stride| *stride < 0) {
        bail!(Runtime, "sizes and strides cannot be negative");
    }
    if !is_empty {
        check_in_bounds(sizes, strides, offset, dtype.itemsize(), storage.nbytes())?;
    }
    let keys = KeySet::for_tensor(tensor.device().device_type, Layout::Strided, dtype);
    Ok(TensorBase::new_with_storage(storage, dtype, keys, sizes, strides, offset)?.into())
}

/// Frees foreign memory, from whatever thread.
type Deleter = Option<unsafe extern "C" fn(data: *mut c_void, context: *mut c_void)>;

struct Foreign {
    deleter: Deleter,
    data: *mut c_void,
    context: *mut c_void,
}

// SAFETY: an extension that gives a deleter lets any thread call it, once, as in PyTorch.
unsafe impl Send for Foreign {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Foreign {}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: promised to `torch_from_blob`; it happens once. What the deleter throws has nowhere to go.
            let _thrown = unsafe { protect::delete(deleter, self.data, self.context) };
        }
    }
}

/// A block of memory of an extension, and what lies in it.
struct Blob {
    data: *mut c_void,
    storage_offset: i64,
    dtype: i32,
    device: (i32, i32),
    layout: i32,
}

/// # Safety
/// The memory must hold all elements until the owner is dropped.
unsafe fn from_blob(
    blob: &Blob,
    sizes: &[i64],
    strides: &[i64],
    deleter: Deleter,
    context: *mut c_void,
) -> Result<Tensor> {
    if blob.layout != Layout::Strided as i32 {
        bail!(NotImplemented, "memory of an extension can be a strided tensor only");
    }
    let (dtype, device) = (dtype_from(blob.dtype)?, device(blob.device.0, blob.device.1)?);
    let offset = count(blob.storage_offset)?;
    let itemsize = dtype.itemsize();
    let memory = ForeignMemory {
        address: blob.data as usize,
        byte_offset: offset as u64 * itemsize as u64,
        sizes,
        strides: ForeignStrides::Elements(strides),
        itemsize,
        available: None,
    };
    let geometry = memory
        .check()
        .map_err(|why| err!(Runtime, "no tensor can be made of this memory: {why:?}"))?;
    let keys = KeySet::for_tensor(device.device_type, Layout::Strided, dtype);
    // Owned from here on: what was checked cannot fail any more.
    let owner = Box::new(Foreign { deleter, data: blob.data, context });
    let memory = DataPtr::with_owner(blob.data.cast(), owner, device);
    let storage = Storage::from_data_ptr(memory, geometry.start + geometry.nbytes);
    let (sizes, strides) = (&geometry.sizes, &geometry.strides);
    let offset = blob.storage_offset;
    Ok(TensorBase::new_with_storage(storage, dtype, keys, sizes, strides, offset)?.into())
}

/// A tensor over memory of the extension. The deleter is called with memory and context when no tensor uses the
/// memory any more, not after an error.
///
/// # Safety
/// The memory must hold all elements until then, and the deleter be callable from any thread. The lists must be
/// valid for `ndim` numbers, the place for a write.
unsafe extern "C" fn torch_from_blob(
    data: *mut c_void,
    ndim: i64,
    sizes: *const i64,
    strides: *const i64,
    storage_offset: i64,
    dtype: i32,
    device_type: i32,
    device_index: i32,
    made: *mut TensorHandle,
    layout: i32,
    _opaque_metadata: *const u8,
    _opaque_metadata_size: i64,
    deleter: Deleter,
    context: *mut c_void,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        check_place(made)?;
        let (sizes, strides) = (slice_of(sizes, count(ndim)?)?, slice_of(strides, count(ndim)?)?);
        let device = (device_type, device_index);
        let blob = Blob { data, storage_offset, dtype, device, layout };
        write_to(made, give(from_blob(&blob, sizes, strides, deleter, context)?))
    })
}

/// # Safety
/// As `torch_from_blob`; the memory must outlive all tensors.
unsafe extern "C" fn aoti_torch_create_tensor_from_blob_v2(
    data: *mut c_void,
    ndim: i64,
    sizes: *const i64,
    strides: *const i64,
    storage_offset: i64,
    dtype: i32,
    device_type: i32,
    device_index: i32,
    made: *mut TensorHandle,
    layout: i32,
    metadata: *const u8,
    metadata_size: i64,
) -> Outcome {
    let context = std::ptr::null_mut();
    // SAFETY: the caller's.
    unsafe {
        torch_from_blob(
            data,
            ndim,
            sizes,
            strides,
            storage_offset,
            dtype,
            device_type,
            device_index,
            made,
            layout,
            metadata,
            metadata_size,
            None,
            context,
        )
    }
}

/// # Safety
/// As `aoti_torch_create_tensor_from_blob_v2`.
unsafe extern "C" fn aoti_torch_create_tensor_from_blob(
    data: *mut c_void,
    ndim: i64,
    sizes: *const i64,
    strides: *const i64,
    storage_offset: i64,
    dtype: i32,
    device_type: i32,
    device_index: i32,
    made: *mut TensorHandle,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe {
        aoti_torch_create_tensor_from_blob_v2(
            data,
            ndim,
            sizes,
            strides,
            storage_offset,
            dtype,
            device_type,
            device_index,
            made,
            Layout::Strided as i32,
            std::ptr::null(),
            0,
        )
    }
}

super::functions! {
    aoti_torch_empty_strided
    aoti_torch_empty_strided_pinned
    aoti_torch_as_strided
    aoti_torch__reinterpret_tensor
    aoti_torch__alloc_from_pool
    torch_from_blob
    aoti_torch_create_tensor_from_blob
    aoti_torch_create_tensor_from_blob_v2
}
