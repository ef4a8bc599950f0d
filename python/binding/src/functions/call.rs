//! Calling a group: parse, look for overrides, dispatch, wrap.

use super::estimate::is_long;
use super::group::{Group, Mode};
use super::overload::{Overload, Plan, Source};
use crate::args::Bound;
use crate::overrides;
use crate::py::errors::{Raised, runtime_error, type_error};
use crate::py::gil::detach_if;
use crate::py::{Args, Obj, Py, ffi};
use crate::tensor;
use crate::types::structseq;
use corten_core::{KeySet, Result, fast_paths};
use corten_ops::{AnyOp, IValue, OpKind, Stack, Tensor, registry};
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Calls a group with Python's arguments; `this` is the tensor of a method.
pub(crate) fn call_group(group: &'static Group, this: Option<&Obj>, args: Args<'_>) -> Py<Obj> {
    let table = group.table();
    if fast_paths()
        && !overrides::modes_active()
        && let Some(done) = table.fast.call(table, this, args)
    {
        match done {
            // There is no kernel for a dtype: the general path computes in a wider one.
            // SAFETY: reads a static of the interpreter.
            Err(raised) if raised.matches(unsafe { ffi::PyExc_NotImplementedError }) => {
                raised.clear();
            }
            done => return done,
        }
    }
    let mut bound = table.parser.unbound();
    if let Err(raised) = table.parser.parse_to(&mut bound, this, args) {
        return call_stand_ins(group, this, args, raised);
    }
    if (!bound.overloaded.is_empty() || overrides::modes_active()) && overrides::enabled() {
        return overrides::handle(group, this, &bound.overloaded, args);
    }
    let overload = &table.overloads[bound.index];
    if let Some(warning) = &overload.warning {
        crate::py::errors::warn(warning)?;
    }
    run(group, overload, this, &bound)
}

/// What to make of arguments that no signature takes: objects that override operators may stand for
/// numbers, too, as the values of a trace do.
#[cold]
fn call_stand_ins(
    group: &'static Group,
    this: Option<&Obj>,
    args: Args<'_>,
    raised: Raised,
) -> Py<Obj> {
    // Looking at the arguments may raise and clear exceptions of its own.
    let exception = raised.take();
    let found = crate::args::stand_ins(args);
    if let Some(done) = super::named::call(group, this, args) {
        return done;
    }
    if found.is_empty() || !overrides::enabled() {
        return Err(match exception {
            Some(exception) => Raised::raise(&exception),
            None => type_error(format!("{}(): bad arguments", group.name)),
        });
    }
    overrides::handle(group, this, &found, args)
}

fn run(
    group: &'static Group,
    overload: &'static Overload,
    this: Option<&Obj>,
    bound: &Bound<'_>,
) -> Py<Obj> {
    let out = overload.out_param.and_then(|(index, count)| Some((bound.get(index)?, count)));
    let plan = match (&overload.without_out, &overload.out, out) {
        (_, Some(plan), Some(_)) => plan,
        (Some(plan), _, None) => plan,
        _ => return Err(type_error(format!("{}() needs out=", group.name))),
    };
    let outputs = match out {
        Some((object, count)) => output_tensors(group.name, object, count)?,
        None => Vec::new(),
    };
    if let (Some(options), [out]) = (overload.options, &outputs[..]) {
        check_options(bound, options, out)?;
    }
    let mut stack = fill(plan, this, bound, &outputs)?;
    let long = is_long(plan.op.def().cost, &stack);
    detach_if(long, || plan.op.call_boxed(&mut stack))?;
    if let Some(index) = overload.requires_grad
        && bound.bool(index)?
        && let Some(IValue::Tensor(made)) = stack.first()
    {
        tensor::set_requires_grad(made, true)?;
    }
    // An operator that works in place on a list gives it back.
    let def = plan.op.def();
    let writes_list = stack.is_empty()
        && def.kind == OpKind::Inplace
        && def.namespace == "aten"
        && def.schema.contains("(Tensor(a!)[] self");
    if let Some(list) = bound.get(0).filter(|_| writes_list) {
        return Ok(list.clone());
    }
    wrap_results(group.name, overload, out.is_some(), stack)
}

/// Refuses options of a factory that `out` does not have.
fn check_options(bound: &Bound<'_>, [dtype, layout, device]: [usize; 3], out: &Tensor) -> Py<()> {
    let refuse = |what: &str, wanted: &str, found: &str| {
        Err(runtime_error(format!(
            "{what} {wanted} does not match {what} of out parameter ({found})"
        )))
    };
    match bound.dtype_opt(dtype)? {
        Some(dtype) if dtype != out.dtype() => {
            return refuse("dtype", dtype.type_name(), out.dtype().type_name());
        }
        _ => {}
    }
    match bound.get(layout).map(crate::types::layout::layout_from).transpose()? {
        Some(layout) if layout != out.layout() => {
            return refuse("layout", &layout.to_string(), &out.layout().to_string());
        }
        _ => {}
    }
    match bound.device_opt(device)?.map(|device| device.device_type) {
        Some(device) if device != out.device().device_type => {
            refuse("device type", device.name(), out.device().device_type.name())
        }
        _ => Ok(()),
    }
}

/// The tensors of an `out=` argument, a list of any length where there is no count.
fn output_tensors(name: &str, object: &Obj, count: Option<usize>) -> Py<Vec<Tensor>> {
    if count == Some(1) {
        return Ok(vec![tensor::expect(object)?.clone()]);
    }
    let given = object.items()?;
    if let Some(count) = count.filter(|count| given.len() != *count) {
        return Err(type_error(format!(
            "{name}(): expected tuple of {count} elements but got {}",
            given.len()
        )));
    }
    given.iter().map(|item| tensor::expect(item).cloned()).collect()
}

/// The operator's arguments, in schema order.
fn fill(plan: &Plan, this: Option<&Obj>, bound: &Bound<'_>, outputs: &[Tensor]) -> Py<Stack> {
    let mut stack = Stack::of_none(plan.sources.len());
    for (place, source) in stack.iter_mut().zip(&plan.sources) {
        match source {
            Source::This => match this.and_then(tensor::get) {
                Some(value) => *place = IValue::Tensor(value.clone()),
                None => return Err(runtime_error("a method was called without its tensor")),
            },
            Source::Param(index) => bound.value_to(*index, place)?,
            Source::Out(index) => *place = IValue::Tensor(outputs[*index].clone()),
            Source::Outs => *place = outputs.into(),
            Source::Fixed(value) => place.set_to(value),
        }
    }
    Ok(stack)
}

/// The results of a call as a Python object.
fn wrap_results(name: &str, overload: &Overload, is_out: bool, mut stack: Stack) -> Py<Obj> {
    if stack.len() == 1 {
        return stack.pop().map_or_else(|| Ok(Obj::none()), wrap_value);
    }
    if stack.is_empty() {
        return Ok(Obj::none());
    }
    // Bounded: results.
    let mut values = Vec::with_capacity(stack.len());
    while let Some(value) = stack.pop() {
        values.push(wrap_value(value)?);
    }
    values.reverse();
    if overload.fields.len() != values.len() {
        return Obj::tuple(values.into_iter().map(Ok));
    }
    structseq::result(overload.result_type(name, is_out)?, values)
}

/// One result as a Python object.
pub(crate) fn wrap_value(value: IValue) -> Py<Obj> {
    match value {
        IValue::None => Ok(Obj::none()),
        IValue::Tensor(made) => tensor::wrap_owned(made),
        IValue::Double(number) => Obj::float(number),
        IValue::ComplexDouble(number) => Obj::complex(number),
        IValue::Int(number) => Obj::int(number),
        IValue::UInt(number) => Obj::uint(number),
        IValue::Bool(truth) => Ok(Obj::bool(truth)),
        IValue::String(text) => Obj::str_from(&text),
        IValue::IntList(numbers) => Obj::int_tuple(&numbers),
        IValue::DoubleList(numbers) => Obj::tuple(numbers.into_iter().map(Obj::float)),
        IValue::BoolList(truths) => Obj::tuple(truths.into_iter().map(|t| Ok(Obj::bool(t)))),
        IValue::TensorList(tensors) => Obj::tuple(tensors.into_iter().map(tensor::wrap_owned)),
        IValue::OptionalTensorList(tensors) => Obj::tuple(
            tensors.into_iter().map(|t| t.map_or_else(|| Ok(Obj::none()), tensor::wrap_owned)),
        ),
        IValue::ScalarList(numbers) => Obj::tuple(numbers.into_iter().map(Obj::scalar)),
        IValue::Device(device) => crate::types::device::object(device),
        IValue::DType(dtype) => Ok(crate::types::dtype::object(dtype)),
        IValue::Layout(layout) => Ok(crate::types::layout::layout_object(layout)),
        IValue::MemoryFormat(format) => Ok(crate::types::layout::memory_format_object(format)),
        IValue::Generator(generator) => crate::types::generator::object(&generator),
        IValue::Object(_) => Err(runtime_error("a result of this type has no Python form")),
        IValue::Storage(storage) => crate::storage::wrap(&storage),
        IValue::Tuple(values) => Obj::tuple(values.into_iter().map(wrap_value)),
    }
}

/// Calls the function of that name with positional arguments, as `torch.name(*args)` does.
pub(crate) fn call_function(name: &str, args: &[Obj]) -> Py<Obj> {
    by_name(name, Mode::Function, None, args)
}

/// Calls the method of that name, as `this.name(*args)` does.
pub(crate) fn call_method(name: &str, this: &Obj, args: &[Obj]) -> Py<Obj> {
    by_name(name, Mode::Method, Some(this), args)
}

fn by_name(name: &str, mode: Mode, this: Option<&Obj>, args: &[Obj]) -> Py<Obj> {
    match super::publish::find(name, mode) {
        Some(group) => {
            call_group(group, this, Args { positional: args, keywords: &[], names: None })
        }
        None => Err(crate::py::errors::not_implemented_error(format!(
            "the operator {name} is not part of this build"
        ))),
    }
}

/// A handle on one overload, looked up once.
pub(crate) struct OpCell {
    name: &'static str,
    found: OnceLock<Option<&'static dyn AnyOp>>,
}

impl OpCell {
    /// A handle for `aten::name.overload`.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, found: OnceLock::new() }
    }

    /// Calls the operator.
    pub(crate) fn call(&self, arguments: impl IntoIterator<Item = IValue>) -> Result<Stack> {
        let found = self.found.get_or_init(|| registry::find(self.name));
        let Some(op) = found else {
            corten_core::bail!(
                NotImplemented,
                "the operator {} is not part of this build",
                self.name
            )
        };
        let mut stack: Stack = arguments.into_iter().collect();
        op.call_boxed(&mut stack)?;
        Ok(stack)
    }
}

/// Calls an overload and returns the stack of results: `op!("aten::item", tensor)?`.
macro_rules! op {
    ($name:literal $(, $argument:expr)* $(,)?) => {{
        static CELL: $crate::functions::OpCell = $crate::functions::OpCell::new($name);
        CELL.call([$(corten_ops::IValue::from($argument)),*])
    }};
}
pub(crate) use op;

/// Calls an overload that returns one tensor.
macro_rules! op1 {
    ($($argument:tt)*) => {
        $crate::functions::op!($($argument)*).and_then(corten_ops::returns::<corten_ops::Tensor>)
    };
}
pub(crate) use op1;

/// Calls one overload with Python's arguments.
pub(crate) fn call_overload(op: &'static dyn AnyOp, args: Args<'_>) -> Py<Obj> {
    call_group(group_of(op), None, args)
}

/// As [`call_overload`], as if the arguments had these keys.
pub(crate) fn call_overload_at(op: &'static dyn AnyOp, keys: KeySet, args: Args<'_>) -> Py<Obj> {
    let group = group_of(op);
    let table = group.table();
    let mut bound = table.parser.unbound();
    table.parser.parse_to(&mut bound, None, args)?;
    let overload = &table.overloads[bound.index];
    let out = overload.out_param.and_then(|(index, count)| Some((bound.get(index)?, count)));
    let outputs = match out {
        Some((object, count)) => output_tensors(group.name, object, count)?,
        None => Vec::new(),
    };
    let plan = if out.is_some() { &overload.out } else { &overload.without_out };
    let Some(plan) = plan else {
        return Err(type_error(format!("{}() needs out=", group.name)));
    };
    let mut stack = fill(plan, None, &bound, &outputs)?;
    plan.op.call_boxed_at(keys, &mut stack)?;
    wrap_results(group.name, overload, out.is_some(), stack)
}

fn group_of(op: &'static dyn AnyOp) -> &'static Group {
    // By the address of the declaration: a name would have to be compared with many.
    static GROUPS: Mutex<BTreeMap<usize, &'static Group>> = Mutex::new(BTreeMap::new());
    let key = std::ptr::from_ref(op.def()).addr();
    GROUPS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(key)
        .or_insert_with(|| Box::leak(Box::new(Group::single(op))))
}
