//! Automatic casts: operators that compute as well, and faster, in a shorter dtype get their
//! floating-point arguments in it; those that do not get float32.
//!
//! The keys of autocast are in every tensor and excluded in every thread, so that a thread without
//! it pays nothing. [`set_enabled`] includes that of a kind of device for the calling thread.

use crate::{graph, view};
use corten_core::tls::{self, ExcludeGuard};
use corten_core::{DType, DeviceType, DispatchKey, KeySet, Result, grad_mode_enabled};
use corten_ops::registry::Autocast;
use corten_ops::{BoxedCall, IValue, Library, Stack, Tensor, op, registry};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Once;

/// A kind of device whose operators can be cast for.
///
/// ```
/// use corten::autograd::autocast::{self, AutocastDevice};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// assert_eq!(autocast::dtype(AutocastDevice::Cpu), DType::BFloat16);
/// autocast::set_enabled(AutocastDevice::Cpu, true)?;
/// let product = op::mm(&tensor![[1.0, 2.0]]?, &tensor![[3.0], [4.0]]?)?;
/// autocast::set_enabled(AutocastDevice::Cpu, false)?;
/// assert_eq!(product.dtype(), DType::BFloat16);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutocastDevice {
    /// The host.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
}

impl AutocastDevice {
    fn key(self) -> DispatchKey {
        match self {
            Self::Cpu => DispatchKey::AutocastCPU,
            Self::Cuda => DispatchKey::AutocastCUDA,
        }
    }

    fn device_type(self) -> DeviceType {
        match self {
            Self::Cpu => DeviceType::Cpu,
            Self::Cuda => DeviceType::Cuda,
        }
    }
}

/// The dtype that the arguments of a call are cast to.
type Choose = fn(AutocastDevice, &Stack) -> DType;

#[derive(Clone, Copy)]
struct State {
    /// The short dtypes, by kind of device.
    dtypes: [DType; 2],
    caches: bool,
    nesting: i64,
}

thread_local! {
    static STATE: Cell<State> = const {
        Cell::new(State { dtypes: [DType::BFloat16, DType::Float16], caches: true, nesting: 0 })
    };
    /// Parameters and their casts, by the parameter's identity, which both keep alive.
    static CASTS: RefCell<HashMap<usize, (Tensor, Tensor)>> = RefCell::new(HashMap::new());
}

fn keys(kind: AutocastDevice) -> KeySet {
    KeySet::from_key(kind.key())
}

/// Whether operators of this thread cast the arguments that live on such a device.
pub fn enabled(kind: AutocastDevice) -> bool {
    !tls::local_exclude().has(kind.key())
}

/// Turns casts of this thread on or off.
///
/// # Errors
/// `Runtime` when the kernels cannot be registered.
pub fn set_enabled(kind: AutocastDevice, enabled: bool) -> Result<()> {
    if enabled {
        register(kind)?;
    }
    tls::set_excluded(keys(kind), !enabled);
    Ok(())
}

/// The short dtype of this thread.
pub fn dtype(kind: AutocastDevice) -> DType {
    STATE.get().dtypes[kind as usize]
}

/// Sets the short dtype of this thread.
pub fn set_dtype(kind: AutocastDevice, dtype: DType) {
    let mut state = STATE.get();
    state.dtypes[kind as usize] = dtype;
    STATE.set(state);
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

fn register(kind: AutocastDevice) -> Result<()> {
    static ONCE: [Once; 2] = [const { Once::new() }; 2];
    let mut result = Ok(());
    ONCE[kind as usize].call_once(|| result = register_all(kind));
    result
}

fn register_all(kind: AutocastDevice) -> Result<()> {
    let library = Library::new("aten");
    for op in registry::all() {
        let cast = match kind {
            AutocastDevice::Cpu => op.def().autocast,
            AutocastDevice::Cuda => op.def().autocast_cuda,
        };
        let Some(cast) = cast else { continue };
        let choose: Choose = match cast {
            Autocast::Lower => |kind, _| dtype(kind),
            Autocast::Float32 => |_, _| DType::Float32,
            Autocast::Widest => widest,
        };
        let kernel =
            move |call: &BoxedCall, stack: &mut Stack| cast_and_call(kind, call, stack, choose);
        library.implement(&op.def().qualified_name(), kind.key(), kernel)?.keep();
    }
    Ok(())
}

fn cast_and_call(
    kind: AutocastDevice,
    call: &BoxedCall,
    stack: &mut Stack,
    choose: Choose,
) -> Result<()> {
    let _off = ExcludeGuard::new(keys(kind));
    let dtype = choose(kind, stack);
    for value in stack.iter_mut() {
        cast(kind, value, dtype)?;
    }
    call.op().call_boxed(stack)
}

/// Tensors that casts leave alone: doubles are wanted by somebody, and no numbers are no numbers.
fn is_eligible(kind: AutocastDevice, tensor: &Tensor) -> bool {
    tensor.defined()
        && tensor.device().device_type == kind.device_type()
        && tensor.dtype().is_floating_point()
        && tensor.dtype() != DType::Float64
}

fn widest(kind: AutocastDevice, stack: &Stack) -> DType {
    let mut found = dtype(kind);
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| {
            if is_eligible(kind, tensor) && tensor.dtype() == DType::Float32 {
                found = DType::Float32;
            }
        });
    }
    found
}

fn cast(kind: AutocastDevice, value: &mut IValue, dtype: DType) -> Result<()> {
    match value {
        IValue::Tensor(tensor) => *tensor = cast_tensor(kind, tensor, dtype)?,
        IValue::TensorList(list) => {
            for tensor in list {
                *tensor = cast_tensor(kind, tensor, dtype)?;
            }
        }
        IValue::OptionalTensorList(list) => {
            for tensor in list.iter_mut().flatten() {
                *tensor = cast_tensor(kind, tensor, dtype)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn cast_tensor(kind: AutocastDevice, tensor: &Tensor, to: DType) -> Result<Tensor> {
    if !is_eligible(kind, tensor) || tensor.dtype() == to {
        return Ok(tensor.clone());
    }
    let new = || op::to_dtype(tensor, to, false, false, None);
    let is_parameter = tensor.dtype() == DType::Float32
        && graph::requires_grad(tensor)
        && graph::is_leaf(tensor)
        && !view::is_view(tensor);
    // A cast without a gradient would be of no use to a call that wants one.
    if !(is_parameter && caches() && to == dtype(kind) && grad_mode_enabled()) {
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
