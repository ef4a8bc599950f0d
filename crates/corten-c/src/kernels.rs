//! Callbacks of C: what they are called with, and what they give back.

use crate::call::fit;
use crate::status::{CortenStatus, check_callback};
use crate::value::{CortenValue, borrowed, owned, release};
use corten::Result;
use corten::core::bail;
use corten::ops::{BoxedCall, Stack};
use std::ffi::c_void;
use std::ptr;

/// Frees the data of callbacks.
pub type CortenFree = Option<unsafe extern "C" fn(data: *mut c_void)>;

/// What C gave to be called back with, freed once.
pub(crate) struct UserData {
    pub(crate) data: *mut c_void,
    free: CortenFree,
}

// SAFETY: whoever registers a callback promises that any thread may call it with its data, and free these.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    /// Data that `free` frees.
    ///
    /// # Safety
    /// Any thread may use the data and free it, once.
    pub(crate) unsafe fn new(data: *mut c_void, free: CortenFree) -> Self {
        Self { data, free }
    }
}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(free) = self.free {
            // SAFETY: promised to `new`; this happens once.
            unsafe { free(self.data) };
        }
    }
}

/// Values that a callback sees, which are freed afterwards.
pub(crate) struct Values(Vec<CortenValue>);

impl Values {
    /// The values of a stack.
    pub(crate) fn of(stack: &Stack) -> Self {
        Self(stack.iter().map(|value| owned(value.clone())).collect())
    }

    /// Absent values, to be replaced by results.
    pub(crate) fn absent(count: usize) -> Self {
        Self((0..count).map(|_| CortenValue::NONE).collect())
    }

    pub(crate) fn as_ptr(&self) -> *const CortenValue {
        self.0.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        for value in &mut self.0 {
            // SAFETY: `of` made the value, or a callback that promised to leave values that it owns.
            unsafe { release(value) };
        }
    }
}

/// A call on its way to a kernel of C. It ends with the kernel.
pub struct CortenKernelCall(pub(crate) BoxedCall);

/// A kernel: computes `outputs`, of which there are as many as the schema says, from `inputs` in the order of the
/// schema. Inputs are borrowed; outputs are values that the library then owns: new references of tensors, and
/// lists made by `corten_value_copy`. Any thread may call it. Returns a status; for an error of its own it calls
/// `corten_set_error`.
pub type CortenKernel = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        call: *const CortenKernelCall,
        inputs: *const CortenValue,
        n_inputs: usize,
        outputs: *mut CortenValue,
        n_outputs: usize,
    ) -> CortenStatus,
>;

/// Runs a kernel on the values of a stack.
pub(crate) fn run(
    kernel: CortenKernel,
    user: &UserData,
    call: &BoxedCall,
    stack: &mut Stack,
) -> Result<()> {
    let name = || call.op().def().qualified_name();
    let Some(kernel) = kernel else { bail!(Value, "{}: the kernel is null", name()) };
    let declared = &call.op().schema().returns;
    let inputs = Values::of(stack);
    let mut outputs = Values::absent(declared.len());
    let passed = CortenKernelCall(call.clone());
    // SAFETY: whoever registered the kernel promised that it can be called with values of the schema.
    let status = unsafe {
        let outputs = outputs.0.as_mut_ptr();
        kernel(
            user.data,
            ptr::from_ref(&passed),
            inputs.as_ptr(),
            inputs.len(),
            outputs,
            declared.len(),
        )
    };
    check_callback(&name(), status)?;
    let mut results = Stack::new();
    for (output, declared) in outputs.0.iter().zip(declared) {
        // SAFETY: the kernel promised to leave values of the schema.
        let result = unsafe { borrowed(output) }?;
        let tag = result.tag();
        match fit(result, declared.ty.bare()) {
            Some(result) => results.push(result),
            None => bail!(Type, "{}: the kernel returned {tag} for {}", name(), declared.ty),
        }
    }
    *stack = results;
    Ok(())
}
