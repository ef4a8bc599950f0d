//! Functions with derivatives written in C.

use crate::kernels::{CortenFree, UserData};
use crate::status::{CortenStatus, check_callback, guard, guard_value};
use crate::tensor::{CortenTensor, check_place, give, take, write_to};
use crate::value::{tensors_of, text_of};
use corten::autograd::function::{Context, Function, apply};
use corten::core::{bail, err};
use corten::{Result, Tensor};
use std::ffi::{c_char, c_void};
use std::ptr;

/// What the two directions of one call of a function share. It is valid while a callback runs.
pub struct CortenContext {
    read: *const Context,
    /// Null in the backward direction.
    write: *mut Context,
}

/// Computes the outputs, `n_outputs` new references, from borrowed inputs. Nothing is recorded meanwhile.
pub type CortenForward = Option<
    unsafe extern "C" fn(
        context: *mut CortenContext,
        data: *mut c_void,
        inputs: *const *mut CortenTensor,
        n_inputs: usize,
        outputs: *mut *mut CortenTensor,
        n_outputs: usize,
    ) -> CortenStatus,
>;

/// Computes the gradients of the inputs, new references or null, from those of the outputs.
pub type CortenBackward = Option<
    unsafe extern "C" fn(
        context: *mut CortenContext,
        data: *mut c_void,
        grads: *const *mut CortenTensor,
        n_grads: usize,
        results: *mut *mut CortenTensor,
        n_results: usize,
    ) -> CortenStatus,
>;

/// A differentiable function. Any thread may call its callbacks; `free`, unless it is null, is called with `data`
/// when the graph that recorded the call is gone, or the call has failed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CortenFunction {
    /// The name in the graph; null for none.
    pub name: *const c_char,
    /// How many outputs it has.
    pub n_outputs: usize,
    /// Computes the outputs.
    pub forward: CortenForward,
    /// Computes the gradients.
    pub backward: CortenBackward,
    /// What the callbacks are called with.
    pub data: *mut c_void,
    /// Frees it.
    pub free: CortenFree,
}

/// Handles that a callback sees, whose references are given back afterwards.
pub(crate) struct Handles(Vec<*mut CortenTensor>);

impl Handles {
    pub(crate) fn of(tensors: &[Tensor]) -> Self {
        Self(tensors.iter().map(|tensor| give(tensor.clone())).collect())
    }

    pub(crate) fn absent(count: usize) -> Self {
        Self((0..count).map(|_| ptr::null_mut()).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn as_ptr(&self) -> *const *mut CortenTensor {
        self.0.as_ptr()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut *mut CortenTensor {
        self.0.as_mut_ptr()
    }

    pub(crate) fn into_tensors(mut self) -> Vec<Tensor> {
        let handles = std::mem::take(&mut self.0);
        // SAFETY: a callback promised to leave references that it gives up.
        handles.into_iter().map(|handle| unsafe { take(handle) }).collect()
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        // SAFETY: these are references of their own, or what a callback gave up.
        self.0.iter().for_each(|handle| drop(unsafe { take(*handle) }));
    }
}

struct Foreign {
    name: String,
    n_outputs: usize,
    forward: CortenForward,
    backward: CortenBackward,
    user: UserData,
}

impl Function for Foreign {
    fn name(&self) -> &str {
        &self.name
    }

    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let Some(forward) = self.forward else { bail!(Value, "a callback is null") };
        let (given, mut made) = (Handles::of(inputs), Handles::absent(self.n_outputs));
        let write = ptr::from_mut(ctx);
        let mut context = CortenContext { read: write, write };
        // SAFETY: whoever made the function promised that it can be called so.
        let status = unsafe {
            let (given, made) = (given.as_ptr(), made.as_mut_ptr());
            forward(&raw mut context, self.user.data, given, inputs.len(), made, self.n_outputs)
        };
        check_callback(&self.name, status)?;
        Ok(made.into_tensors())
    }

    fn backward(&self, ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
        let Some(backward) = self.backward else { bail!(Value, "a callback is null") };
        let count = ctx.needs_input_grad().len();
        let (given, mut made) = (Handles::of(grads), Handles::absent(count));
        let mut context = CortenContext { read: ctx, write: ptr::null_mut() };
        // SAFETY: whoever made the function promised that it can be called so.
        let status = unsafe {
            let (given, made) = (given.as_ptr(), made.as_mut_ptr());
            backward(&raw mut context, self.user.data, given, grads.len(), made, count)
        };
        check_callback(&self.name, status)?;
        Ok(made.into_tensors())
    }
}

/// Calls a function and records it. `outputs` receives as many new references as the function has outputs.
///
/// # Safety
/// `function` must be alive and hold what it says; `inputs` must be valid for `n_inputs` handles, which are alive,
/// `outputs` for as many writes as the function has outputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_function_apply(
    function: *const CortenFunction,
    inputs: *const *mut CortenTensor,
    n_inputs: usize,
    outputs: *mut *mut CortenTensor,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let given =
            *unsafe { function.as_ref() }.ok_or_else(|| err!(Value, "a function is null"))?;
        // SAFETY: promised by whoever made the function.
        let user = unsafe { UserData::new(given.data, given.free) };
        check_place(outputs)?;
        let name = match given.name.is_null() {
            true => "Function",
            // SAFETY: the caller's.
            false => unsafe { text_of("the name of a function", given.name) }?,
        };
        let CortenFunction { n_outputs, forward, backward, .. } = given;
        let function = Foreign { name: name.to_owned(), n_outputs, forward, backward, user };
        // SAFETY: the caller's.
        let results = apply(function, &unsafe { tensors_of(inputs, n_inputs) }?)?;
        for (index, result) in results.into_iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { write_to(outputs.wrapping_add(index), give(result)) }?;
        }
        Ok(())
    })
}

/// # Safety
/// `context` must be what a callback was called with, while it runs.
unsafe fn writable<'a>(context: *mut CortenContext) -> Result<&'a mut Context> {
    // SAFETY: the caller's: the context of the forward direction is borrowed exclusively there.
    match unsafe { context.as_ref().and_then(|context| context.write.as_mut()) } {
        Some(found) => Ok(found),
        None => bail!(Runtime, "only the forward callback of a function changes its context"),
    }
}

/// # Safety
/// `context` must be what a callback was called with, while it runs.
unsafe fn readable<'a>(context: *const CortenContext) -> Result<&'a Context> {
    // SAFETY: the caller's.
    match unsafe { context.as_ref().and_then(|context| context.read.as_ref()) } {
        Some(found) => Ok(found),
        None => bail!(Value, "a context is null"),
    }
}

/// Keeps inputs and outputs for the backward direction.
///
/// # Safety
/// `context` must be what the forward callback was called with; the list must be valid for `count` handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_context_save(
    context: *mut CortenContext,
    tensors: *const *mut CortenTensor,
    count: usize,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        unsafe { writable(context)?.save_for_backward(&tensors_of(tensors, count)?) };
        Ok(())
    })
}

/// Says which inputs the function has written to. It must return them.
///
/// # Safety
/// As `corten_context_save`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_context_mark_dirty(
    context: *mut CortenContext,
    tensors: *const *mut CortenTensor,
    count: usize,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        unsafe { writable(context)?.mark_dirty(&tensors_of(tensors, count)?) };
        Ok(())
    })
}

/// Says which outputs have no gradient.
///
/// # Safety
/// As `corten_context_save`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_context_mark_non_differentiable(
    context: *mut CortenContext,
    tensors: *const *mut CortenTensor,
    count: usize,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        unsafe { writable(context)?.mark_non_differentiable(&tensors_of(tensors, count)?) };
        Ok(())
    })
}

/// The tensor of a number that the forward callback saved, a new reference.
///
/// # Safety
/// `context` must be what a callback was called with, `tensor` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_context_saved(
    context: *const CortenContext,
    index: usize,
    tensor: *mut *mut CortenTensor,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let saved = unsafe { readable(context) }?.saved_tensors()?;
        let Some(found) = saved.get(index) else {
            bail!(Index, "there is no saved tensor {index}: {} were saved", saved.len());
        };
        // SAFETY: the caller's.
        unsafe { write_to(tensor, give(found.clone())) }
    })
}

/// Whether an input requires a gradient.
///
/// # Safety
/// `context` must be what a callback was called with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_context_needs_grad(
    context: *const CortenContext,
    input: usize,
) -> bool {
    guard_value(false, || {
        // SAFETY: the caller's.
        let needs = unsafe { readable(context) }?.needs_input_grad();
        Ok(needs.get(input).copied().unwrap_or(false))
    })
}
