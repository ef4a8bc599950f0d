//! Handles: references, creation, metadata.

use crate::status::{CortenStatus, guard, guard_value};
use crate::value::slice_of;
use corten::core::geometry::{ForeignMemory, ForeignStrides, check_in_bounds};
use corten::core::{
    DataPtr, DeviceType, Geometry, KeySet, Storage, TensorBase, TensorImpl, WeakTensor, bail, err,
};
use corten::{DType, Device, Layout, Result, Tensor, op};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

/// A tensor: a reference to it, which is given back with `corten_tensor_free`.
pub struct CortenTensor {
    _opaque: (),
}

/// A reference that does not keep its tensor alive.
pub struct CortenWeakTensor(WeakTensor);

/// The type of the elements: one of the `CORTEN_…` dtypes, whose numbers are PyTorch's.
pub type CortenDType = i32;

/// Unsigned integers of 8 bits.
pub const CORTEN_UINT8: CortenDType = 0;
/// Integers of 8 bits.
pub const CORTEN_INT8: CortenDType = 1;
/// Integers of 16 bits.
pub const CORTEN_INT16: CortenDType = 2;
/// Integers of 32 bits.
pub const CORTEN_INT32: CortenDType = 3;
/// Integers of 64 bits.
pub const CORTEN_INT64: CortenDType = 4;
/// IEEE half precision.
pub const CORTEN_FLOAT16: CortenDType = 5;
/// IEEE single precision.
pub const CORTEN_FLOAT32: CortenDType = 6;
/// IEEE double precision.
pub const CORTEN_FLOAT64: CortenDType = 7;
/// Complex numbers of single precision.
pub const CORTEN_COMPLEX64: CortenDType = 9;
/// Complex numbers of double precision.
pub const CORTEN_COMPLEX128: CortenDType = 10;
/// Truth values of a byte.
pub const CORTEN_BOOLEAN: CortenDType = 11;
/// Floats of 16 bits with the range of single precision.
pub const CORTEN_BFLOAT16: CortenDType = 15;

/// The host, as `type` of a `CortenDevice`.
pub const CORTEN_CPU: i32 = 0;
/// A GPU of NVIDIA.
pub const CORTEN_CUDA: i32 = 1;
/// Shapes and dtypes without data.
pub const CORTEN_META: i32 = 14;
/// The device of a back end from outside.
pub const CORTEN_PRIVATE_USE: i32 = 20;

/// A device: its type and which one of that type; -1 is the current one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CortenDevice {
    /// The type, in PyTorch's numbers.
    pub r#type: i32,
    /// Which one, or -1.
    pub index: i32,
}

pub(crate) fn device_from(device: CortenDevice) -> Result<Device> {
    let number = i8::try_from(device.r#type).ok().and_then(DeviceType::from_number);
    match (number, i8::try_from(device.index)) {
        (Some(device_type), Ok(index)) => Ok(Device { device_type, index }),
        _ => {
            bail!(Value, "there is no device of type {} and index {}", device.r#type, device.index)
        }
    }
}

pub(crate) fn device_to(device: Device) -> CortenDevice {
    CortenDevice { r#type: device.device_type as i32, index: i32::from(device.index) }
}

pub(crate) fn dtype_from(number: CortenDType) -> Result<DType> {
    let found = u16::try_from(number).ok().and_then(DType::from_number);
    match found.filter(|dtype| dtype.itemsize() > 0) {
        Some(dtype) => Ok(dtype),
        None => bail!(Value, "there is no dtype of number {number}"),
    }
}

/// A handle for C, which owns a reference; null for the undefined tensor.
pub(crate) fn give(tensor: Tensor) -> *mut CortenTensor {
    match tensor.defined() {
        true => TensorBase::from(tensor).into_raw().as_ptr().cast(),
        false => ptr::null_mut(),
    }
}

/// Takes a reference over that C owned.
///
/// # Safety
/// The handle must be null or a reference that the caller owns and gives up.
pub(crate) unsafe fn take(tensor: *mut CortenTensor) -> Tensor {
    match NonNull::new(tensor.cast::<TensorImpl>()) {
        // SAFETY: handles come from `give`, and the caller gives this one up.
        Some(tensor) => unsafe { TensorBase::from_raw(tensor) }.into(),
        None => Tensor::undefined(),
    }
}

/// What a handle refers to, for as long as the call lasts.
///
/// # Safety
/// The handle must be null or alive for as long as the result is used.
pub(crate) unsafe fn peek(tensor: *const CortenTensor) -> Result<ManuallyDrop<Tensor>> {
    if tensor.is_null() {
        bail!(Value, "a tensor is null");
    }
    // SAFETY: the caller's; the reference is not given up.
    Ok(ManuallyDrop::new(unsafe { take(tensor.cast_mut()) }))
}

/// A new reference to what a handle refers to.
///
/// # Safety
/// The handle must be null or alive.
pub(crate) unsafe fn tensor_at(tensor: *const CortenTensor) -> Result<Tensor> {
    // SAFETY: the caller's.
    Ok(Tensor::clone(&*unsafe { peek(tensor) }?))
}

/// Stores a result.
///
/// # Safety
/// `place` must be null or valid for a write.
pub(crate) unsafe fn write_to<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        bail!(Value, "the place for a result is null");
    }
    // SAFETY: the caller's.
    unsafe { place.write(value) };
    Ok(())
}

/// Refuses a result that has no place, before anything is done.
pub(crate) fn check_place<T>(place: *mut T) -> Result<()> {
    if place.is_null() {
        bail!(Value, "the place for a result is null");
    }
    Ok(())
}

/// One more reference to a tensor; null gives null.
///
/// # Safety
/// `tensor` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_new_reference(
    tensor: *const CortenTensor,
) -> *mut CortenTensor {
    if tensor.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's.
    guard_value(ptr::null_mut(), || Ok(give(unsafe { tensor_at(tensor) }?)))
}

/// Gives a reference back; null is allowed.
///
/// # Safety
/// `tensor` must be null or a reference that the caller owns, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_free(tensor: *mut CortenTensor) {
    guard(|| {
        // SAFETY: the caller's.
        drop(unsafe { take(tensor) });
        Ok(())
    });
}

/// A weak reference: the tensor may die while it is held.
///
/// # Safety
/// `tensor` must be alive, `weak` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_downgrade(
    tensor: *const CortenTensor,
    weak: *mut *mut CortenWeakTensor,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let made = CortenWeakTensor(unsafe { peek(tensor) }?.downgrade());
        // SAFETY: the caller's.
        unsafe { write_to(weak, Box::into_raw(Box::new(made))) }
    })
}

/// A reference to the tensor of a weak one; null when it is gone.
///
/// # Safety
/// `weak` must be alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_weak_upgrade(weak: *const CortenWeakTensor) -> *mut CortenTensor {
    guard_value(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let found = unsafe { weak.as_ref() }.and_then(|weak| weak.0.upgrade());
        Ok(found.map_or(ptr::null_mut(), |tensor| give(tensor.into())))
    })
}

/// Gives a weak reference back; null is allowed.
///
/// # Safety
/// `weak` must be null or alive, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_weak_free(weak: *mut CortenWeakTensor) {
    guard(|| {
        if !weak.is_null() {
            // SAFETY: the caller's; weak references come from `corten_tensor_downgrade`.
            drop(unsafe { Box::from_raw(weak) });
        }
        Ok(())
    });
}

/// A tensor of whatever the memory holds.
///
/// # Safety
/// `sizes` must be valid for `dim` numbers, `tensor` for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_empty(
    sizes: *const i64,
    dim: usize,
    dtype: CortenDType,
    device: CortenDevice,
    tensor: *mut *mut CortenTensor,
) -> CortenStatus {
    guard(|| {
        check_place(tensor)?;
        // SAFETY: the caller's.
        let sizes = unsafe { slice_of(sizes, dim) }?;
        let (dtype, device) = (dtype_from(dtype)?, device_from(device)?);
        let made = op::empty_memory_format(sizes, Some(dtype), None, Some(device), None, None)?;
        // SAFETY: the caller's.
        unsafe { write_to(tensor, give(made)) }
    })
}

/// Frees the context of foreign memory, from whatever thread.
pub type CortenDeleter = Option<unsafe extern "C" fn(context: *mut c_void)>;

struct Foreign {
    deleter: CortenDeleter,
    context: *mut c_void,
}

// SAFETY: `corten_tensor_from_memory` demands a deleter that any thread may call, once.
unsafe impl Send for Foreign {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Foreign {}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: `corten_tensor_from_memory` demands that this is sound once, and it happens once.
            unsafe { deleter(self.context) };
        }
    }
}

/// A tensor over memory of the program's. `strides` counts elements; null means that the last dimension varies
/// fastest. `deleter`, unless it is null, is called with `context` when no tensor uses the memory any more, by
/// whichever thread that is. After an error it is not called: the memory stays the caller's.
///
/// # Safety
/// The memory must hold all elements until the deleter is called, and `deleter` must be callable from any thread.
/// `sizes` and `strides` must be valid for `dim` numbers, `tensor` for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_from_memory(
    data: *mut c_void,
    sizes: *const i64,
    strides: *const i64,
    dim: usize,
    dtype: CortenDType,
    device: CortenDevice,
    deleter: CortenDeleter,
    context: *mut c_void,
    tensor: *mut *mut CortenTensor,
) -> CortenStatus {
    guard(|| {
        check_place(tensor)?;
        let (dtype, device) = (dtype_from(dtype)?, device_from(device)?);
        // SAFETY: the caller's.
        let (sizes, strides) = unsafe {
            let strides = match strides.is_null() {
                true => ForeignStrides::Contiguous,
                false => ForeignStrides::Elements(slice_of(strides, dim)?),
            };
            (slice_of(sizes, dim)?, strides)
        };
        if !device.is_cpu() && !device.has_index() {
            bail!(Value, "memory of {device} is of one device, whose index is needed");
        }
        let itemsize = dtype.itemsize();
        let address = data as usize;
        let memory =
            ForeignMemory { address, byte_offset: 0, sizes, strides, itemsize, available: None };
        let geometry = memory
            .check()
            .map_err(|why| err!(Value, "no tensor can be made of this memory: {why:?}"))?;
        let keys = KeySet::for_tensor(device.device_type, Layout::Strided, dtype);
        let (sizes, strides) = (&geometry.sizes, &geometry.strides);
        // Owned from here on: what was checked cannot fail any more.
        let owner = Box::new(Foreign { deleter, context });
        let memory = DataPtr::with_owner(data.cast(), owner, device);
        let storage = Storage::from_data_ptr(memory, geometry.nbytes);
        let made = TensorBase::new_with_storage(storage, dtype, keys, sizes, strides, 0)?;
        // SAFETY: the caller's.
        unsafe { write_to(tensor, give(made.into())) }
    })
}

/// A contiguous tensor on the host with a copy of the program's elements, which lie in order.
///
/// # Safety
/// `data` must be valid for all elements, `sizes` for `dim` numbers, `tensor` for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_from_copy(
    data: *const c_void,
    sizes: *const i64,
    dim: usize,
    dtype: CortenDType,
    tensor: *mut *mut CortenTensor,
) -> CortenStatus {
    guard(|| {
        check_place(tensor)?;
        // SAFETY: the caller's.
        let sizes = unsafe { slice_of(sizes, dim) }?;
        let dtype = Some(dtype_from(dtype)?);
        let made = op::empty_memory_format(sizes, dtype, None, Some(Device::CPU), None, None)?;
        // SAFETY: the caller's: the elements of such a tensor.
        let bytes = unsafe { slice_of(data.cast::<u8>(), made.nbytes()) }?;
        if !bytes.is_empty() {
            made.storage()?.write_bytes(0, bytes)?;
        }
        // SAFETY: the caller's.
        unsafe { write_to(tensor, give(made)) }
    })
}

/// Copies the elements in order, from whatever device, to `nbytes` bytes of the program's.
///
/// # Safety
/// `tensor` must be alive, `data` valid for `nbytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_copy_to(
    tensor: *const CortenTensor,
    data: *mut c_void,
    nbytes: usize,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let source = op::detach(&*unsafe { peek(tensor) }?)?;
        let needed = source.nbytes();
        if needed != nbytes {
            bail!(Value, "the elements take {needed} bytes, but there is room for {nbytes}");
        }
        if nbytes == 0 {
            return Ok(());
        }
        check_place(data)?;
        let dtype = source.dtype();
        let host = op::to_device(&source, Device::CPU, dtype, false, true, None)?;
        let plain =
            op::resolve_neg(&op::resolve_conj(&op::contiguous(&host, Default::default())?)?)?;
        let bytes = plain.storage()?.read_bytes()?;
        let start = plain.storage_offset() as usize * plain.itemsize();
        let Some(bytes) = bytes.get(start..start + nbytes) else {
            bail!(Internal, "a contiguous tensor is larger than its storage");
        };
        // SAFETY: the caller's: there is room for as many bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), nbytes) };
        Ok(())
    })
}

/// Copies the number of dimensions and of a list of numbers to C.
///
/// # Safety
/// `place` must be valid for `capacity` numbers, unless that is 0.
unsafe fn copy_numbers(numbers: &[i64], place: *mut i64, capacity: usize) -> Result<()> {
    if numbers.len() > capacity {
        bail!(Value, "there is room for {capacity} numbers, but the tensor has {}", numbers.len());
    }
    if !numbers.is_empty() {
        check_place(place)?;
        // SAFETY: the caller's, and there is room for as many.
        unsafe { ptr::copy_nonoverlapping(numbers.as_ptr(), place, numbers.len()) };
    }
    Ok(())
}

/// The number of dimensions; -1 for a null handle.
///
/// # Safety
/// `tensor` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_dim(tensor: *const CortenTensor) -> i64 {
    // SAFETY: the caller's.
    guard_value(-1, || Ok(unsafe { peek(tensor) }?.dim() as i64))
}

/// The number of elements; -1 for a null handle.
///
/// # Safety
/// `tensor` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_numel(tensor: *const CortenTensor) -> i64 {
    // SAFETY: the caller's.
    guard_value(-1, || Ok(unsafe { peek(tensor) }?.numel()))
}

/// The sizes, as many as there are dimensions, to a place for `capacity` of them.
///
/// # Safety
/// `tensor` must be alive, `sizes` valid for `capacity` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_sizes(
    tensor: *const CortenTensor,
    sizes: *mut i64,
    capacity: usize,
) -> CortenStatus {
    // SAFETY: the caller's.
    guard(|| unsafe { copy_numbers(&peek(tensor)?.sizes(), sizes, capacity) })
}

/// The strides in elements, as `corten_tensor_sizes`.
///
/// # Safety
/// As `corten_tensor_sizes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_strides(
    tensor: *const CortenTensor,
    strides: *mut i64,
    capacity: usize,
) -> CortenStatus {
    // SAFETY: the caller's.
    guard(|| unsafe { copy_numbers(&peek(tensor)?.strides(), strides, capacity) })
}

/// The place of the first element in its storage, in elements; -1 for a null handle.
///
/// # Safety
/// `tensor` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_storage_offset(tensor: *const CortenTensor) -> i64 {
    // SAFETY: the caller's.
    guard_value(-1, || Ok(unsafe { peek(tensor) }?.storage_offset()))
}

/// The dtype; -1 for a null handle.
///
/// # Safety
/// `tensor` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_dtype(tensor: *const CortenTensor) -> CortenDType {
    // SAFETY: the caller's.
    guard_value(-1, || Ok(unsafe { peek(tensor) }?.dtype() as i32))
}

/// Bytes of an element of a dtype; 0 for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn corten_dtype_itemsize(dtype: CortenDType) -> usize {
    guard_value(0, || Ok(dtype_from(dtype)?.itemsize()))
}

/// The device; its type is -1 for a null handle.
///
/// # Safety
/// `tensor` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_device(tensor: *const CortenTensor) -> CortenDevice {
    let none = CortenDevice { r#type: -1, index: -1 };
    // SAFETY: the caller's.
    guard_value(none, || Ok(device_to(unsafe { peek(tensor) }?.device())))
}

/// Whether the last dimension varies fastest and there are no gaps.
///
/// # Safety
/// `tensor` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_is_contiguous(tensor: *const CortenTensor) -> bool {
    // SAFETY: the caller's.
    guard_value(false, || Ok(unsafe { peek(tensor) }?.is_contiguous()))
}

/// Whether two handles are of one tensor.
///
/// # Safety
/// Both must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_is_same(
    a: *const CortenTensor,
    b: *const CortenTensor,
) -> bool {
    ptr::eq(a, b)
}

/// The address of the element with all indices zero: null without elements. The memory stays where it is while
/// the tensor lives and is not resized, and every element lies in it. The library does not see what a program
/// reads and writes there: it must not do so while another thread writes the tensor, and autograd does not learn
/// of it.
///
/// # Safety
/// `tensor` must be alive, `data` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_data(
    tensor: *const CortenTensor,
    data: *mut *mut c_void,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let tensor = unsafe { peek(tensor) }?;
        tensor.checked_data_ptr()?;
        // A share is asked for so that memory that is copied on the first write is copied now.
        let nbytes = tensor.storage()?.lend()?.nbytes();
        let mut found = Geometry::EMPTY;
        tensor.copy_geometry_to(&mut found);
        if found.numel > 0 {
            let (sizes, strides, offset) = (&found.sizes, &found.strides, found.storage_offset);
            check_in_bounds(sizes, strides, offset, tensor.itemsize(), nbytes)?;
        }
        // SAFETY: the caller's.
        unsafe { write_to(data, tensor.data_ptr().cast()) }
    })
}

/// The only element of a tensor as a number.
///
/// # Safety
/// `tensor` must be alive, `number` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_item(
    tensor: *const CortenTensor,
    number: *mut f64,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let found = op::item(&*unsafe { peek(tensor) }?)?;
        // SAFETY: the caller's.
        unsafe { write_to(number, found.to_f64()) }
    })
}
