//! Gradients into buckets and back.

use super::bucket::Bucket;
use super::reducer::Options;
use corten_autograd::Autograd;
use corten_core::{Layout, MemoryFormat, Result, bail};
use corten_ops::{Tensor, op};

/// Gradients that are there become views of the bucket.
pub(super) fn move_gradients(bucket: &Bucket, params: &[Tensor]) -> Result<()> {
    for (slot, view) in bucket.slots.iter().zip(&bucket.views) {
        let param = &params[slot.variable];
        if let Some(grad) = param.grad() {
            op::copy_(view, &op::detach(&grad)?, false)?;
            param.set_grad(Some(view))?;
        }
    }
    Ok(())
}

/// Puts the gradient of a parameter into its place, divided by the number of ranks if one is given.
/// Without a gradient, zeros.
pub(super) fn copy_in(
    bucket: &Bucket,
    slot: usize,
    param: &Tensor,
    divisor: Option<f64>,
    options: &Options,
) -> Result<()> {
    let Some(view) = bucket.views.get(slot) else {
        bail!(Runtime, "Gradient bucket storage has not been allocated yet.");
    };
    let Some(grad) = param.grad() else {
        op::zero_(view)?;
        return Ok(());
    };
    if grad.is_alias_of(view) {
        if let Some(divisor) = divisor {
            op::div__scalar(view, divisor.into())?;
        }
        return Ok(());
    }
    if grad.layout() != Layout::Strided {
        bail!(
            Runtime,
            "Reducer: a parameter has a gradient in the layout {:?}, but a dense one is expected",
            grad.layout()
        );
    }
    // A pass with `create_graph` has history, of which the other ranks know nothing.
    let grad = if grad.requires_grad() { op::detach(&grad)? } else { grad };
    match divisor {
        Some(divisor) => {
            op::mul_out(&grad, &corten_ops::derived::wrapped((1.0 / divisor).into())?, view)?;
        }
        None => {
            op::copy_(view, &grad, false)?;
        }
    }
    if options.gradient_as_bucket_view {
        param.set_grad(Some(view))?;
    }
    Ok(())
}

/// Makes the result of a bucket the gradients of its parameters, but for those that no rank has used.
pub(super) fn copy_out(
    bucket: &Bucket,
    result: &[Tensor],
    params: &[Tensor],
    options: &Options,
    mut is_unused: impl FnMut(usize) -> Result<bool>,
) -> Result<()> {
    for ((slot, view), result) in bucket.slots.iter().zip(&bucket.views).zip(result) {
        let param = &params[slot.variable];
        if is_unused(slot.variable)? {
            continue;
        }
        if options.gradient_as_bucket_view {
            keep_view(param, view, result)?;
            continue;
        }
        match param.grad() {
            Some(grad) => {
                op::copy_(&grad, result, false)?;
            }
            None => param.set_grad(Some(&clone_as(result, param)?))?,
        }
    }
    Ok(())
}

/// The gradient is a view of the bucket, which gets what a hook has made elsewhere.
fn keep_view(param: &Tensor, view: &Tensor, result: &Tensor) -> Result<()> {
    if !result.is_alias_of(view) {
        op::copy_(view, result, false)?;
    }
    match param.grad() {
        Some(grad) if !grad.is_alias_of(view) => bail!(
            Runtime,
            "Detected at least one parameter gradient is not the expected DDP bucket view with \
             gradient_as_bucket_view=True. This may happen (for example) if multiple allreduce \
             hooks were registered onto the same parameter. If you hit this error, please file an \
             issue with a minimal repro."
        ),
        Some(_) => Ok(()),
        None => param.set_grad(Some(view)),
    }
}

/// A copy in the parameter's strides where these are dense, and in its dtype.
fn clone_as(result: &Tensor, param: &Tensor) -> Result<Tensor> {
    let result = if result.dtype() == param.dtype() {
        result.clone()
    } else {
        op::to_dtype(result, param.dtype(), false, false, None)?
    };
    let reversed = param.strides().iter().any(|&stride| stride < 0);
    if !param.is_non_overlapping_and_dense() || reversed {
        return op::clone(&result, Some(MemoryFormat::Contiguous));
    }
    let (sizes, strides) = (param.sizes(), param.strides());
    let copy = op::new_empty_strided(&result, &sizes, &strides, None, None, None, None)?;
    op::copy_(&copy, &result, false)
}
