//! Operators and kernels from Python: what `corten.library` is made of.

use crate::args::{index_of, parser, scalar_from};
use crate::functions::{call_overload, wrap_value};
use crate::py::errors::{not_implemented_error, runtime_error, type_error};
use crate::py::gil::{Shared, call_python, detach};
use crate::py::{Args, Obj, Py, ffi, method};
use crate::tensor;
use corten_core::{BelowAutogradGuard, Result};
use corten_ops::schema::{BaseType, Return, Type};
use corten_ops::{
    AnyOp, BoxedCall, IValue, Library, Registration, Stack, Target, Tensor, registry,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The function behind a kernel, until the kernel is removed. Tables of kernels are read without a
/// lock and so keep what they ever held, which the function must not share.
type Removable = Arc<Mutex<Option<Shared>>>;

/// Kernels that can be taken back, by the number that Python was given.
static REGISTRATIONS: Mutex<Vec<Option<Kept>>> = Mutex::new(Vec::new());

/// A kernel in the table, and its function where it has one.
type Kept = (Registration, Option<Removable>);

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_library_define", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_library_define(str namespace, str schema)").parse(None, args)?;
            let defined = Library::new(bound.str(0)?).define(bound.str(1)?)?;
            Obj::str_from(&defined.def().qualified_name())
        }),
        method!("_dispatch_key_names", |_m: &Obj, _a: Args<'_>| {
            Obj::tuple(corten_core::DispatchKey::ALL.iter().map(|key| Obj::str_from(key.name())))
        }),
        method!("_library_impl", implement),
        method!("_library_fallthrough", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_library_fallthrough(str name, str key)").parse(None, args)?;
            keep(find(bound.str(0)?)?.pass_through(key(bound.str(1)?)?), None)
        }),
        method!("_library_remove", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_library_remove(int number)").parse(None, args)?;
            let number = bound.int(0)? as usize;
            let mut all = lock(&REGISTRATIONS);
            let found = all.get_mut(number).and_then(Option::take);
            drop(all);
            if let Some((registration, function)) = found {
                registration.remove();
                let function = function.and_then(|function| lock(&function).take());
                drop(function);
            }
            Ok(Obj::none())
        }),
        method!("_load_library", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_load_library(str path)").parse(None, args)?;
            let path = bound.str(0)?;
            // Text is why the dynamic linker does not load it.
            match detach(|| corten_c::try_load_library(path))? {
                corten_c::Loaded::Loaded(has_entry) => Ok(Obj::bool(has_entry)),
                corten_c::Loaded::Refused(message) => Obj::str_from(&message),
            }
        }),
        method!("_op_call_below_autograd", |_m: &Obj, args: Args<'_>| {
            let [wanted, rest @ ..] = args.positional else {
                return Err(type_error("the name of an operator expected"));
            };
            let op = find(wanted.as_str()?)?;
            let _below = BelowAutogradGuard::new();
            call_overload(op, Args { positional: rest, ..args })
        }),
        method!("_op_has_kernel", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_op_has_kernel(str name, str key)").parse(None, args)?;
            let wanted = key(bound.str(1)?)?;
            let kernels = find(bound.str(0)?)?.kernels();
            Ok(Obj::bool(kernels.iter().any(|(target, _)| *target == wanted)))
        }),
    ]
}

fn find(name: &str) -> Py<&'static dyn AnyOp> {
    registry::find(name).ok_or_else(|| runtime_error(format!("operator {name} does not exist")))
}

pub(crate) fn key(name: &str) -> Py<Target> {
    Target::from_name(name)
        .ok_or_else(|| runtime_error(format!("could not parse dispatch key: {name}")))
}

/// A key at which a kernel would be called.
///
/// Devices are taken as they are named, whether there is one or not: programs register kernels for
/// all of them. Other keys without a tensor or a mode that has them are refused.
fn reachable(op: &str, name: &str) -> Py<Target> {
    const OTHERS: [&str; 20] = [
        "Undefined",
        "BackendSelect",
        "Python",
        "Conjugate",
        "Negative",
        "ADInplaceOrView",
        "AutogradOther",
        "Autograd",
        "FuncTorchBatched",
        "FuncTorchVmapMode",
        "FuncTorchDynamicLayerFrontMode",
        "MkldnnCPU",
        "Named",
        "Functionalize",
        "ZeroTensor",
        "Tracer",
        "Fake",
        "PreDispatch",
        "CompositeImplicitAutograd",
        "CompositeExplicitAutograd",
    ];
    let target = key(name)?;
    let per_device = ["Autograd", "Autocast", "SparseCsr", "Sparse", ""]
        .iter()
        .filter_map(|kind| name.strip_prefix(kind))
        .any(|device| DEVICES.contains(&device));
    if per_device || OTHERS.contains(&name) {
        return Ok(target);
    }
    Err(not_implemented_error(format!(
        "{op}: a kernel at the dispatch key {name} would never be called, since no tensor and no mode \
         has that key here. Kernels can be registered for devices, such as CPU, SparseCPU, \
         AutogradCPU and AutocastCPU, and at {}",
        OTHERS.join(", ")
    )))
}

/// The devices of dispatch keys.
const DEVICES: [&str; 16] = [
    "CPU",
    "CUDA",
    "HIP",
    "XLA",
    "MPS",
    "IPU",
    "XPU",
    "HPU",
    "VE",
    "Lazy",
    "MTIA",
    "MAIA",
    "PrivateUse1",
    "PrivateUse2",
    "PrivateUse3",
    "Meta",
];

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(registration: Registration, function: Option<Removable>) -> Py<Obj> {
    let mut all = lock(&REGISTRATIONS);
    all.push(Some((registration, function)));
    Obj::int(all.len() as i64 - 1)
}

/// `_library_impl(name, key, function)`: the kernel of an operator for a key is a Python function.
fn implement(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_library_impl(str name, str key, any function, bool with_keys=False)")
        .parse(None, args)?;
    let function = Arc::new(Mutex::new(Some(Shared::new(bound.object(2)?.clone()))));
    let called = function.clone();
    let lead = if bound.bool(3)? { Lead::Keys } else { Lead::Nothing };
    let kernel = move |call: &BoxedCall, stack: &mut Stack| {
        let present = || lock(&called).as_ref().map(Shared::get);
        run_led(call, present, stack, lead)
    };
    let op = find(bound.str(0)?)?;
    let target = reachable(bound.str(0)?, bound.str(1)?)?;
    keep(op.implement_boxed(target, Arc::new(kernel)), Some(function))
}

/// What a function is given before the arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lead {
    Nothing,
    /// The operator's name.
    Name,
    /// The keys that are not yet handled, as a number.
    Keys,
    NameAndKeys,
}

/// Calls the function, which is asked for with the interpreter lock held, with the arguments of the
/// stack, and the operator's name before them where it is wanted, and puts its results there.
pub(crate) fn run(
    call: &BoxedCall,
    function: impl FnOnce() -> Option<Obj>,
    stack: &mut Stack,
    with_name: bool,
) -> Result<()> {
    run_led(call, function, stack, if with_name { Lead::Name } else { Lead::Nothing })
}

/// As [`run`], with what is wanted before the arguments.
pub(crate) fn run_led(
    call: &BoxedCall,
    function: impl FnOnce() -> Option<Obj>,
    stack: &mut Stack,
    lead: Lead,
) -> Result<()> {
    let schema = call.op().schema();
    let name = call.op().def().qualified_name();
    let arguments = std::mem::take(stack);
    *stack = call_python(|| {
        let Some(function) = function() else {
            return Err(runtime_error(format!("{name}: the kernel was removed")));
        };
        let dict = Obj::dict()?;
        let mut positional = Vec::new();
        if matches!(lead, Lead::Name | Lead::NameAndKeys) {
            positional.push(Obj::str_from(&name)?);
        }
        if matches!(lead, Lead::Keys | Lead::NameAndKeys) {
            positional.push(Obj::int(call.keys().0 as i64)?);
        }
        for (argument, value) in schema.arguments.iter().zip(arguments.iter()) {
            let object = wrap_value(value.clone())?;
            match argument.kwarg_only {
                true => dict.dict_set(&Obj::str_from(&argument.name)?, &object)?,
                false => positional.push(object),
            }
        }
        let positional = Obj::tuple(positional.into_iter().map(Ok))?;
        let result = function.call_tuple(&positional, Some(&dict))?;
        results(&name, &schema.returns, &result)
    })?;
    Ok(())
}

pub(crate) fn results(name: &str, declared: &[Return], result: &Obj) -> Py<Stack> {
    match declared {
        [] => Ok(Stack::new()),
        [one] => Ok(std::iter::once(value(name, &one.ty, result)?).collect()),
        several => {
            let items = result.items()?;
            if items.len() != several.len() {
                return Err(runtime_error(format!(
                    "{name}: the kernel returned {} values, its schema has {}",
                    items.len(),
                    several.len()
                )));
            }
            items.iter().zip(several).map(|(item, one)| value(name, &one.ty, item)).collect()
        }
    }
}

/// A result as the schema declares it.
fn value(name: &str, ty: &Type, object: &Obj) -> Py<IValue> {
    let refuse = || {
        Err(type_error(format!(
            "{name}: the kernel returned {}, its schema has {ty}",
            object.type_name()
        )))
    };
    match ty.bare() {
        Type::Optional(_) if object.is_none() => Ok(IValue::None),
        Type::Optional(inner) => value(name, inner, object),
        Type::Base(BaseType::Tensor) => match tensor::get(object) {
            Some(found) => Ok(IValue::Tensor(found.clone())),
            // A gradient that was not asked for.
            None if object.is_none() => Ok(IValue::Tensor(Tensor::undefined())),
            None => refuse(),
        },
        Type::List(inner, _) if inner.is_tensor() => {
            let items = object.items()?;
            let tensors: Option<Vec<_>> =
                items.iter().map(|item| tensor::get(item).cloned()).collect();
            tensors.map_or_else(refuse, |tensors| Ok(IValue::TensorList(tensors)))
        }
        Type::List(inner, _) => numbers(inner.bare(), &object.items()?).unwrap_or_else(refuse),
        Type::Base(BaseType::Int | BaseType::SymInt) => {
            Ok(IValue::Int(index_of(object)?.to_i64()?))
        }
        Type::Base(BaseType::Bool) => Ok(IValue::Bool(object.is_true()?)),
        Type::Base(BaseType::Float) => {
            scalar_from(object).map(|number| IValue::Double(number.to_f64()))
        }
        Type::Base(BaseType::Scalar | BaseType::Complex) => scalar_from(object).map(Into::into),
        Type::Base(BaseType::Str) => Ok(IValue::String(object.as_str()?.into())),
        _ => refuse(),
    }
}

/// A list of numbers, or None where a schema has lists of something else.
fn numbers(element: &Type, items: &[Obj]) -> Option<Py<IValue>> {
    let Type::Base(base) = element else { return None };
    Some(match base {
        BaseType::Int | BaseType::SymInt => {
            let all: Py<Vec<i64>> = items.iter().map(|item| index_of(item)?.to_i64()).collect();
            all.map(|all| IValue::IntList(all.as_slice().into()))
        }
        BaseType::Float => {
            let number = |item| scalar_from(item).map(|number| number.to_f64());
            items.iter().map(number).collect::<Py<_>>().map(IValue::DoubleList)
        }
        BaseType::Bool => items.iter().map(Obj::is_true).collect::<Py<_>>().map(IValue::BoolList),
        _ => return None,
    })
}
