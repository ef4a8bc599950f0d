//! What happens at a key for which an operator has no kernel of its own.

use super::groups::{is_autocast, is_autograd};
use super::table::{BoxedCall, BoxedKernel};
use crate::Tensor;
use crate::boxed::{IValue, Stack};
use crate::registry::{self, Gradient, OpDef};
use corten_core::{DispatchKey, Result, bail, bug, grad_mode_enabled};
use std::sync::{Arc, Once, OnceLock, PoisonError, RwLock};

/// The fallback of a key.
#[derive(Clone)]
pub(super) enum Fallback {
    /// Calls pass.
    Fallthrough,
    /// A kernel for every operator.
    Kernel(BoxedKernel),
}

static FALLBACKS: RwLock<Vec<(DispatchKey, Fallback)>> = RwLock::new(Vec::new());

/// Registers a kernel for every operator that has none at `key`.
///
/// Operators that were called before look their kernels up again.
pub fn set_fallback(key: DispatchKey, kernel: BoxedKernel) {
    set(key, Fallback::Kernel(kernel));
}

/// Lets calls of every operator that has no kernel at `key` pass.
pub fn set_fallthrough_fallback(key: DispatchKey) {
    set(key, Fallback::Fallthrough);
}

fn set(key: DispatchKey, fallback: Fallback) {
    let mut all = FALLBACKS.write().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(other, _)| *other != key);
    all.push((key, fallback));
    drop(all);
    clear_lookups();
}

/// Takes the fallback of a key out again.
pub fn remove_fallback(key: DispatchKey) {
    let mut all = FALLBACKS.write().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(other, _)| *other != key);
    drop(all);
    clear_lookups();
}

fn clear_lookups() {
    // Registrations count from one: none is taken back.
    registry::all().into_iter().filter(|op| op.was_called()).for_each(|op| op.deregister(0));
}

pub(super) fn of(key: DispatchKey, def: &OpDef) -> Option<Fallback> {
    if key == DispatchKey::FuncTorchVmapMode && !crate::batched::is_random(def) {
        return Some(Fallback::Fallthrough);
    }
    if key == DispatchKey::Named && def.names.is_some_and(|rule| rule.is_of_parts()) {
        return Some(Fallback::Fallthrough);
    }
    let all = FALLBACKS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = all.iter().find(|(other, _)| *other == key) {
        return Some(found.clone());
    }
    if is_autograd(key) {
        return Some(match def.gradient {
            Gradient::Unknown => Fallback::Kernel(Arc::new(autograd_not_implemented)),
            _ => Fallback::Fallthrough,
        });
    }
    let passes = key == DispatchKey::ADInplaceOrView
        || key == DispatchKey::BackendSelect
        || is_autocast(key);
    passes.then_some(Fallback::Fallthrough)
}

/// Registers the fallbacks that come with the dispatcher: lazily conjugated and negated tensors
/// are materialised before a kernel that does not know of the bit.
pub fn install_default_fallbacks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_fallback(
            DispatchKey::Conjugate,
            Arc::new(|call, stack| materialise(&CONJ, call, stack)),
        );
        set_fallback(DispatchKey::Negative, Arc::new(|call, stack| materialise(&NEG, call, stack)));
        super::negative_strides::register();
        crate::batched::register();
        crate::names::register();
        crate::opaque::register();
        crate::sparse::compressed::register();
        crate::profiler::register();
        crate::zero_tensor::register();
    });
}

/// Calls an operator whose derivative nobody knows, given the tensors that it writes to.
pub type Unrecorded = fn(&BoxedCall, &mut Stack, &[Tensor]) -> Result<()>;

static UNRECORDED: OnceLock<Unrecorded> = OnceLock::new();

/// Says how operators from outside without a derivative are called with tensors that require a
/// gradient. Only the first call has an effect; without one such calls are errors.
pub fn set_unrecorded(function: Unrecorded) {
    let _first = UNRECORDED.set(function);
}

/// An operator from outside without a derivative must not drop a gradient silently.
fn autograd_not_implemented(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let mut requires_grad = false;
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| requires_grad |= requires_gradient(tensor));
    }
    let written = written_tensors(call, stack);
    if grad_mode_enabled() && requires_grad {
        let Some(function) = UNRECORDED.get() else {
            bail!(
                NotImplemented,
                "derivative for {} is not implemented",
                call.op().def().qualified_name()
            );
        };
        return function(call, stack, &written);
    }
    call.redispatch(stack)?;
    written.iter().for_each(|tensor| tensor.bump_version());
    Ok(())
}

fn requires_gradient(tensor: &Tensor) -> bool {
    tensor.autograd_meta().is_some_and(|meta| meta.requires_grad())
}

fn written_tensors(call: &BoxedCall, stack: &Stack) -> Vec<Tensor> {
    let mut written = Vec::new();
    for (argument, value) in call.op().schema().arguments.iter().zip(stack.iter()) {
        if argument.is_written() {
            value.for_each_tensor(&mut |tensor| written.push(tensor.clone()));
        }
    }
    written
}

/// The operators that know one of the lazy bits.
struct LazyBit {
    is_set: fn(&Tensor) -> bool,
    /// A view without (or with) the bit.
    toggle: &'static str,
    /// The bit's meaning applied to the data.
    physical_inplace: &'static str,
    /// A tensor of the same values without the bit.
    resolve: &'static str,
}

static CONJ: LazyBit = LazyBit {
    is_set: |tensor| tensor.is_conj(),
    toggle: "aten::_conj",
    physical_inplace: "aten::conj_physical_",
    resolve: "aten::resolve_conj",
};

static NEG: LazyBit = LazyBit {
    is_set: |tensor| tensor.is_neg(),
    toggle: "aten::_neg_view",
    physical_inplace: "aten::neg_",
    resolve: "aten::resolve_neg",
};

/// Runs an operator on materialised inputs. A written argument is computed apart and copied back:
/// other arguments may read the same memory.
fn materialise(bit: &LazyBit, call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let written = replace_arguments(call, stack, &mut |tensor, _| {
        (bit.is_set)(tensor).then(|| unary(bit.resolve, tensor)).transpose()
    })?;
    call.op().call_boxed(stack)?;
    for (original, plain) in &written {
        store(bit, plain, original)?;
    }
    restore(stack, &written)
}

/// Puts what `replace` makes of a tensor, given whether the operator writes to it, in the place of
/// arguments. Returns what is written to: the originals and what stands for them.
///
/// # Errors
/// Those of `replace`.
pub fn replace_arguments(
    call: &BoxedCall,
    stack: &mut Stack,
    replace: &mut dyn FnMut(&Tensor, bool) -> Result<Option<Tensor>>,
) -> Result<Vec<(Tensor, Tensor)>> {
    let mut written = Vec::new();
    for (argument, value) in call.op().schema().arguments.iter().zip(stack.iter_mut()) {
        let is_written = argument.is_written();
        replace_tensors(value, &mut |tensor| {
            let Some(other) = replace(tensor, is_written)? else { return Ok(tensor.clone()) };
            if is_written {
                written.push((tensor.clone(), other.clone()));
            }
            Ok(other)
        })?;
    }
    Ok(written)
}

/// Puts originals in the place of what stood for them.
pub(crate) fn restore(stack: &mut Stack, written: &[(Tensor, Tensor)]) -> Result<()> {
    for value in stack.iter_mut() {
        replace_tensors(value, &mut |tensor| {
            let found = written.iter().find(|(_, other)| tensor.is_same(other));
            Ok(found.map_or(tensor, |(original, _)| original).clone())
        })?;
    }
    Ok(())
}

/// Writes `plain`, a tensor of its own, to `target`, which has the bit.
fn store(bit: &LazyBit, plain: &Tensor, target: &Tensor) -> Result<()> {
    if plain.sizes() != target.sizes() {
        target.resize(&plain.sizes(), None)?;
    }
    unary(bit.physical_inplace, plain)?;
    let mut stack = Stack::new();
    stack.push(IValue::from(&unary(bit.toggle, target)?));
    stack.push(IValue::from(plain));
    stack.push(IValue::from(false));
    call("aten::copy_", &mut stack)
}

/// Puts other tensors in the place of those of a value.
///
/// # Errors
/// Those of `replace`.
pub fn replace_tensors(
    value: &mut IValue,
    replace: &mut dyn FnMut(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    match value {
        IValue::Tensor(tensor) => *tensor = replace(tensor)?,
        IValue::TensorList(list) => {
            for tensor in list {
                *tensor = replace(tensor)?;
            }
        }
        IValue::OptionalTensorList(list) => {
            for tensor in list.iter_mut().flatten() {
                *tensor = replace(tensor)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn unary(name: &str, tensor: &Tensor) -> Result<Tensor> {
    let mut stack: Stack = std::iter::once(IValue::from(tensor)).collect();
    call(name, &mut stack)?;
    crate::boxed::returns(stack)
}

fn call(name: &str, stack: &mut Stack) -> Result<()> {
    let Some(op) = registry::find(name) else {
        bug!("the operator {name} is not registered");
    };
    op.call_boxed(stack)
}
