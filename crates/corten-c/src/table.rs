//! The functions of the ABI as a table, for libraries of operators.
//!
//! Such a library is loaded into programs that have these functions in themselves, in `libcorten.so` or in the
//! extension module of Python, where the dynamic linker does not look for them. So it gets them as a table.

use crate::{
    allocator::*, autograd::*, call::*, files::*, function::*, library::*, load::*, random::*,
    status::*, tensor::*,
};
use std::ffi::{c_char, c_void};

/// The version of this ABI: what changes the meaning of a function, its arguments or the size of a structure
/// raises it. Functions that are added do not.
pub const CORTEN_ABI_VERSION: u32 = 1;

/// A function of the ABI, whatever its arguments.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Entry(*const c_void);

// SAFETY: an address of a function.
unsafe impl Sync for Entry {}

macro_rules! functions {
    ($($name:ident)+) => {
        /// The names of the functions in the order of the table. New ones come at its end.
        pub const API_FUNCTIONS: &[&str] = &[$(stringify!($name)),+];

        static TABLE: Table = Table {
            size: size_of::<Table>(),
            version: CORTEN_ABI_VERSION,
            functions: [$(Entry($name as *const c_void)),+],
        };
    };
}

/// The layout of the header's `struct CortenApi`.
#[repr(C)]
struct Table {
    size: usize,
    version: u32,
    functions: [Entry; API_FUNCTIONS.len()],
}

/// The table of functions: `corten_library.h` has its members.
pub struct CortenApi {
    _opaque: (),
}

functions! {
    corten_abi_version
    corten_version
    corten_last_error
    corten_last_status
    corten_set_error
    corten_manual_seed
    corten_generator_new
    corten_generator_default
    corten_generator_seed
    corten_generator_free
    corten_tensor_new_reference
    corten_tensor_free
    corten_tensor_downgrade
    corten_weak_upgrade
    corten_weak_free
    corten_tensor_empty
    corten_tensor_from_memory
    corten_tensor_from_copy
    corten_tensor_copy_to
    corten_tensor_dim
    corten_tensor_numel
    corten_tensor_sizes
    corten_tensor_strides
    corten_tensor_storage_offset
    corten_tensor_dtype
    corten_tensor_device
    corten_tensor_is_contiguous
    corten_tensor_is_same
    corten_tensor_data
    corten_tensor_item
    corten_dtype_itemsize
    corten_operator_find
    corten_operator_name
    corten_operator_schema
    corten_operator_call
    corten_call
    corten_call_tensor
    corten_value_copy
    corten_values_free
    corten_tensor_requires_grad
    corten_tensor_set_requires_grad
    corten_tensor_is_leaf
    corten_tensor_grad
    corten_tensor_set_grad
    corten_tensor_detach
    corten_backward
    corten_grad
    corten_is_grad_enabled
    corten_set_grad_enabled
    corten_set_below_autograd
    corten_function_apply
    corten_context_save
    corten_context_saved
    corten_context_mark_dirty
    corten_context_mark_non_differentiable
    corten_context_needs_grad
    corten_library_new
    corten_library_free
    corten_library_define
    corten_library_implement
    corten_library_fallthrough
    corten_library_fallback
    corten_library_derivative
    corten_kernel_operator
    corten_kernel_redispatch
    corten_load_library
    corten_save
    corten_load
    corten_tensors_count
    corten_tensors_name
    corten_tensors_get
    corten_tensors_find
    corten_tensors_free
    corten_set_allocator
}

/// The table, for a library of operators that the program loads by itself.
pub fn api() -> *const CortenApi {
    (&raw const TABLE).cast()
}

/// The version of the ABI that the library has; the header's is `CORTEN_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn corten_abi_version() -> u32 {
    CORTEN_ABI_VERSION
}

/// The version of Corten, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn corten_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
