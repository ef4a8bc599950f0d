//! `__torch_function__`: subclasses and modes that take over calls.

use crate::args::Overloaded;
use crate::functions::{Group, Mode, public_object};
use crate::py::errors::{runtime_error, type_error};
use crate::py::gil::Shared;
use crate::py::names::Name;
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::tensor::TENSOR;
use std::cell::{Cell, RefCell};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Enabled,
    /// Subclasses are left alone, modes still apply.
    SubclassesDisabled,
    AllDisabled,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Enabled) };
    static MODES: RefCell<Vec<Shared>> = const { RefCell::new(Vec::new()) };
    static MODE_COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Whether a mode is active on this thread.
#[inline]
pub(crate) fn modes_active() -> bool {
    MODE_COUNT.get() != 0
}

/// Whether overrides are looked at.
pub(crate) fn enabled() -> bool {
    match STATE.get() {
        State::Enabled => true,
        State::SubclassesDisabled => modes_active(),
        State::AllDisabled => false,
    }
}

/// Whether subclasses override.
pub(crate) fn subclasses_enabled() -> bool {
    STATE.get() == State::Enabled
}

/// Whether a tensor's methods and attributes are asked for elsewhere first: by a mode, or by its
/// class. Tensors of parts are not: their classes ask the tensor itself for what they do not change.
#[inline]
pub(crate) fn taken_over(object: &Obj) -> bool {
    (!crate::tensor::is_dense_cpu(object) || modes_active()) && is_foreign(object)
}

#[cold]
fn is_foreign(object: &Obj) -> bool {
    enabled() && (modes_active() || !foreign([object]).is_empty())
}

/// The objects whose classes take calls over of methods and of functions that are written in Python.
pub(crate) fn foreign<'a>(objects: impl IntoIterator<Item = &'a Obj>) -> Overloaded {
    let mut found = Overloaded::new();
    for object in objects {
        crate::args::is_tensor_like(object, &mut found);
    }
    found.retain(|object| !is_of_parts(object));
    found
}

/// Whether the class holds its data in parts, and answers for them by `__torch_function__`.
fn is_of_parts(object: &Obj) -> bool {
    match object.type_obj().attr_opt(name!("_of_parts")) {
        Ok(found) => found.is_some(),
        Err(raised) => {
            raised.clear();
            false
        }
    }
}

/// A method of `Tensor` that is no operator: what takes it over, else `own`.
#[inline]
pub(crate) fn method_or(
    object: &Obj,
    name: &'static Name,
    args: Args<'_>,
    own: impl FnOnce(&Obj, Args<'_>) -> Py<Obj>,
) -> Py<Obj> {
    if taken_over(object) {
        return hand_over(object, name, args);
    }
    own(object, args)
}

#[cold]
fn hand_over(object: &Obj, name: &'static Name, args: Args<'_>) -> Py<Obj> {
    let function = TENSOR.obj().attr(name)?;
    let given: Vec<Obj> = std::iter::once(object).chain(args.positional).cloned().collect();
    let found = foreign(given.iter().chain(args.keywords));
    dispatch(&function, &found, &Obj::tuple(given.into_iter().map(Ok))?, &args.keyword_dict()?)
}

/// A slot of `Tensor`: what takes the method of this name over; nothing where nobody does.
#[inline]
pub(crate) fn slot(object: &Obj, name: &'static Name, others: &[Obj]) -> Option<Py<Obj>> {
    taken_over(object)
        .then(|| hand_over(object, name, Args { positional: others, keywords: &[], names: None }))
}

/// What takes the method of this name of `this` over, where `other` may do so too.
pub(crate) fn binary(this: &Obj, name: &'static Name, other: &Obj) -> Option<Py<Obj>> {
    if !enabled() || (!modes_active() && foreign([this, other]).is_empty()) {
        return None;
    }
    let others = std::slice::from_ref(other);
    Some(hand_over(this, name, Args { positional: others, keywords: &[], names: None }))
}

/// An attribute of `Tensor` that is read: what takes it over, else `own`.
#[inline]
pub(crate) fn get_or(
    object: &Obj,
    name: &'static Name,
    own: impl FnOnce(&Obj) -> Py<Obj>,
) -> Py<Obj> {
    if taken_over(object) {
        return access(object, name, name!("__get__"), &[]);
    }
    own(object)
}

/// An attribute of `Tensor` that is written or deleted: what takes it over, else `own`.
pub(crate) fn set_or(
    object: &Obj,
    name: &'static Name,
    value: Option<&Obj>,
    own: impl FnOnce(&Obj, Option<&Obj>) -> Py<()>,
) -> Py<()> {
    if !taken_over(object) {
        return own(object, value);
    }
    match value {
        Some(value) => access(object, name, name!("__set__"), std::slice::from_ref(value))?,
        None => access(object, name, name!("__delete__"), &[])?,
    };
    Ok(())
}

#[cold]
fn access(object: &Obj, name: &'static Name, how: &'static Name, rest: &[Obj]) -> Py<Obj> {
    let function = TENSOR.obj().attr(name)?.attr(how)?;
    let given: Vec<Obj> = std::iter::once(object).chain(rest).cloned().collect();
    let tuple = Obj::tuple(given.into_iter().map(Ok))?;
    dispatch(&function, &foreign([object]), &tuple, &Obj::dict()?)
}

/// A function of the module, whose arguments were bound: what takes it over, else nothing.
pub(crate) fn of_module(
    module: &Obj,
    name: &'static Name,
    bound: &[Obj],
    args: Args<'_>,
) -> Option<Py<Obj>> {
    if (bound.is_empty() && !modes_active()) || !enabled() {
        return None;
    }
    let call = || {
        let function = module.attr(name)?;
        let tuple = Obj::tuple(args.positional.iter().cloned().map(Ok))?;
        dispatch(&function, bound, &tuple, &args.keyword_dict()?)
    };
    Some(call())
}

/// Hands a call over: to the innermost mode, then to the overriding arguments in their order.
pub(crate) fn handle(
    group: &'static Group,
    this: Option<&Obj>,
    overloaded: &[Obj],
    args: Args<'_>,
) -> Py<Obj> {
    let function = public_object(group)?;
    let this = if group.mode == Mode::Method { this } else { None };
    let positional = this.into_iter().chain(args.positional).cloned().collect::<Vec<_>>();
    let tuple = Obj::tuple(positional.into_iter().map(Ok))?;
    dispatch(&function, overloaded, &tuple, &args.keyword_dict()?)
}

/// What the modes make of a call of one of the module's functions; nothing where none is active.
pub(crate) fn through_modes(module: &Obj, name: &Name, args: Args<'_>) -> Option<Py<Obj>> {
    if !modes_active() || !enabled() {
        return None;
    }
    let call = || {
        let function = module.attr(name)?;
        let tuple = Obj::tuple(args.positional.iter().cloned().map(Ok))?;
        dispatch(&function, &[], &tuple, &args.keyword_dict()?)
    };
    Some(call())
}

/// Calls the overrides of a public function.
pub(crate) fn dispatch(function: &Obj, overloaded: &[Obj], args: &Obj, kwargs: &Obj) -> Py<Obj> {
    let types = Obj::tuple(overloaded.iter().map(|object| Ok(object.type_obj())))?;
    if modes_active() {
        let result = call_mode(function, &types, args, kwargs)?;
        if !result.is(&Obj::not_implemented()) {
            return Ok(result);
        }
    }
    for object in overloaded {
        let hook = object.type_obj().attr(name!("__torch_function__"))?;
        let result = hook.call(&[function, &types, args, kwargs])?;
        if !result.is(&Obj::not_implemented()) {
            return Ok(result);
        }
    }
    if overloaded.is_empty() && !modes_active() {
        return function.call_tuple(args, Some(kwargs));
    }
    Err(type_error(format!(
        "no implementation found for '{}' on types that implement __torch_function__: {}",
        function.display(),
        Obj::list(overloaded.iter().map(|object| Ok(object.type_obj())))?.display()
    )))
}

/// Calls the innermost mode with itself taken off the stack.
fn call_mode(function: &Obj, types: &Obj, args: &Obj, kwargs: &Obj) -> Py<Obj> {
    let Some(mode) = MODES.with(|modes| modes.borrow_mut().pop()) else {
        return Ok(Obj::not_implemented());
    };
    MODE_COUNT.set(MODE_COUNT.get() - 1);
    let object = mode.get();
    let result = object
        .attr(name!("__torch_function__"))
        .and_then(|hook| hook.call(&[function, types, args, kwargs]));
    MODES.with(|modes| modes.borrow_mut().push(mode));
    MODE_COUNT.set(MODE_COUNT.get() + 1);
    result
}

/// `_disabled_torch_function_impl(cls, func, types, args=(), kwargs=None)`.
fn disabled_impl(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let skip =
        usize::from(args.positional.len() > 4 || args.positional.first().is_some_and(Obj::is_type));
    let [function, _types, rest @ ..] = &args.positional[skip.min(args.positional.len())..] else {
        return Err(type_error("__torch_function__ takes func, types, args and kwargs"));
    };
    let empty = Obj::tuple([])?;
    let positional = rest.first().unwrap_or(&empty);
    let kwargs = rest.get(1).filter(|object| !object.is_none());
    let before = STATE.replace(State::SubclassesDisabled);
    let result = function.call_tuple(positional, kwargs);
    STATE.set(before);
    result
}

/// The functions of the module.
#[allow(clippy::too_many_lines, reason = "a table")]
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_disabled_torch_function_impl", disabled_impl),
        method!("_disabled_torch_dispatch_impl", disabled_impl),
        method!("_torch_function_state", |_m: &Obj, _a: Args<'_>| Obj::int(match STATE.get() {
            State::Enabled => 0,
            State::SubclassesDisabled => 1,
            State::AllDisabled => 2,
        })),
        method!("_set_torch_function_state", |_m: &Obj, args: Args<'_>| {
            let bound = crate::args::parser!("_set_torch_function_state(int state)");
            let wanted = bound.parse(None, args)?.int(0)?;
            STATE.set(match wanted {
                0 => State::Enabled,
                1 => State::SubclassesDisabled,
                _ => State::AllDisabled,
            });
            Ok(Obj::none())
        }),
        method!("_push_on_torch_function_stack", |_m: &Obj, args: Args<'_>| {
            let [mode] = args.positional else { return Err(type_error("one mode expected")) };
            MODES.with(|modes| modes.borrow_mut().push(Shared::new(mode.clone())));
            MODE_COUNT.set(MODE_COUNT.get() + 1);
            Ok(Obj::none())
        }),
        method!("_pop_torch_function_stack", |_m: &Obj, _a: Args<'_>| {
            let mode = MODES.with(|modes| modes.borrow_mut().pop());
            let Some(mode) = mode else {
                return Err(runtime_error("the stack of torch function modes is empty"));
            };
            MODE_COUNT.set(MODE_COUNT.get() - 1);
            Ok(mode.get())
        }),
        method!("_len_torch_function_stack", |_m: &Obj, _a: Args<'_>| Obj::int(
            MODE_COUNT.get() as i64
        )),
        method!("_get_function_stack_at", |_m: &Obj, args: Args<'_>| {
            let index = crate::args::parser!("_get_function_stack_at(int index)")
                .parse(None, args)?
                .int(0)?;
            let found = MODES.with(|modes| modes.borrow().get(index as usize).map(Shared::get));
            found.ok_or_else(|| crate::py::errors::index_error("no mode at this place"))
        }),
        method!("has_torch_function", |_m: &Obj, args: Args<'_>| {
            let [list] = args.positional else { return Err(type_error("one sequence expected")) };
            any_overrides(&list.items()?)
        }),
        method!("has_torch_function_unary", |_m: &Obj, args: Args<'_>| any_overrides(
            args.positional
        )),
        method!("has_torch_function_variadic", |_m: &Obj, args: Args<'_>| any_overrides(
            args.positional
        )),
        method!("_overridden", |_m: &Obj, args: Args<'_>| {
            let asked = |object: &Obj| !crate::tensor::is_dense_cpu(object) && !object.is_none();
            let foreign_among = || args.positional.iter().any(|o| asked(o) && is_foreign(o));
            Ok(Obj::bool(modes_active() && enabled() || foreign_among()))
        }),
        method!("_overloaded_args", |_m: &Obj, args: Args<'_>| {
            let [list] = args.positional else { return Err(type_error("one sequence expected")) };
            let mut found = Default::default();
            for item in list.items()? {
                crate::args::is_tensor_like(&item, &mut found);
            }
            Obj::list(found.into_iter().map(Ok))
        }),
        method!("_dispatch_torch_function", |_m: &Obj, args: Args<'_>| {
            let [function, overloaded, positional, kwargs] = args.positional else {
                return Err(type_error("function, overloaded, args and kwargs expected"));
            };
            dispatch(function, &overloaded.items()?, positional, kwargs)
        }),
    ]
}

fn any_overrides(objects: &[Obj]) -> Py<Obj> {
    if STATE.get() == State::AllDisabled {
        return Ok(Obj::bool(false));
    }
    if modes_active() {
        return Ok(Obj::bool(true));
    }
    let mut found = Default::default();
    for object in objects {
        crate::args::is_tensor_like(object, &mut found);
    }
    Ok(Obj::bool(!found.is_empty()))
}
