//! The kernels of the keys of `vmap`.

use super::levels::{self, Hidden, Randomness};
use super::{is_batched, of, rules, wrap};
use crate::boxed::{IValue, Stack};
use crate::dispatch::{BoxedCall, set_fallback};
use crate::registry::{AnyOp, OpDef, OpKind};
use crate::{Tensor, op};
use corten_core::{DispatchKey, Result, bail, ensure};
use std::sync::Arc;

/// Registers the kernels.
pub(crate) fn register() {
    set_fallback(DispatchKey::FuncTorchBatched, Arc::new(batched));
    set_fallback(DispatchKey::FuncTorchVmapMode, Arc::new(random));
}

/// A call of an operator on the items of a level.
///
/// ```
/// use corten::ops::batched::Batch;
/// use corten::ops::registry;
///
/// if let Some(op) = registry::find("aten::exp") {
///     let batch = Batch { op, level: 1, size: 3 };
///     assert!(!batch.has(&corten::Tensor::default()));
/// }
/// ```
pub struct Batch {
    /// The operator.
    pub op: &'static dyn AnyOp,
    /// The level.
    pub level: u64,
    /// The number of items.
    pub size: i64,
}

impl Batch {
    /// What a batched tensor of this level stands for.
    pub fn split(&self, tensor: &Tensor) -> (Tensor, Option<usize>) {
        match of(tensor).filter(|found| found.level == self.level) {
            Some(found) => (found.value, Some(found.dim)),
            None => (tensor.clone(), None),
        }
    }

    /// Whether the tensor has items of this level.
    pub fn has(&self, tensor: &Tensor) -> bool {
        of(tensor).is_some_and(|found| found.level == self.level)
    }

    /// The value with the hidden dimension in front; a tensor without one as it is.
    pub fn front(&self, tensor: &Tensor) -> Result<Tensor> {
        match self.split(tensor) {
            (value, Some(0) | None) => Ok(value),
            (value, Some(dim)) => op::movedim_int(&value, dim as i64, 0),
        }
    }

    /// The value with the hidden dimension in front; a tensor without one is repeated.
    pub fn front_expanded(&self, tensor: &Tensor) -> Result<Tensor> {
        if self.has(tensor) {
            return self.front(tensor);
        }
        let mut sizes = vec![self.size];
        sizes.extend_from_slice(&tensor.sizes());
        op::expand(tensor, &sizes, false)
    }

    /// A tensor of the items along the first dimension.
    pub fn wrap(&self, value: Tensor) -> Result<Tensor> {
        wrap(value, 0, self.level)
    }

    /// Calls the operator on values and leaves batched results on the stack, their items along the
    /// first dimension. What the operator writes to was batched before.
    pub fn call(&self, stack: &mut Stack, originals: &Stack) -> Result<()> {
        self.op.call_boxed(stack)?;
        if self.op.def().kind == OpKind::Inplace {
            stack.replace(first(originals)?.clone());
            return Ok(());
        }
        self.wrap_results(stack)
    }

    /// Makes every tensor on the stack one of items along its first dimension.
    pub fn wrap_results(&self, stack: &mut Stack) -> Result<()> {
        for value in stack.iter_mut() {
            map(value, &mut |tensor| {
                // A buffer that a kernel leaves empty has no items.
                let empty = tensor.sizes().as_slice() == [0] && self.size != 0;
                if empty { Ok(tensor.clone()) } else { self.wrap(tensor.clone()) }
            })?;
        }
        Ok(())
    }

    /// Fails for an operator in place whose `self` has no items while others have.
    pub fn check_written(&self, stack: &Stack) -> Result<()> {
        if self.op.def().kind != OpKind::Inplace {
            return Ok(());
        }
        ensure!(
            self.has(first(stack)?),
            Runtime,
            "vmap: {}(self, *extra_args) is not possible because there exists a Tensor `other` in \
             extra_args that has more elements than `self`. This happened due to `other` being \
             vmapped over but `self` not being vmapped over in a vmap. Please try to use \
             out-of-place operators instead of {}.",
            self.op.def().name,
            self.op.def().name
        );
        Ok(())
    }
}

/// The first argument, a tensor.
pub(super) fn first(stack: &Stack) -> Result<&Tensor> {
    match stack.first() {
        Some(IValue::Tensor(tensor)) => Ok(tensor),
        _ => bail!(Internal, "vmap: an operator without a tensor in front"),
    }
}

/// Replaces every defined tensor of a value.
pub(super) fn map(
    value: &mut IValue,
    replace: &mut dyn FnMut(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    match value {
        IValue::Tensor(tensor) if tensor.defined() => *tensor = replace(tensor)?,
        IValue::TensorList(list) => {
            for tensor in list.iter_mut().filter(|tensor| tensor.defined()) {
                *tensor = replace(tensor)?;
            }
        }
        IValue::OptionalTensorList(list) => {
            for tensor in list.iter_mut().flatten().filter(|tensor| tensor.defined()) {
                *tensor = replace(tensor)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn highest_level(stack: &Stack) -> Option<u64> {
    let mut highest = None;
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| {
            highest = highest.max(of(tensor).map(|found| found.level));
        });
    }
    highest
}

fn batched(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let op = call.op();
    let Some(level) = highest_level(stack) else { return call.redispatch(stack) };
    let Some((size, _)) = levels::info(level) else {
        bail!(
            Runtime,
            "vmap: {} was called on a tensor of a vmap that has returned. Please return it from \
             the function instead of keeping it",
            op.def().name
        );
    };
    let _hidden = Hidden::new(level);
    let batch = Batch { op, level, size };
    batch.check_written(stack)?;
    let def = op.def();
    // In place on sizes and strides.
    if def.is_view_inplace || def.tags.contains(&"resizes") {
        return rules::reshaped(&batch, stack);
    }
    refuse(&batch, stack)?;
    match op.def().batch {
        Some(rule) => rule(&batch, stack),
        None => rules::items(&batch, stack),
    }
}

/// Fails for operators that have no meaning for items.
fn refuse(batch: &Batch, stack: &Stack) -> Result<()> {
    let def = batch.op.def();
    if def.kind == OpKind::Out {
        bail!(
            Runtime,
            "vmap: {}(...) with out= is not supported: what it would write to has another size for \
             a batch. Please use the variant that returns its result",
            def.name
        );
    }
    ensure!(
        !["set_", "detach_", "rename_"].contains(&def.name),
        NotImplemented,
        "vmap: {} changes its tensor in place, which is not supported for items. Please use the \
         variant that returns a result",
        def.name
    );
    match def.name {
        // With one mask for all items their results have the same shape.
        "masked_select" if stack[1].get::<&Tensor>().is_ok_and(|mask| !batch.has(mask)) => Ok(()),
        "_local_scalar_dense" | "item" => bail!(
            Runtime,
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over \
             calling .item() on a Tensor, please try to rewrite what you're doing with other \
             operations."
        ),
        "nonzero" | "masked_select" => bail!(
            Runtime,
            "vmap: It looks like you're calling {} on a Tensor: the items' results would have \
             different shapes. Please use an operator whose result's shape does not depend on the \
             data, such as where",
            def.name
        ),
        _ => Ok(()),
    }
}

/// Fails for a tensor whose items may be true and false at once.
///
/// # Errors
/// `Runtime` for a batched tensor.
pub fn check_decidable(tensor: &Tensor) -> Result<()> {
    ensure!(
        !is_batched(tensor),
        Runtime,
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control \
         flow. We don't support that yet: please use an operator such as where"
    );
    Ok(())
}

/// The kernel of operators that draw random numbers, while a level is open.
fn random(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let Some((level, size, randomness)) = levels::top() else { return call.redispatch(stack) };
    ensure!(
        randomness != Randomness::Error,
        Runtime,
        "vmap: called random operation while in randomness error mode. Please either use the \
         'same' or 'different' randomness flags on vmap or perform the randomness operation out of \
         vmap"
    );
    let _hidden = Hidden::new(level);
    let batch = Batch { op: call.op(), level, size };
    let mut has_items = false;
    stack.iter().for_each(|value| value.for_each_tensor(&mut |t| has_items |= batch.has(t)));
    match randomness {
        Randomness::Same if has_items => rules::same_numbers(&batch, stack),
        Randomness::Same => batch.op.call_boxed(stack),
        _ => different_numbers(&batch, stack, has_items),
    }
}

fn different_numbers(batch: &Batch, stack: &mut Stack, has_items: bool) -> Result<()> {
    let def = batch.op.def();
    if def.kind == OpKind::Inplace && !batch.has(first(stack)?) {
        bail!(
            Runtime,
            "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will \
             appear like same randomness."
        );
    }
    match def.batch {
        Some(rule) if has_items => rule(batch, stack),
        _ => rules::items(batch, stack),
    }
}

/// Whether an operator draws random numbers.
pub(crate) fn is_random(def: &OpDef) -> bool {
    let declared = def.source.starts_with("ops/random.toml") || def.name == "native_dropout";
    declared || def.schema.contains("Generator?")
}

/// Whether a value holds a tensor with a hidden dimension.
pub(super) fn any_batched(value: &IValue) -> bool {
    let mut found = false;
    value.for_each_tensor(&mut |tensor| found |= is_batched(tensor));
    found
}
