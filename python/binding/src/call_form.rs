//! The form in which calls are handed to functions of Python: that of `__torch_dispatch__`.
//!
//! Numbers that stand for tensors are numbers again, arguments that have their default values are left
//! out behind the last one that has not, and lists are lists. So functions written for other front
//! ends see what they expect, and recorded programs read as they were written.

use crate::functions::wrap_value;
use crate::py::{Obj, Py, name};
use crate::tensor;
use corten_core::{Device, DispatchKey};
use corten_ops::schema::{Argument, Value};
use corten_ops::{AnyOp, IValue, Tensor, registry};

/// An overload with its positional arguments and those by name.
pub(crate) struct CallForm {
    pub(crate) name: String,
    pub(crate) positional: Vec<Obj>,
    pub(crate) named: Obj,
}

impl CallForm {
    /// The form of a call with these arguments, in the order of the schema.
    pub(crate) fn new(op: &'static dyn AnyOp, arguments: &[IValue]) -> Py<Self> {
        let called = for_number(op, arguments).unwrap_or(op);
        let given = &op.schema().arguments;
        let mut positional = Vec::new();
        let mut needed = 0;
        let named = Obj::dict()?;
        // Conversions say nothing of pinned memory unless they are asked for it.
        let is_conversion = called.def().name == "_to_copy";
        // The first operand is a number only where the overload takes numbers.
        let (takes_numbers, takes_second) = (op.def().numbers, has_scalar_overload(op));
        let on_default_device = is_new_on_default_device(given, arguments);
        for declared in &called.schema().arguments {
            let place = given.iter().position(|other| other.name == declared.name);
            let value = place.and_then(|place| arguments.get(place)).cloned().unwrap_or_default();
            let left_out = declared.default.as_ref().is_some_and(|it| is_default(&value, it))
                || is_conversion
                    && matches!(value, IValue::Bool(false))
                    && declared.name == "pin_memory";
            match (declared.kwarg_only, left_out) {
                (true, true) if on_default_device && declared.name == "device" => {
                    named.dict_set(
                        &Obj::str_from(&declared.name)?,
                        &crate::types::device::object(Device::CPU)?,
                    )?;
                }
                (true, true) => {}
                (true, false) => named.dict_set(
                    &Obj::str_from(&declared.name)?,
                    &object(value, takes_numbers || takes_second && place == Some(1))?,
                )?,
                (false, _) => {
                    positional
                        .push(object(value, takes_numbers || takes_second && place == Some(1))?);
                    if !left_out {
                        needed = positional.len();
                    }
                }
            }
        }
        positional.truncate(needed);
        Ok(Self { name: called.def().qualified_name(), positional, named })
    }
}

/// The overload for a number, where a number stands for the second tensor.
fn for_number(op: &'static dyn AnyOp, arguments: &[IValue]) -> Option<&'static dyn AnyOp> {
    let def = op.def();
    let [_, IValue::Tensor(second), ..] = arguments else { return None };
    if def.overload != "Tensor" || def.numbers || !second.is_wrapped_number() {
        return None;
    }
    registry::find(&format!("{}::{}.Scalar", def.namespace, def.name))
}

/// Whether a factory without tensors among its arguments was called from Python, which says where
/// memory is, without a device.
fn is_new_on_default_device(declared: &[Argument], arguments: &[IValue]) -> bool {
    let value = |name: &str| {
        let place = declared.iter().position(|it| it.name == name && it.kwarg_only)?;
        arguments.get(place)
    };
    matches!(value("pin_memory"), Some(IValue::Bool(false)))
        && matches!(value("device"), Some(IValue::None))
        && !arguments.iter().any(|it| matches!(it, IValue::Tensor(_) | IValue::TensorList(_)))
}

/// Whether an overload for tensors has one for a number beside it, so that Python may give it numbers.
fn has_scalar_overload(op: &'static dyn AnyOp) -> bool {
    let def = op.def();
    let found = || registry::find(&format!("{}::{}.Scalar", def.namespace, def.name));
    def.overload == "Tensor" && found().is_some()
}

/// An argument as an object of Python.
fn object(value: IValue, takes_numbers: bool) -> Py<Obj> {
    match value {
        IValue::Tensor(number) if takes_numbers && number.is_wrapped_number() => {
            Obj::scalar(tensor::item(&number)?)
        }
        IValue::Tensor(made) if is_made_inside(&made) => {
            let object = tensor::wrap_owned(made)?;
            object.set_attr(name!("_made_inside"), &Obj::bool(true))?;
            Ok(object)
        }
        IValue::IntList(numbers) => Obj::list(numbers.iter().map(|&number| Obj::int(number))),
        IValue::DoubleList(numbers) => Obj::list(numbers.into_iter().map(Obj::float)),
        IValue::BoolList(truths) => Obj::list(truths.into_iter().map(|it| Ok(Obj::bool(it)))),
        IValue::TensorList(tensors) => Obj::list(tensors.into_iter().map(tensor::wrap_owned)),
        IValue::OptionalTensorList(tensors) => Obj::list(
            tensors.into_iter().map(|it| it.map_or_else(|| Ok(Obj::none()), tensor::wrap_owned)),
        ),
        IValue::ScalarList(numbers) => Obj::list(numbers.into_iter().map(Obj::scalar)),
        other => wrap_value(other),
    }
}

/// Whether Python has not seen a tensor: an operator made it on the way here.
fn is_made_inside(tensor: &Tensor) -> bool {
    tensor.defined()
        && tensor.pyobject().is_none()
        && !tensor.is_wrapped_number()
        && !tensor.key_set().has(DispatchKey::Python)
}

/// Whether an argument has the default value of its declaration.
fn is_default(value: &IValue, default: &Value) -> bool {
    match (value, default) {
        (IValue::None, Value::None) => true,
        (IValue::Tensor(tensor), Value::None) => !tensor.defined(),
        (IValue::Tensor(number), _) if number.is_wrapped_number() => {
            matches!(number.only_element(), Ok(Some(it)) if is_default(&IValue::from(it), default))
        }
        (IValue::Bool(given), Value::Bool(declared)) => given == declared,
        (IValue::Int(given), Value::Int(declared)) => given == declared,
        (IValue::Int(given), Value::Name(name)) => reduction(name) == Some(*given),
        (IValue::Double(given), Value::Int(declared)) => *given == *declared as f64,
        (IValue::Double(given), Value::Float(text)) => text.parse() == Ok(*given),
        (IValue::String(given), Value::Str(text)) => **given == *text.trim_matches(['"', '\'']),
        (IValue::MemoryFormat(given), Value::Name(name)) => given.name() == name,
        (IValue::Layout(given), Value::Name(name)) => given.name() == name,
        (IValue::DType(given), Value::Name(name)) => is_dtype(given.name(), name),
        (IValue::IntList(given), Value::Int(one)) => given.iter().all(|it| it == one),
        (IValue::IntList(given), Value::List(items)) => {
            given.len() == items.len()
                && given.iter().zip(items).all(|(it, item)| is_default(&IValue::Int(*it), item))
        }
        (IValue::BoolList(given), Value::List(items)) => {
            given.len() == items.len()
                && given.iter().zip(items).all(|(it, item)| is_default(&IValue::Bool(*it), item))
        }
        (IValue::TensorList(given), Value::List(items)) => given.is_empty() && items.is_empty(),
        _ => false,
    }
}

fn reduction(name: &str) -> Option<i64> {
    ["None", "Mean", "Sum"].iter().position(|it| *it == name).map(|place| place as i64)
}

fn is_dtype(given: &str, declared: &str) -> bool {
    let full = match declared {
        "long" => "int64",
        "int" => "int32",
        "float" => "float32",
        "double" => "float64",
        other => other,
    };
    given == full
}
