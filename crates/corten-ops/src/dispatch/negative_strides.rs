//! Tensors with negative strides, of which kernels see copies; see Note [Negative strides].

use super::fallback::{replace_arguments, restore, set_fallback};
use super::table::BoxedCall;
use crate::boxed::{IValue, Stack};
use crate::registry::{self, OpDef, OpKind};
use crate::{Tensor, op};
use corten_core::keys::NEGATIVE_STRIDES;
use corten_core::{Dims, DispatchKey, MemoryFormat, Result, bug};
use std::sync::Arc;

/// Registers what happens at the key.
pub(super) fn register() {
    set_fallback(DispatchKey::NegativeStrides, Arc::new(with_copies));
    if let Some(copy) = registry::find("aten::copy_") {
        copy.implement_boxed(DispatchKey::NegativeStrides, Arc::new(|_, stack| copy_(stack)))
            .keep();
    }
}

/// Whether an operator computes with strides alone, or replaces them: views, views in place, and changes of a
/// tensor's storage.
pub(crate) fn passes(def: &OpDef) -> bool {
    let replaces = def.kind == OpKind::Inplace && def.tags.contains(&"lazy");
    def.kind == OpKind::View || def.is_view_inplace || replaces || def.name == "is_set_to"
}

fn has_negative(tensor: &Tensor) -> bool {
    tensor.key_set().has_any(NEGATIVE_STRIDES)
}

/// The dimensions of negative strides.
fn negative_dims(tensor: &Tensor) -> Dims {
    let strides = tensor.strides();
    (0..strides.len()).filter(|&dim| strides[dim] < 0).map(|dim| dim as i64).collect()
}

/// The same elements in memory of their own, without negative strides.
fn copy_of(tensor: &Tensor) -> Result<Tensor> {
    let dims = negative_dims(tensor);
    op::flip(&op::flip_view(tensor, &dims)?, &dims)
}

/// Runs an operator on copies. What it writes to is copied back.
fn with_copies(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let written = replace_arguments(call, stack, &mut |tensor, _| {
        has_negative(tensor).then(|| copy_of(tensor)).transpose()
    })?;
    call.op().call_boxed(stack)?;
    for (original, copy) in &written {
        if original.sizes() != copy.sizes() {
            original.resize(&copy.sizes(), None::<MemoryFormat>)?;
        }
        op::copy_(original, copy, false)?;
    }
    restore(stack, &written)
}

/// Copies from or to such a tensor: to the elements in the order of memory, from those in the same order.
fn copy_(stack: &mut Stack) -> Result<()> {
    let [IValue::Tensor(target), IValue::Tensor(source), IValue::Bool(non_blocking)] = &stack[..]
    else {
        bug!("copy_ got {} arguments", stack.len());
    };
    let source = if has_negative(source) { copy_of(source)? } else { source.clone() };
    if has_negative(target) {
        let dims = negative_dims(target);
        let source = op::flip(&op::expand(&source, &target.sizes(), false)?, &dims)?;
        op::copy_(&op::flip_view(target, &dims)?, &source, *non_blocking)?;
    } else {
        op::copy_(target, &source, *non_blocking)?;
    }
    let target = target.clone();
    stack.replace(target);
    Ok(())
}
