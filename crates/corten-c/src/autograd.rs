//! Gradients: recording, backward passes, modes.

use crate::status::{CortenStatus, guard, guard_value};
use crate::tensor::{CortenTensor, check_place, give, peek, tensor_at, write_to};
use crate::value::{slice_of, tensors_of};
use corten::autograd::{Autograd, BackwardOptions};
use corten::core::{bail, grad_mode_enabled, set_grad_mode, tls};
use corten::ops::Tensor;
use corten::{Result, op};
use std::ptr;

/// Whether operations on the tensor are recorded.
///
/// # Safety
/// `tensor` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_requires_grad(tensor: *const CortenTensor) -> bool {
    // SAFETY: the caller's.
    guard_value(false, || Ok(unsafe { peek(tensor) }?.requires_grad()))
}

/// Starts or ends recording of what is done with a leaf.
///
/// # Safety
/// `tensor` must be alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_set_requires_grad(
    tensor: *mut CortenTensor,
    requires_grad: bool,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        unsafe { peek(tensor) }?.requires_grad_(requires_grad)?;
        Ok(())
    })
}

/// Whether the tensor was made by the program and not by a recorded operation.
///
/// # Safety
/// `tensor` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_is_leaf(tensor: *const CortenTensor) -> bool {
    // SAFETY: the caller's.
    guard_value(false, || Ok(unsafe { peek(tensor) }?.is_leaf()))
}

/// The gradient that backward passes have accumulated, a new reference; null where there is none.
///
/// # Safety
/// `tensor` must be alive, `grad` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_grad(
    tensor: *const CortenTensor,
    grad: *mut *mut CortenTensor,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let found = unsafe { peek(tensor) }?.grad();
        // SAFETY: the caller's.
        unsafe { write_to(grad, found.map_or(ptr::null_mut(), give)) }
    })
}

/// Replaces the gradient; null takes it away.
///
/// # Safety
/// `tensor` must be alive, `grad` null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_set_grad(
    tensor: *mut CortenTensor,
    grad: *const CortenTensor,
) -> CortenStatus {
    guard(|| {
        let new = match grad.is_null() {
            true => None,
            // SAFETY: the caller's.
            false => Some(unsafe { tensor_at(grad) }?),
        };
        // SAFETY: the caller's.
        unsafe { peek(tensor) }?.set_grad(new.as_ref())
    })
}

/// The same elements without history, in the same memory.
///
/// # Safety
/// `tensor` must be alive, `detached` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensor_detach(
    tensor: *const CortenTensor,
    detached: *mut *mut CortenTensor,
) -> CortenStatus {
    guard(|| {
        check_place(detached)?;
        // SAFETY: the caller's.
        let made = op::detach(&*unsafe { peek(tensor) }?)?;
        // SAFETY: the caller's.
        unsafe { write_to(detached, give(made)) }
    })
}

/// The gradients that a pass starts with: none at all, or one per output of which some are null.
///
/// # Safety
/// As [`tensors_of`]; handles may be null.
unsafe fn grads_of(
    grads: *const *mut CortenTensor,
    count: usize,
) -> Result<Option<Vec<Option<Tensor>>>> {
    if grads.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's.
    let handles = unsafe { slice_of(grads, count) }?;
    let grad = |handle: &*mut CortenTensor| match handle.is_null() {
        true => Ok(None),
        // SAFETY: the caller's.
        false => unsafe { tensor_at(*handle) }.map(Some),
    };
    handles.iter().map(grad).collect::<Result<_>>().map(Some)
}

fn options(retain_graph: bool, create_graph: bool) -> BackwardOptions {
    BackwardOptions { retain_graph: Some(retain_graph || create_graph), create_graph }
}

/// Adds the gradients of `count` tensors to those of the leaves that they were made from. `grads` has the
/// gradient of each; null, also for all, stands for one and is allowed for tensors of one element. `retain_graph`
/// allows a second pass, `create_graph` records this one.
///
/// # Safety
/// The lists must be valid for `count` handles, which are alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_backward(
    tensors: *const *mut CortenTensor,
    grads: *const *mut CortenTensor,
    count: usize,
    retain_graph: bool,
    create_graph: bool,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let (tensors, grads) = unsafe { (tensors_of(tensors, count)?, grads_of(grads, count)?) };
        corten::backward(&tensors, grads.as_deref(), options(retain_graph, create_graph), None)
    })
}

/// The gradients of `n_outputs` tensors with respect to `n_inputs` others, as new references in `results`;
/// gradients of leaves stay as they are. An input that no output depends on is an error, unless `allow_unused`:
/// then its gradient is null.
///
/// # Safety
/// The lists must be valid for as many handles, which are alive; `results` for `n_inputs` writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_grad(
    outputs: *const *mut CortenTensor,
    grads: *const *mut CortenTensor,
    n_outputs: usize,
    inputs: *const *mut CortenTensor,
    n_inputs: usize,
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
    results: *mut *mut CortenTensor,
) -> CortenStatus {
    guard(|| {
        check_place(results)?;
        // SAFETY: the caller's.
        let (outputs, grads, inputs) = unsafe {
            let outputs = tensors_of(outputs, n_outputs)?;
            (outputs, grads_of(grads, n_outputs)?, tensors_of(inputs, n_inputs)?)
        };
        let options = options(retain_graph, create_graph);
        let allow = Some(allow_unused);
        let found = corten::grad(&outputs, &inputs, grads.as_deref(), options, allow, false)?;
        if found.len() != n_inputs {
            bail!(Internal, "{} gradients of {n_inputs} inputs", found.len());
        }
        for (index, grad) in found.into_iter().enumerate() {
            let grad = grad.map_or(ptr::null_mut(), give);
            // SAFETY: the caller's.
            unsafe { write_to(results.wrapping_add(index), grad) }?;
        }
        Ok(())
    })
}

/// Whether this thread records operations.
#[unsafe(no_mangle)]
pub extern "C" fn corten_is_grad_enabled() -> bool {
    guard_value(true, || Ok(grad_mode_enabled()))
}

/// Turns recording on or off in this thread, and returns what it was: `bool was = corten_set_grad_enabled(false)`
/// before and `corten_set_grad_enabled(was)` after a block are PyTorch's `no_grad`.
#[unsafe(no_mangle)]
pub extern "C" fn corten_set_grad_enabled(enabled: bool) -> bool {
    guard_value(true, || Ok(set_grad_mode(enabled)))
}

/// Sends the calls of this thread below autograd, or no longer, and returns what it was. Kernels at autograd keys
/// compute their results so.
#[unsafe(no_mangle)]
pub extern "C" fn corten_set_below_autograd(below: bool) -> bool {
    guard_value(false, || {
        let keys = corten::core::AUTOGRAD_KEYS | corten::core::ADINPLACEORVIEW;
        let was = tls::local_exclude();
        let all = was & keys == keys;
        tls::set_excluded(keys, below);
        Ok(all)
    })
}
