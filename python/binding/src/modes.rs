//! Dispatch modes: Python functions that see every call of an operator below autograd, and traces,
//! which see those that programs make, before operators made of others call these.

use crate::call_form::CallForm;
use crate::library::{results, run};
use crate::py::errors::type_error;
use crate::py::gil::{Shared, call_python};
use crate::py::{Args, Obj, Py, ffi, method};
use corten_core::tls::{local_include, set_included};
use corten_core::{DispatchKey, KeySet, Result, err};
use corten_ops::dispatch::set_fallback;
use corten_ops::{BoxedCall, Stack};
use std::cell::Cell;
use std::sync::{Arc, Once, OnceLock, PoisonError, RwLock};

const KEY: DispatchKey = DispatchKey::Python;
const TRACE: DispatchKey = DispatchKey::Tracer;

/// The functions that Python hands every call to, with the operator's name before the arguments.
static HANDLER: OnceLock<Shared> = OnceLock::new();
static TRACER: RwLock<Option<Shared>> = RwLock::new(None);
static RECORDER: OnceLock<Shared> = OnceLock::new();

thread_local! {
    /// Whether calls are handed to the recorder of programs, not to the tracer.
    static RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_set_dispatch_handler", |_m: &Obj, args: Args<'_>| {
            let [function] = args.positional else { return Err(type_error("a function expected")) };
            if HANDLER.set(Shared::new(function.clone())).is_ok() {
                set_fallback(KEY, Arc::new(dispatch));
            }
            Ok(Obj::none())
        }),
        method!("_set_trace_handler", set_trace_handler),
        method!("_set_record_handler", |_m: &Obj, args: Args<'_>| {
            let [function] = args.positional else { return Err(type_error("a function expected")) };
            if RECORDER.set(Shared::new(function.clone())).is_ok() {
                set_fallback(TRACE, Arc::new(trace));
            }
            Ok(Obj::none())
        }),
        method!("_set_tracing_enabled", |_m: &Obj, args: Args<'_>| switch(TRACE, args)),
        method!("_set_recording", |_m: &Obj, args: Args<'_>| {
            let [enabled] = args.positional else { return Err(type_error("a bool expected")) };
            Ok(Obj::bool(RECORDING.replace(enabled.is_true()?)))
        }),
        method!("_set_dispatch_modes_enabled", |_m: &Obj, args: Args<'_>| switch(KEY, args)),
    ]
}

/// Puts a function in the place of the one that traces; gives that, or None.
fn set_trace_handler(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let [function] = args.positional else { return Err(type_error("a function expected")) };
    let next = (!function.is_none()).then(|| Shared::new(function.clone()));
    let mut handler = TRACER.write().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *handler, next);
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| set_fallback(TRACE, Arc::new(trace)));
    Ok(before.map_or_else(Obj::none, |function| function.get()))
}

/// Includes a key in every call of the thread, or no longer; says whether it was included.
fn switch(key: DispatchKey, args: Args<'_>) -> Py<Obj> {
    let [enabled] = args.positional else { return Err(type_error("a bool expected")) };
    let before = local_include().has(key);
    set_included(KeySet::from_key(key), enabled.is_true()?);
    Ok(Obj::bool(before))
}

/// Hands a call to the modes of Python, in the form in which they expect it.
fn dispatch(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let handler = HANDLER.get().ok_or_else(|| err!(Runtime, "no dispatch mode is active"))?;
    hand_over(handler, call, stack)
}

fn hand_over(handler: &Shared, call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let arguments = std::mem::take(stack);
    *stack = call_python(|| {
        let mut form = CallForm::new(call.op(), &arguments)?;
        form.positional.insert(0, Obj::str_from(&form.name)?);
        let positional = Obj::tuple(form.positional.into_iter().map(Ok))?;
        let result = handler.get().call_tuple(&positional, Some(&form.named))?;
        results(&form.name, &call.op().schema().returns, &result)
    })?;
    Ok(())
}

/// Hands a call to the recorder of programs, or to the tracer, which gets all arguments.
fn trace(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    if RECORDING.get() {
        let handler = RECORDER.get().ok_or_else(|| err!(Runtime, "no program is recorded"))?;
        return hand_over(handler, call, stack);
    }
    let handler =
        || TRACER.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(Shared::get);
    run(call, handler, stack, true)
}
