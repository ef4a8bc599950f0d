//! Operators and kernels from C.

use crate::call::{arguments, give_results};
use crate::derivative::derivative;
pub use crate::kernels::{CortenFree, CortenKernel, CortenKernelCall};
use crate::kernels::{UserData, run};
use crate::status::{CortenStatus, guard, guard_value, without_nul};
use crate::tensor::{CortenTensor, write_to};
use crate::value::{CortenValue, slice_of, text_of};
use corten::Result;
use corten::core::{DispatchKey, bail, err};
use corten::ops::{BoxedCall, Library, Stack, Target};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// A namespace to define operators in and to add kernels to. What was defined and added stays when it is freed.
pub struct CortenLibrary {
    library: Library,
    namespace: String,
}

/// A library for a namespace.
///
/// # Safety
/// `namespace` must be text, `library` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_library_new(
    namespace: *const c_char,
    library: *mut *mut CortenLibrary,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let name = unsafe { text_of("a namespace", namespace) }?;
        let made = CortenLibrary { library: Library::new(name), namespace: name.to_owned() };
        // SAFETY: the caller's.
        unsafe { write_to(library, Box::into_raw(Box::new(made))) }
    })
}

/// Gives a library back; null is allowed.
///
/// # Safety
/// `library` must be null or alive, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_library_free(library: *mut CortenLibrary) {
    guard(|| {
        if !library.is_null() {
            // SAFETY: the caller's.
            drop(unsafe { Box::from_raw(library) });
        }
        Ok(())
    });
}

/// # Safety
/// `library` must be null or alive.
unsafe fn library_at<'a>(library: *const CortenLibrary) -> Result<&'a CortenLibrary> {
    // SAFETY: the caller's.
    unsafe { library.as_ref() }.ok_or_else(|| err!(Value, "a library is null"))
}

fn key_of(name: &str) -> Result<DispatchKey> {
    DispatchKey::from_name(name)
        .ok_or_else(|| err!(Runtime, "could not parse dispatch key: {name}"))
}

/// Defines an operator from its schema without the namespace, such as `twice(Tensor self) -> Tensor`.
///
/// # Safety
/// `library` must be alive, `schema` text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_library_define(
    library: *mut CortenLibrary,
    schema: *const c_char,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let schema = unsafe { text_of("a schema", schema) }?;
        // SAFETY: the caller's.
        unsafe { library_at(library) }?.library.define(schema)?;
        Ok(())
    })
}

/// Adds a kernel to an operator at a dispatch key, such as `CPU`, `CompositeExplicitAutograd` (for every device)
/// or `Autograd`. `free`, unless it is null, frees `data` after an error, or else when the kernel is gone.
///
/// # Safety
/// `library` must be alive, the names text; any thread may call `kernel` with `data`, for as long as the program
/// runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_library_implement(
    library: *mut CortenLibrary,
    name: *const c_char,
    key: *const c_char,
    kernel: CortenKernel,
    data: *mut c_void,
    free: CortenFree,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let (user, library, name, key) = unsafe {
            let user = UserData::new(data, free);
            let (name, key) = (text_of("a name", name)?, text_of("a dispatch key", key)?);
            (user, library_at(library)?, name, key)
        };
        check_kernel(kernel.is_some())?;
        let kernel = move |call: &BoxedCall, stack: &mut Stack| run(kernel, &user, call, stack);
        library.library.implement(name, key_of(key)?, kernel)?.keep();
        Ok(())
    })
}

fn check_kernel(present: bool) -> Result<()> {
    if !present {
        bail!(Value, "a callback is null");
    }
    Ok(())
}

/// Lets calls of an operator pass a dispatch key.
///
/// # Safety
/// `library` must be alive, the names text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_library_fallthrough(
    library: *mut CortenLibrary,
    name: *const c_char,
    key: *const c_char,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let (library, name, key) = unsafe {
            (library_at(library)?, text_of("a name", name)?, text_of("a dispatch key", key)?)
        };
        library.library.fallthrough(name, key_of(key)?)?.keep();
        Ok(())
    })
}

/// Sets the kernel of every operator that has none at a dispatch key, for instance of a device of another.
///
/// # Safety
/// As `corten_library_implement`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_library_fallback(
    library: *mut CortenLibrary,
    key: *const c_char,
    kernel: CortenKernel,
    data: *mut c_void,
    free: CortenFree,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let (user, library, key) = unsafe {
            let user = UserData::new(data, free);
            (user, library_at(library)?, text_of("a dispatch key", key)?)
        };
        check_kernel(kernel.is_some())?;
        let kernel = move |call: &BoxedCall, stack: &mut Stack| run(kernel, &user, call, stack);
        library.library.fallback(key_of(key)?, Arc::new(kernel));
        Ok(())
    })
}

/// Computes the gradients of an operator's arguments: `grads` of its `n_outputs` results, null where there is
/// none, come in; gradients of all tensors among the arguments, those of lists included, go out as new references
/// in `results`, which are null where there is none. `inputs` are the arguments and `outputs` the results of the
/// call. Any thread may call it.
pub type CortenDerivative = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        inputs: *const CortenValue,
        n_inputs: usize,
        outputs: *const *mut CortenTensor,
        grads: *const *mut CortenTensor,
        n_outputs: usize,
        results: *mut *mut CortenTensor,
        n_results: usize,
    ) -> CortenStatus,
>;

/// Gives an operator that returns tensors and writes to none of its arguments a derivative. Its kernels, at keys
/// of devices or at `CompositeExplicitAutograd`, are then called without recording.
///
/// # Safety
/// As `corten_library_implement`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_library_derivative(
    library: *mut CortenLibrary,
    name: *const c_char,
    backward: CortenDerivative,
    data: *mut c_void,
    free: CortenFree,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let (user, library, name) =
            unsafe { (UserData::new(data, free), library_at(library)?, text_of("a name", name)?) };
        check_kernel(backward.is_some())?;
        let qualified = match name.contains("::") {
            true => name.to_owned(),
            false => format!("{}::{name}", library.namespace),
        };
        let kernel = derivative(&qualified, backward, user)?;
        library.library.implement(name, Target::Autograd, kernel)?.keep();
        Ok(())
    })
}

/// The name of the operator that a kernel is called for. It stays valid until the next call of this function in
/// this thread.
///
/// # Safety
/// `call` must be what the kernel was called with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_kernel_operator(call: *const CortenKernelCall) -> *const c_char {
    thread_local! {
        static NAME: std::cell::RefCell<std::ffi::CString> = std::cell::RefCell::default();
    }
    guard_value(c"".as_ptr(), || {
        // SAFETY: the caller's.
        let call = unsafe { call.as_ref() }.ok_or_else(|| err!(Value, "a call is null"))?;
        let name = without_nul(&call.0.op().def().qualified_name());
        Ok(NAME.with(|place| {
            place.replace(name);
            place.borrow().as_ptr()
        }))
    })
}

/// Calls the kernel below the one that handles a call, with arguments and results as of `corten_operator_call`.
///
/// # Safety
/// `call` must be what the kernel was called with; else as `corten_operator_call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_kernel_redispatch(
    call: *const CortenKernelCall,
    inputs: *const CortenValue,
    n_inputs: usize,
    outputs: *mut CortenValue,
    n_outputs: *mut usize,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        unsafe {
            let call = call.as_ref().ok_or_else(|| err!(Value, "a call is null"))?;
            let mut stack = arguments(call.0.op(), slice_of(inputs, n_inputs)?)?;
            call.0.redispatch(&mut stack)?;
            give_results(stack, outputs, n_outputs)
        }
    })
}
