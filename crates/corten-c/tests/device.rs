//! A device whose memory and kernels are functions of the C ABI.

#![allow(clippy::unwrap_used, clippy::too_many_lines, reason = "a test fails by panicking")]

use corten_c::*;
use std::alloc::Layout;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

static BLOCKS: AtomicUsize = AtomicUsize::new(0);

const HOST: CortenDevice = CortenDevice { r#type: CORTEN_CPU, index: -1 };
const DEVICE: CortenDevice = CortenDevice { r#type: CORTEN_PRIVATE_USE, index: 0 };

fn layout(nbytes: usize) -> Layout {
    Layout::from_size_align(nbytes, 64).unwrap()
}

unsafe extern "C" fn allocate(
    _data: *mut c_void,
    nbytes: usize,
    _index: i32,
    memory: *mut *mut c_void,
) -> CortenStatus {
    if nbytes > 1 << 30 {
        return CORTEN_OUT_OF_MEMORY;
    }
    BLOCKS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: at least one byte is asked for.
    unsafe { memory.write(std::alloc::alloc(layout(nbytes)).cast()) };
    CORTEN_OK
}

unsafe extern "C" fn free(_data: *mut c_void, memory: *mut c_void, nbytes: usize) {
    BLOCKS.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: `allocate` got the block from the same layout.
    unsafe { std::alloc::dealloc(memory.cast(), layout(nbytes)) };
}

unsafe extern "C" fn copy(
    _data: *mut c_void,
    destination: *mut c_void,
    source: *const c_void,
    nbytes: usize,
) {
    // SAFETY: both blocks are valid for that many bytes.
    unsafe { ptr::copy_nonoverlapping(source.cast::<u8>(), destination.cast::<u8>(), nbytes) };
}

fn message() -> String {
    // SAFETY: the text ends with a zero byte and nothing fails meanwhile.
    unsafe { CStr::from_ptr(corten_last_error()) }.to_str().unwrap().to_owned()
}

fn of(tensor: *mut CortenTensor) -> CortenValue {
    CortenValue { tag: CORTEN_TENSOR, length: 0, u: CortenContent { tensor } }
}

/// The memory of a tensor of the device as one of the host: it is the host's in truth.
unsafe fn on_host(tensor: *mut CortenTensor) -> *mut CortenTensor {
    // SAFETY: the tensor is alive, contiguous and outlives the result.
    unsafe {
        let (mut data, mut sizes) = (ptr::null_mut(), [0i64; 8]);
        assert_eq!(corten_tensor_data(tensor, &raw mut data), CORTEN_OK, "{}", message());
        assert_eq!(corten_tensor_sizes(tensor, sizes.as_mut_ptr(), 8), CORTEN_OK);
        let (dim, dtype) = (corten_tensor_dim(tensor) as usize, corten_tensor_dtype(tensor));
        let (no, none, sizes) = (ptr::null(), ptr::null_mut(), sizes.as_ptr());
        let mut made = ptr::null_mut();
        let status =
            corten_tensor_from_memory(data, sizes, no, dim, dtype, HOST, None, none, &raw mut made);
        assert_eq!(status, CORTEN_OK, "{}", message());
        made
    }
}

/// `copy_` between the device and the host: the operator of the host on the same memory.
unsafe extern "C" fn copy_kernel(
    _data: *mut c_void,
    _call: *const CortenKernelCall,
    inputs: *const CortenValue,
    _n_inputs: usize,
    outputs: *mut CortenValue,
    _n_outputs: usize,
) -> CortenStatus {
    // SAFETY: called with two tensors and a truth value, and room for one result.
    unsafe {
        let [to, from] = [0, 1].map(|index| (*inputs.add(index)).u.tensor);
        let both = [on_host(to), on_host(from)];
        let values = both.map(of);
        let mut same = ptr::null_mut();
        let name = c"copy_".as_ptr();
        let status = corten_call_tensor(name, ptr::null(), values.as_ptr(), 2, &raw mut same);
        both.iter().chain([&same]).for_each(|handle| corten_tensor_free(*handle));
        outputs.write(of(corten_tensor_new_reference(to)));
        status
    }
}

/// Every other operator of one tensor: the host's result, brought to the device.
unsafe extern "C" fn fallback(
    _data: *mut c_void,
    call: *const CortenKernelCall,
    inputs: *const CortenValue,
    _n_inputs: usize,
    outputs: *mut CortenValue,
    _n_outputs: usize,
) -> CortenStatus {
    // SAFETY: called with a tensor first, and room for one result.
    unsafe {
        let host = on_host((*inputs).u.tensor);
        let mut result = ptr::null_mut();
        let name = corten_kernel_operator(call);
        let value = of(host);
        let status = corten_call_tensor(name, ptr::null(), &raw const value, 1, &raw mut result);
        corten_tensor_free(host);
        if status != CORTEN_OK {
            return status;
        }
        let made = to_device(result, DEVICE);
        corten_tensor_free(result);
        outputs.write(of(made));
        CORTEN_OK
    }
}

fn to_device(tensor: *mut CortenTensor, device: CortenDevice) -> *mut CortenTensor {
    let u = CortenContent { device };
    let device = CortenValue { tag: CORTEN_DEVICE, length: 0, u };
    let dtype =
        CortenValue { tag: CORTEN_DTYPE, length: 0, u: CortenContent { code: CORTEN_FLOAT32 } };
    let inputs = [of(tensor), device, dtype];
    let mut made = ptr::null_mut();
    // SAFETY: the values are what their tags say.
    let status = unsafe {
        let name = c"to.device".as_ptr();
        corten_call_tensor(name, ptr::null(), inputs.as_ptr(), 3, &raw mut made)
    };
    assert_eq!(status, CORTEN_OK, "{}", message());
    made
}

#[test]
fn a_device_lives_on_callbacks() {
    let none = ptr::null_mut();
    let mut functions =
        CortenAllocator { data: none, allocate: Some(allocate), free: Some(free), copy: None };
    // SAFETY: texts end with zero bytes, every handle is alive where it is used.
    unsafe {
        let place = &raw const functions;
        let refused = corten_set_allocator(CORTEN_PRIVATE_USE, place, 0, ptr::null_mut());
        assert_eq!(refused, CORTEN_VALUE_ERROR);
        functions.copy = Some(copy);
        let mut taken = false;
        let place = &raw const functions;
        let status = corten_set_allocator(CORTEN_PRIVATE_USE, place, 0, &raw mut taken);
        assert!(status == CORTEN_OK && taken);
        let mut library = ptr::null_mut();
        assert_eq!(corten_library_new(c"device".as_ptr(), &raw mut library), CORTEN_OK);
        let key = c"PrivateUse1".as_ptr();
        let name = c"aten::copy_".as_ptr();
        let status = corten_library_implement(library, name, key, Some(copy_kernel), none, None);
        assert_eq!(status, CORTEN_OK, "{}", message());
        let status = corten_library_fallback(library, key, Some(fallback), none, None);
        assert_eq!(status, CORTEN_OK, "{}", message());
        corten_library_free(library);

        let (elements, sizes) = ([1.0f32, -2.0, 3.0], [3i64]);
        let mut x = ptr::null_mut();
        let data = elements.as_ptr().cast();
        let status = corten_tensor_from_copy(data, sizes.as_ptr(), 1, CORTEN_FLOAT32, &raw mut x);
        assert_eq!(status, CORTEN_OK, "{}", message());
        let there = to_device(x, DEVICE);
        assert_eq!(corten_tensor_device(there).r#type, CORTEN_PRIVATE_USE);
        assert_eq!(BLOCKS.load(Ordering::SeqCst), 1);
        let value = of(there);
        let mut absolute = ptr::null_mut();
        let name = c"special_entr".as_ptr();
        let status = corten_call_tensor(name, none.cast(), &raw const value, 1, &raw mut absolute);
        assert_eq!(status, CORTEN_OK, "{}", message());
        assert_eq!(corten_tensor_device(absolute).r#type, CORTEN_PRIVATE_USE);
        let mut found = [9.0f32; 3];
        let status = corten_tensor_copy_to(absolute, found.as_mut_ptr().cast(), 12);
        assert_eq!(status, CORTEN_OK, "{}", message());
        assert_eq!((found[0], found[1]), (0.0, f32::NEG_INFINITY));

        // What the allocator says reaches who asked for the memory.
        let mut large = ptr::null_mut();
        let sizes = [1i64 << 30];
        let status = corten_tensor_empty(sizes.as_ptr(), 1, CORTEN_FLOAT32, DEVICE, &raw mut large);
        assert_eq!(status, CORTEN_OUT_OF_MEMORY);
        [x, there, absolute].iter().for_each(|handle| corten_tensor_free(*handle));
        assert_eq!(BLOCKS.load(Ordering::SeqCst), 0);
    }
}
