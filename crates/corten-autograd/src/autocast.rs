//! Automatic casts: operators that compute as well, and faster, in a shorter dtype get their
//! floating-point arguments in it; those that do not get float32.
//!
//! The keys of autocast are in every tensor and excluded in every thread, so that a thread without
//! it pays nothing. [`set_enabled`] includes the CPU's for the calling thread.

use crate::{graph, view};
use corten_core::tls::{self, ExcludeGuard};
use corten_core::{DType, DispatchKey, KeySet, Result, grad_mode_enabled};
use corten_ops::registry::Autocast;
use corten_ops::{BoxedCall, IValue, Library, Stack, Tensor, op, registry};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Once;

const KEY: DispatchKey = DispatchKey::AutocastCPU;

/// The dtype that the arguments of a call are cast to.
type Choose = fn(&Stack) -> DType;

#[derive(Clone, Copy)]
struct State {
    dtype: DType,
    caches: bool,
    nesting: i64,
}

thread_local! {
    static STATE: Cell<State> =
        const { Cell::new(State { dtype: DType::BFloat16, caches: true, nesting: 0 }) };
    /// Parameters and their casts, by the parameter's identity, which both keep alive.
    static CASTS: RefCell<HashMap<usize, (Tensor, Tensor)>> = RefCell::new(HashMap::new());
}

fn keys() -> KeySet {
    KeySet::from_key(KEY)
}

/// Whether operators of this thread cast the arguments that live on the CPU.
pub fn enabled() -> bool {
    !tls::local_exclude().has(KEY)
}

/// Turns casts of this thread on or off.
///
/// # Errors
/// `Runtime` when the kernels cannot be registered.
pub fn set_enabled(enabled: bool) -> Result<()> {
    if enabled {
        register()?;
    }
    tls::set_excluded(keys(), !enabled);
    Ok(())
}

/// The short dtype of this thread.
pub fn dtype() -> DType {
    STATE.get().dtype
}

/// Sets the short dtype of this thread.
pub fn set_dtype(dtype: DType) {
    STATE.set(State { dtype, ..STATE.get() });
}

/// Whether casts of parameters are kept until the outermost region of this thread ends.
pub fn caches() -> bool {
    STATE.get().caches
}

/// See [`caches`].
pub fn set_caches(caches: bool) {
    STATE.set(State { caches, ..STATE.get() });
}

/// Counts the regions that this thread is in; returns how many there are.
pub fn change_nesting(by: i64) -> i64 {
    let nesting = STATE.get().nesting + by;
    STATE.set(State { nesting, ..STATE.get() });
    nesting
}

/// Forgets the casts of parameters.
pub fn clear_cache() {
    // Dropped outside of the borrow: the last handle of a tensor may run anything.
    let casts = CASTS.with(|casts| std::mem::take(&mut *casts.borrow_mut()));
    drop(casts);
}

fn register() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| result = register_all());
    result
}

fn register_all() -> Result<()> {
    let library = Library::new("aten");
    for op in registry::all() {
        let Some(cast) = op.def().autocast else { continue };
        let choose: Choose = match cast {
            Autocast::Lower => |_| dtype(),
            Autocast::Float32 => |_| DType::Float32,
            Autocast::Widest => widest,
        };
        let kernel = move |call: &BoxedCall, stack: &mut Stack| cast_and_call(call, stack, choose);
        library.implement(&op.def().qualified_name(), KEY, kernel)?.keep();
    }
    Ok(())
}

fn cast_and_call(call: &BoxedCall, stack: &mut Stack, choose: Choose) -> Result<()> {
    let _off = ExcludeGuard::new(keys());
    let dtype = choose(stack);
    for value in stack.iter_mut() {
        cast(value, dtype)?;
    }
    call.op().call_boxed(stack)
}

/// Tensors that casts leave alone: doubles are wanted by somebody, and no numbers are no numbers.
fn is_eligible(tensor: &Tensor) -> bool {
    tensor.defined()
        && tensor.device().is_cpu()
        && tensor.dtype().is_floating_point()
        && tensor.dtype() != DType::Float64
}

fn widest(stack: &Stack) -> DType {
    let mut found = dtype();
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| {
            if is_eligible(tensor) && tensor.dtype() == DType::Float32 {
                found = DType::Float32;
            }
        });
    }
    found
}

fn cast(value: &mut IValue, dtype: DType) -> Result<()> {
    match value {
        IValue::Tensor(tensor) => *tensor = cast_tensor(tensor, dtype)?,
        IValue::TensorList(list) => {
            for tensor in list {
                *tensor = cast_tensor(tensor, dtype)?;
            }
        }
        IValue::OptionalTensorList(list) => {
            for tensor in list.iter_mut().flatten() {
                *tensor = cast_tensor(tensor, dtype)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn cast_tensor(tensor: &Tensor, to: DType) -> Result<Tensor> {
    if !is_eligible(tensor) || tensor.dtype() == to {
        return Ok(tensor.clone());
    }
    let new = || op::to_dtype(tensor, to, false, false, None);
    let is_parameter = tensor.dtype() == DType::Float32
        && graph::requires_grad(tensor)
        && graph::is_leaf(tensor)
        && !view::is_view(tensor);
    // A cast without a gradient would be of no use to a call that wants one.
    if !(is_parameter && caches() && to == dtype() && grad_mode_enabled()) {
        return new();
    }
    let identity = tensor.impl_ptr() as usize;
    if let Some(known) =
        CASTS.with_borrow(|casts| casts.get(&identity).map(|(_, cast)| cast.clone()))
    {
        return Ok(known);
    }
    let made = new()?;
    CASTS.with_borrow_mut(|casts| casts.insert(identity, (tensor.clone(), made.clone())));
    Ok(made)
}
