//! Wrappers that no rule of the generator covers: copies, detaching, resizing.

#![allow(non_snake_case, reason = "the functions are named as the overloads they wrap")]

use crate::backward::{Backward, Gradients};
use crate::graph;
use crate::node::NodeDef;
use crate::record;
use crate::tensor_ext::detach_in_place;
use corten_core::{BelowADInplaceOrViewGuard, Device, MemoryFormat, Result, Storage, bail};
use corten_ops::{Tensor, op};

static COPY: NodeDef =
    NodeDef { name: "CopyBackwards", saved: &["device"], outputs: 1, backward: copy_backward };

fn copy_backward<'a>(ctx: &Backward<'a>, grads: &[Tensor]) -> Result<Gradients<'a>> {
    let mut out = Gradients::new(ctx);
    if ctx.needs(0) {
        out.set(0, op::zeros_like(&grads[0], None, None, None, None, None)?);
    }
    if ctx.needs(1) {
        // The engine sums what was broadcast and casts to the source's dtype.
        let grad = &grads[0];
        out.set(
            1,
            match ctx.value::<Option<Device>>(0)? {
                Some(device) => op::to_device(grad, device, grad.dtype(), false, false, None)?,
                None => grad.clone(),
            },
        );
    }
    Ok(out)
}

/// `copy_`: the gradient goes to the source.
///
/// # Errors
/// For in-place writes that cannot be recorded, and those of the copy.
pub fn copy_(self_: &Tensor, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
    let mut recorded = record::begin_inplace(&COPY, &[self_.into(), src.into()], &[self_])?;
    if let Some(recorded) = &mut recorded {
        let device = src.device();
        recorded.value(Some(device).filter(|device| *device != self_.device()));
    }
    {
        let _below = BelowADInplaceOrViewGuard::new();
        op::copy_(self_, src, non_blocking)?;
    }
    record::bump(&[self_])?;
    if let Some(recorded) = recorded {
        recorded.finish_inplace(&[self_])?;
    }
    Ok(self_.clone())
}

/// `detach`: an alias without history. It shares the version counter but is no view that history
/// follows.
///
/// # Errors
/// Those of the operator.
pub fn detach(self_: &Tensor) -> Result<Tensor> {
    graph::visible_alias(self_)
}

/// `detach_`: the tensor forgets its history.
///
/// # Errors
/// For views.
pub fn detach_(self_: &Tensor) -> Result<Tensor> {
    detach_in_place(self_)?;
    Ok(self_.clone())
}

fn refuse_resize(tensor: &Tensor) -> Result<()> {
    if graph::requires_grad(tensor) {
        bail!(Runtime, "cannot resize variables that require grad");
    }
    Ok(())
}

/// `resize_`: not for tensors with a gradient; counts a version only if the shape changes.
///
/// # Errors
/// For tensors that require a gradient, and those of the operator.
pub fn resize_(
    self_: &Tensor,
    size: &[i64],
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    resized(self_, || op::resize_(self_, size, memory_format))
}

/// `resize_as_`: as [`resize_`].
///
/// # Errors
/// As [`resize_`].
pub fn resize_as_(
    self_: &Tensor,
    the_template: &Tensor,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    resized(self_, || op::resize_as_(self_, the_template, memory_format))
}

fn resized(tensor: &Tensor, resize: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    refuse_resize(tensor)?;
    record::check_inplace(&[tensor], &[])?;
    let before = tensor.sizes();
    {
        let _below = BelowADInplaceOrViewGuard::new();
        resize()?;
    }
    if tensor.sizes() != before {
        record::bump(&[tensor])?;
    }
    Ok(tensor.clone())
}

/// `set_()`: counts as an in-place write that is not recorded.
///
/// # Errors
/// For tensors that must not be written to, and those of the operator.
pub fn set_(self_: &Tensor) -> Result<Tensor> {
    replaced(self_, || op::set_(self_))
}

/// `set_` to a storage, as [`set_`].
///
/// # Errors
/// As [`set_`].
pub fn set__source_storage(self_: &Tensor, source: &Storage) -> Result<Tensor> {
    replaced(self_, || op::set__source_storage(self_, source))
}

/// `set_` to a view of a storage, as [`set_`].
///
/// # Errors
/// As [`set_`].
pub fn set__source_storage_storage_offset(
    self_: &Tensor,
    source: &Storage,
    storage_offset: i64,
    size: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    replaced(self_, || {
        op::set__source_storage_storage_offset(self_, source, storage_offset, size, stride)
    })
}

/// `set_` to another tensor, as [`set_`].
///
/// # Errors
/// As [`set_`].
pub fn set__source_tensor(self_: &Tensor, source: &Tensor) -> Result<Tensor> {
    replaced(self_, || op::set__source_tensor(self_, source))
}

/// `set_` to a view of another tensor's storage, as [`set_`].
///
/// # Errors
/// As [`set_`].
pub fn set__source_tensor_storage_offset(
    self_: &Tensor,
    source: &Tensor,
    storage_offset: i64,
    size: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    replaced(self_, || {
        op::set__source_tensor_storage_offset(self_, source, storage_offset, size, stride)
    })
}

fn replaced(tensor: &Tensor, replace: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    record::check_inplace(&[tensor], &[])?;
    {
        let _below = BelowADInplaceOrViewGuard::new();
        replace()?;
    }
    record::bump(&[tensor])?;
    Ok(tensor.clone())
}
