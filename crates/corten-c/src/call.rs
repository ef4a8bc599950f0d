//! Operators by name.

use crate::status::{CortenStatus, guard, guard_value, without_nul};
use crate::tensor::{CortenTensor, check_place, give, write_to};
use crate::value::{CortenValue, borrowed, owned, release, slice_of, text_of};
use corten::core::{bail, bug, err};
use corten::ops::schema::{Argument, BaseType, Type, Value};
use corten::ops::{AnyOp, IValue, Stack, registry};
use corten::{DType, Layout, MemoryFormat, Result, Tensor};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// An operator. It lives as long as the program.
pub struct CortenOperator {
    op: &'static dyn AnyOp,
    name: CString,
    schema: CString,
}

/// The operators that were asked for.
static FOUND: Mutex<BTreeMap<String, &'static CortenOperator>> = Mutex::new(BTreeMap::new());

fn find(name: &str) -> Result<&'static CortenOperator> {
    let mut all = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = all.get(name) {
        return Ok(found);
    }
    let Some(op) = registry::find(name) else {
        bail!(Runtime, "operator {name} does not exist");
    };
    let found: &'static _ = Box::leak(Box::new(describe(op)));
    all.insert(name.to_owned(), found);
    Ok(found)
}

fn describe(op: &'static dyn AnyOp) -> CortenOperator {
    let def = op.def();
    CortenOperator {
        op,
        name: without_nul(&def.qualified_name()),
        schema: without_nul(&format!("{}::{}", def.namespace, def.schema)),
    }
}

/// `namespace::name.overload` of what C gave.
///
/// # Safety
/// The texts must end with a zero byte; the overload may be null.
pub(crate) unsafe fn full_name(name: *const c_char, overload: *const c_char) -> Result<String> {
    // SAFETY: the caller's.
    let name = unsafe { text_of("the name of an operator", name) }?;
    let mut full = match name.contains("::") {
        true => name.to_owned(),
        false => format!("aten::{name}"),
    };
    if !overload.is_null() {
        // SAFETY: the caller's.
        let overload = unsafe { text_of("the name of an overload", overload) }?;
        if !overload.is_empty() {
            full.push('.');
            full.push_str(overload);
        }
    }
    Ok(full)
}

/// An operator by name, such as `add` and `Tensor`, or `torchvision::nms` and null. The namespace is `aten` unless
/// the name has one; the overload may be null or empty, and may stand after a dot in the name.
///
/// # Safety
/// The texts must end with a zero byte, `op` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_operator_find(
    name: *const c_char,
    overload: *const c_char,
    op: *mut *const CortenOperator,
) -> CortenStatus {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(op, ptr::from_ref(find(&full_name(name, overload)?)?)) })
}

/// The name with namespace and overload, such as `aten::add.Tensor`.
///
/// # Safety
/// `op` must come from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_operator_name(op: *const CortenOperator) -> *const c_char {
    // SAFETY: the caller's.
    guard_value(c"".as_ptr(), || Ok(unsafe { operator(op) }?.name.as_ptr()))
}

/// The schema, such as `aten::neg(Tensor self) -> Tensor`.
///
/// # Safety
/// `op` must come from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_operator_schema(op: *const CortenOperator) -> *const c_char {
    // SAFETY: the caller's.
    guard_value(c"".as_ptr(), || Ok(unsafe { operator(op) }?.schema.as_ptr()))
}

/// # Safety
/// `op` must be null or come from this library.
unsafe fn operator(op: *const CortenOperator) -> Result<&'static CortenOperator> {
    // SAFETY: the caller's; operators are never freed.
    match unsafe { op.as_ref() } {
        Some(op) => Ok(op),
        None => bail!(Value, "an operator is null"),
    }
}

/// Calls an operator: `corten_operator_find` and `corten_operator_call` in one.
///
/// # Safety
/// As both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_call(
    name: *const c_char,
    overload: *const c_char,
    inputs: *const CortenValue,
    n_inputs: usize,
    outputs: *mut CortenValue,
    n_outputs: *mut usize,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        unsafe {
            let op = find(&full_name(name, overload)?)?.op;
            let mut stack = arguments(op, slice_of(inputs, n_inputs)?)?;
            op.call_boxed(&mut stack)?;
            give_results(stack, outputs, n_outputs)
        }
    })
}

/// Calls an operator with arguments in the order of its schema; those at the end that have a default may be left
/// out. `n_outputs` holds how many results there is room for, and then how many there are; null stands for no
/// room. The results are the caller's.
///
/// # Safety
/// The inputs must be alive and hold what their tags say; `outputs` must be valid for as many writes as
/// `n_outputs` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_operator_call(
    op: *const CortenOperator,
    inputs: *const CortenValue,
    n_inputs: usize,
    outputs: *mut CortenValue,
    n_outputs: *mut usize,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        unsafe {
            let op = operator(op)?.op;
            let mut stack = arguments(op, slice_of(inputs, n_inputs)?)?;
            op.call_boxed(&mut stack)?;
            give_results(stack, outputs, n_outputs)
        }
    })
}

/// Calls an operator whose only result is a tensor.
///
/// # Safety
/// As `corten_call`; `tensor` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_call_tensor(
    name: *const c_char,
    overload: *const c_char,
    inputs: *const CortenValue,
    n_inputs: usize,
    tensor: *mut *mut CortenTensor,
) -> CortenStatus {
    guard(|| {
        check_place(tensor)?;
        // SAFETY: the caller's.
        unsafe {
            let op = find(&full_name(name, overload)?)?.op;
            let mut stack = arguments(op, slice_of(inputs, n_inputs)?)?;
            op.call_boxed(&mut stack)?;
            let name = op.def().qualified_name();
            match (stack.pop(), stack.is_empty()) {
                (Some(IValue::Tensor(found)), true) => write_to(tensor, give(found)),
                _ => bail!(Type, "{name} does not return one tensor"),
            }
        }
    })
}

/// Hands the results of a call over.
///
/// # Safety
/// `outputs` must be valid for as many writes as `n_outputs` says.
pub(crate) unsafe fn give_results(
    stack: Stack,
    outputs: *mut CortenValue,
    n_outputs: *mut usize,
) -> Result<()> {
    // SAFETY: the caller's.
    let room = unsafe { n_outputs.as_mut() };
    let capacity = room.as_deref().copied().unwrap_or(0);
    if capacity < stack.len() && room.is_some() {
        bail!(Value, "there is room for {capacity} results of {}", stack.len());
    }
    let Some(room) = room else { return Ok(()) };
    *room = stack.len();
    for (index, value) in stack.iter().enumerate() {
        // SAFETY: the caller's, and the index is below the capacity.
        unsafe { write_to(outputs.wrapping_add(index), owned(value.clone())) }?;
    }
    Ok(())
}

/// The arguments of a call as its schema has them.
///
/// # Safety
/// The inputs must be alive and hold what their tags say.
pub(crate) unsafe fn arguments(op: &dyn AnyOp, inputs: &[CortenValue]) -> Result<Stack> {
    let declared = &op.schema().arguments;
    let name = || op.def().qualified_name();
    if inputs.len() > declared.len() {
        bail!(Type, "{} takes {} arguments, not {}", name(), declared.len(), inputs.len());
    }
    let mut stack = Stack::new();
    for (index, argument) in declared.iter().enumerate() {
        let Some(input) = inputs.get(index) else {
            let Some(default) = &argument.default else {
                bail!(Type, "{}: argument '{}' is missing", name(), argument.name);
            };
            stack.push(default_value(default, argument.ty.bare()));
            continue;
        };
        // SAFETY: the caller's.
        let given = unsafe { borrowed(input) }?;
        let tag = given.tag();
        let Some(fitting) = fit(given, argument.ty.bare()) else {
            let Argument { name: argument, ty, .. } = argument;
            bail!(
                Type,
                "{}: argument '{argument}' (position {}) must be {ty}, not {tag}",
                name(),
                index + 1
            );
        };
        stack.push(fitting);
    }
    Ok(stack)
}

/// A value as an argument of a type, if it can be one: one number stands for a list of a fixed length, an empty
/// list may have any tag.
pub(crate) fn fit(value: IValue, ty: &Type) -> Option<IValue> {
    Some(match (ty, value) {
        (Type::Optional(_), IValue::None) => IValue::None,
        (Type::Optional(inner), value) => return fit(value, inner.bare()),
        (Type::List(inner, size), value) => return fit_list(value, inner.bare(), *size),
        (Type::Base(base), value) => {
            let fits = match (base, &value) {
                (BaseType::Tensor, IValue::Tensor(_)) => true,
                (BaseType::Int | BaseType::SymInt, IValue::Int(_) | IValue::Bool(_)) => true,
                // Dtypes, layouts and memory formats are numbers to PyTorch.
                (BaseType::Float, IValue::Double(_) | IValue::Int(_) | IValue::Bool(_)) => true,
                (BaseType::Bool, IValue::Bool(_) | IValue::Int(_)) => true,
                (BaseType::Scalar | BaseType::Complex, value) => is_number(value),
                (BaseType::Str, IValue::String(_)) => true,
                (BaseType::Device, IValue::Device(_)) => true,
                (BaseType::Layout, IValue::Layout(_)) => true,
                (BaseType::MemoryFormat, IValue::MemoryFormat(_)) => true,
                (BaseType::ScalarType, IValue::DType(_)) => true,
                (BaseType::Generator, IValue::Generator(_)) => true,
                (BaseType::Storage, IValue::Storage(_)) => true,
                (BaseType::Named(_), _) => true,
                _ => false,
            };
            return fits.then_some(value);
        }
        (_, value) => value,
    })
}

fn is_number(value: &IValue) -> bool {
    use IValue::{Bool, ComplexDouble, Double, Int, UInt};
    matches!(value, Int(_) | UInt(_) | Double(_) | Bool(_) | ComplexDouble(_))
}

fn fit_list(value: IValue, element: &Type, size: Option<usize>) -> Option<IValue> {
    let is_optional = matches!(element, Type::Optional(_));
    let base = match element.unwrap_optional().unwrap_or(element).bare() {
        Type::Base(base) => base.clone(),
        _ => return Some(value),
    };
    // Bounded: a size that a schema says.
    let count = size.unwrap_or(1);
    Some(match (base, value) {
        (BaseType::Tensor, IValue::TensorList(list)) if is_optional => {
            let some = |tensor: Tensor| tensor.defined().then_some(tensor);
            IValue::OptionalTensorList(list.into_iter().map(some).collect())
        }
        (BaseType::Tensor, value @ IValue::TensorList(_)) => value,
        (BaseType::Tensor, value @ IValue::OptionalTensorList(_)) if is_optional => value,
        (BaseType::Int | BaseType::SymInt, value @ IValue::IntList(_)) => value,
        (BaseType::Int | BaseType::SymInt, IValue::Int(one)) if size.is_some() => {
            vec![one; count].into()
        }
        (BaseType::Float, value @ IValue::DoubleList(_)) => value,
        (BaseType::Float, IValue::IntList(list)) => {
            IValue::DoubleList(list.iter().map(|one| *one as f64).collect())
        }
        (BaseType::Bool, value @ IValue::BoolList(_)) => value,
        (BaseType::Bool, IValue::Bool(one)) if size.is_some() => vec![one; count].into(),
        (BaseType::Scalar, value @ IValue::ScalarList(_)) => value,
        (BaseType::Named(_) | BaseType::Str, value) => value,
        _ => return None,
    })
}

/// The default of an argument, as the registry takes it.
fn default_value(default: &Value, ty: &Type) -> IValue {
    let number = match default {
        Value::Int(number) => Some(*number),
        Value::Name(name) => Value::enumerator(name),
        _ => None,
    };
    match (ty, default) {
        (_, Value::None) => IValue::None,
        (Type::Optional(inner), _) => default_value(default, inner.bare()),
        (Type::List(inner, size), _) => default_list(default, inner.bare(), *size),
        (Type::Base(BaseType::MemoryFormat), _) => match number {
            Some(1) => MemoryFormat::Preserve.into(),
            _ => MemoryFormat::Contiguous.into(),
        },
        (Type::Base(BaseType::Layout), _) => Layout::Strided.into(),
        (Type::Base(BaseType::ScalarType), _) => {
            let dtype = number.and_then(|number| DType::from_number(u16::try_from(number).ok()?));
            dtype.into()
        }
        (Type::Base(BaseType::Float), Value::Int(number)) => (*number as f64).into(),
        (_, Value::Bool(truth)) => (*truth).into(),
        (_, Value::Float(text)) => text.parse::<f64>().ok().into(),
        (_, Value::Str(text)) => text.trim_matches(['\'', '"']).into(),
        _ => number.into(),
    }
}

fn default_list(default: &Value, element: &Type, size: Option<usize>) -> IValue {
    let items = match default {
        Value::List(items) => items.clone(),
        // Bounded: a size that a schema says.
        one => vec![one.clone(); size.unwrap_or(1)],
    };
    let values = items.iter().map(|item| default_value(item, element));
    match element {
        Type::Base(BaseType::Int | BaseType::SymInt) => {
            IValue::IntList(values.filter_map(|value| value.get().ok()).collect())
        }
        Type::Base(BaseType::Float) => {
            IValue::DoubleList(values.filter_map(|value| value.get().ok()).collect())
        }
        Type::Base(BaseType::Bool) => {
            IValue::BoolList(values.filter_map(|value| value.get().ok()).collect())
        }
        Type::Base(BaseType::Scalar) => {
            IValue::ScalarList(values.filter_map(|value| value.get().ok()).collect())
        }
        Type::Optional(_) => IValue::OptionalTensorList(Vec::new()),
        _ => IValue::TensorList(Vec::new()),
    }
}

/// A copy of a value that owns what it holds, as results do: kernels return lists so.
///
/// # Safety
/// `value` must be alive and hold what its tag says, `copy` must be valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_value_copy(
    value: *const CortenValue,
    copy: *mut CortenValue,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let found = unsafe { value.as_ref() }.ok_or_else(|| err!(Value, "a value is null"))?;
        // SAFETY: the caller's.
        unsafe { write_to(copy, owned(borrowed(found)?)) }
    })
}

/// Frees what results own and makes them absent: tensors, lists, text. A result that was taken out is skipped
/// when its tag is set to `CORTEN_NONE`.
///
/// # Safety
/// `values` must be valid for `count` values that this library made, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_values_free(values: *mut CortenValue, count: usize) {
    guard(|| {
        if values.is_null() {
            return Ok(());
        }
        for index in 0..count {
            // SAFETY: the caller's.
            match unsafe { values.wrapping_add(index).as_mut() } {
                // SAFETY: the caller's.
                Some(value) => unsafe { release(value) },
                None => bug!("a value is null"),
            }
        }
        Ok(())
    });
}
