//! `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`: context managers whose entry and
//! exit are a thread-local byte.

use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance_of, make, this};
use crate::py::errors::type_error;
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, name, slot};
use corten_autograd::transform;
use corten_core::tls::{self, ThreadState, ThreadStateGuard};
use corten_core::{InferenceModeGuard, grad_mode_enabled, inference_mode_enabled, set_grad_mode};
use std::cell::Cell;
use std::ffi::{CStr, c_void};

static BASE: TypeCell = TypeCell::new();

/// A mode to be entered and left.
struct PyMode {
    kind: GradModeKind,
    mode: bool,
    /// Grad mode and thread state from before.
    previous: Cell<Option<(bool, ThreadState)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GradModeKind {
    NoGrad,
    EnableGrad,
    SetGrad,
    Inference,
}

impl Class for PyMode {
    const NAME: &'static CStr = c"corten._C._GradMode";

    fn cell() -> &'static TypeCell {
        &BASE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .flags(ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            .slot(ffi::Py_tp_init, slot!(init |_s: &Obj, _a: &Obj, _k: Option<&Obj>| Ok(())))
            .slot(ffi::Py_tp_call, slot!(call decorate))
            .getset([
                getter!("mode", |s: &Obj| Ok(Obj::bool(this::<PyMode>(s).mode))),
                getter!("prev", |s: &Obj| Ok(Obj::bool(
                    this::<PyMode>(s).previous.get().is_some()
                ))),
            ])
            .methods([
                method!("__enter__", enter),
                method!("__exit__", exit),
                method!("clone", clone),
            ])
    }
}

fn instance(class: &Obj, kind: GradModeKind, mode: bool) -> Py<Obj> {
    instance_of(class.as_ptr().cast(), PyMode { kind, mode, previous: Cell::new(None) })
}

/// The state to come back to.
fn present() -> (bool, ThreadState) {
    (grad_mode_enabled(), tls::thread_state())
}

/// `no_grad()` and `enable_grad()`; with a function they decorate it.
fn new_dense(class: &Obj, args: &Obj, kind: GradModeKind) -> Py<Obj> {
    let made = instance(class, kind, kind == GradModeKind::EnableGrad)?;
    match args.items()?.as_slice() {
        [] => Ok(made),
        [function] if function.is_callable() => helper(&made, function),
        _ => Err(type_error("a context manager without parameters was given an argument")),
    }
}

fn new_no_grad(class: &Obj, args: &Obj, _kwargs: Option<&Obj>) -> Py<Obj> {
    new_dense(class, args, GradModeKind::NoGrad)
}

fn new_enable_grad(class: &Obj, args: &Obj, _kwargs: Option<&Obj>) -> Py<Obj> {
    new_dense(class, args, GradModeKind::EnableGrad)
}

/// This one takes effect when it is made, so that it can be called as a function.
fn new_set_grad(class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let mode = parser!("set_grad_enabled(bool mode)").parse(None, owned.as_args())?.bool(0)?;
    let made = instance(class, GradModeKind::SetGrad, mode)?;
    this::<PyMode>(&made).previous.set(Some(present()));
    set_recording(mode);
    Ok(made)
}

fn new_inference(class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    if let [function] = owned.as_args().positional
        && !function.is_bool()
        && function.is_callable()
    {
        return helper(&instance(class, GradModeKind::Inference, true)?, function);
    }
    let bound = parser!("inference_mode(bool mode=True)").parse(None, owned.as_args())?;
    instance(class, GradModeKind::Inference, bound.bool(0)?)
}

fn enter(object: &Obj, _args: Args<'_>) -> Py<Obj> {
    let mode = this::<PyMode>(object);
    match mode.kind {
        GradModeKind::SetGrad => {
            set_recording(mode.mode);
        }
        GradModeKind::Inference => {
            if mode.mode {
                transform::note_turned_off();
            }
            mode.previous.set(Some(present()));
            // Left by `__exit__`, which puts the saved state back.
            std::mem::forget(InferenceModeGuard::new(mode.mode));
        }
        GradModeKind::NoGrad | GradModeKind::EnableGrad => {
            mode.previous.set(Some(present()));
            set_recording(mode.mode);
        }
    }
    Ok(Obj::none())
}

fn set_recording(enabled: bool) {
    if !enabled {
        transform::note_turned_off();
    }
    set_grad_mode(enabled);
}

fn exit(object: &Obj, _args: Args<'_>) -> Py<Obj> {
    let mode = this::<PyMode>(object);
    if let Some((grad_mode, state)) = mode.previous.take() {
        if mode.kind == GradModeKind::Inference {
            std::mem::forget(ThreadStateGuard::new(state));
        } else {
            set_grad_mode(grad_mode);
        }
    }
    Ok(Obj::none())
}

fn clone(object: &Obj, _args: Args<'_>) -> Py<Obj> {
    let mode = this::<PyMode>(object);
    instance(&object.type_obj(), mode.kind, mode.mode)
}

/// `context(function)`: as a decorator. `set_grad_enabled` has already taken effect; that is undone.
fn decorate(object: &Obj, args: &Obj, _kwargs: Option<&Obj>) -> Py<Obj> {
    let given = args.items()?;
    let [function] = given.as_slice() else {
        return Err(type_error("a context manager decorates one function"));
    };
    if this::<PyMode>(object).kind == GradModeKind::SetGrad {
        exit(object, Args { positional: &[], keywords: &[], names: None })?;
    }
    helper(object, function)
}

fn helper(context: &Obj, function: &Obj) -> Py<Obj> {
    let module = crate::py::convert::import(name!("corten.utils._contextlib"))?;
    module.call_method(name!("context_decorator"), &[context, function])
}

/// Makes the classes.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_GradMode", &make::<PyMode>()?)?;
    let classes: [(&'static CStr, &'static CStr, *mut c_void); 4] = [
        (c"no_grad", c"corten.autograd.grad_mode.no_grad", slot!(call new_no_grad)),
        (c"enable_grad", c"corten.autograd.grad_mode.enable_grad", slot!(call new_enable_grad)),
        (
            c"set_grad_enabled",
            c"corten.autograd.grad_mode.set_grad_enabled",
            slot!(call new_set_grad),
        ),
        (c"inference_mode", c"corten.autograd.grad_mode.inference_mode", slot!(call new_inference)),
    ];
    for (name, qualified, new) in classes {
        let class = TypeBuilder::new(qualified, 0)
            .flags(ffi::Py_TPFLAGS_BASETYPE)
            .base(BASE.obj())
            .slot(ffi::Py_tp_new, new)
            .build()?;
        module.set_attr_str(name, &class)?;
    }
    Ok(())
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("is_grad_enabled", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(grad_mode_enabled()))),
        method!("is_inference_mode_enabled", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            inference_mode_enabled()
        ))),
        method!("_set_grad_enabled", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_set_grad_enabled(bool enabled)").parse(None, args)?;
            set_recording(bound.bool(0)?);
            Ok(Obj::none())
        }),
        method!("is_anomaly_enabled", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            corten_autograd::anomaly::is_enabled()
        ))),
        method!("is_anomaly_check_nan_enabled", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            corten_autograd::anomaly::checks_nan()
        ))),
        method!("set_anomaly_enabled", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("set_anomaly_enabled(bool enabled, bool check_nan=True)");
            let bound = parser.parse(None, args)?;
            corten_autograd::anomaly::set_detect_anomaly(bound.bool(0)?, bound.bool(1)?);
            Ok(Obj::none())
        }),
        method!("_is_multithreading_enabled", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            tls::multithreading_enabled()
        ))),
        method!("_set_multithreading_enabled", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_set_multithreading_enabled(bool enabled)").parse(None, args)?;
            Ok(Obj::bool(tls::set_multithreading_enabled(bound.bool(0)?)))
        }),
        method!("_is_fwd_grad_enabled", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            tls::fw_grad_mode_enabled()
        ))),
        method!("_set_fwd_grad_enabled", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_set_fwd_grad_enabled(bool enabled)").parse(None, args)?;
            Ok(Obj::bool(tls::set_fw_grad_mode(bound.bool(0)?)))
        }),
    ]
}
