//! Dispatch modes: Python functions that see every call of an operator below autograd, and traces,
//! which see those that programs make, before operators made of others call these.

use crate::library::run;
use crate::py::errors::type_error;
use crate::py::gil::Shared;
use crate::py::{Args, Obj, Py, ffi, method};
use corten_core::tls::{local_include, set_included};
use corten_core::{DispatchKey, KeySet, Result, err};
use corten_ops::dispatch::set_fallback;
use corten_ops::{BoxedCall, IValue, Stack, registry};
use std::sync::{Arc, OnceLock};

const KEY: DispatchKey = DispatchKey::Python;
const TRACE: DispatchKey = DispatchKey::Tracer;

/// The functions that Python hands every call to, with the operator's name before the arguments.
static HANDLER: OnceLock<Shared> = OnceLock::new();
static TRACER: OnceLock<Shared> = OnceLock::new();

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_set_dispatch_handler", |_m: &Obj, args: Args<'_>| {
            let [function] = args.positional else { return Err(type_error("a function expected")) };
            if HANDLER.set(Shared::new(function.clone())).is_ok() {
                set_fallback(KEY, Arc::new(|call, stack| handle(&HANDLER, call, stack)));
            }
            Ok(Obj::none())
        }),
        method!("_set_trace_handler", |_m: &Obj, args: Args<'_>| {
            let [function] = args.positional else { return Err(type_error("a function expected")) };
            if TRACER.set(Shared::new(function.clone())).is_ok() {
                set_fallback(TRACE, Arc::new(|call, stack| handle(&TRACER, call, stack)));
            }
            Ok(Obj::none())
        }),
        method!("_set_tracing_enabled", |_m: &Obj, args: Args<'_>| switch(TRACE, args)),
        method!("_set_dispatch_modes_enabled", |_m: &Obj, args: Args<'_>| switch(KEY, args)),
    ]
}

/// Includes a key in every call of the thread, or no longer; says whether it was included.
fn switch(key: DispatchKey, args: Args<'_>) -> Py<Obj> {
    let [enabled] = args.positional else { return Err(type_error("a bool expected")) };
    let before = local_include().has(key);
    set_included(KeySet::from_key(key), enabled.is_true()?);
    Ok(Obj::bool(before))
}

fn handle(handler: &OnceLock<Shared>, call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let handler = handler.get().ok_or_else(|| err!(Runtime, "no dispatch mode is active"))?;
    if handler_takes_numbers(call) {
        numbers_of_wrapped(stack)?;
    }
    run(call, || Some(handler.get()), stack, true)
}

/// Whether Python calls the operator with numbers: its operands may be such, or an overload takes a scalar.
fn handler_takes_numbers(call: &BoxedCall) -> bool {
    let def = call.op().def();
    let scalar = || registry::find(&format!("{}::{}.Scalar", def.namespace, def.name)).is_some();
    def.numbers || (def.overload == "Tensor" && scalar())
}

/// Puts numbers that became operands back in their places: that is how Python passes them.
fn numbers_of_wrapped(stack: &mut Stack) -> Result<()> {
    for value in stack.iter_mut() {
        if let IValue::Tensor(operand) = value
            && operand.defined()
            && operand.is_wrapped_number()
        {
            *value = crate::tensor::item(operand)?.into();
        }
    }
    Ok(())
}
