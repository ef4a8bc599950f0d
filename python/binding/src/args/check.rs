//! Which objects a parameter accepts.

use super::signature::{Param, ParamKind};
use crate::py::errors::{Raised, type_error};
use crate::py::{Args, Obj, Py, ffi, name};
use crate::{numpy, tensor, types};
use smallvec::SmallVec;

/// The kind of number an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NumberKind {
    Bool,
    Int,
    Float,
    Complex,
}

/// The kind of number, for Python's and NumPy's numbers.
pub(crate) fn number_kind(object: &Obj) -> Option<NumberKind> {
    let (float, int) = (&raw mut ffi::PyFloat_Type, &raw mut ffi::PyLong_Type);
    let ty = object.type_ptr();
    if ty == float {
        return Some(NumberKind::Float);
    }
    if ty == int {
        return Some(NumberKind::Int);
    }
    if object.is_bool() {
        return Some(NumberKind::Bool);
    }
    if object.is_int() {
        return Some(NumberKind::Int);
    }
    if object.is_float() {
        return Some(NumberKind::Float);
    }
    if object.is_complex() {
        return Some(NumberKind::Complex);
    }
    crate::symbolic::kind(object).or_else(|| numpy::scalar_kind(object))
}

/// Objects that override operators, in the order they were met.
pub(crate) type Overloaded = SmallVec<[Obj; 1]>;

/// Whether the object is a tensor or stands for one by `__torch_function__`.
pub(crate) fn is_tensor_like(object: &Obj, overloaded: &mut Overloaded) -> bool {
    if tensor::is_dense_cpu(object) {
        return true;
    }
    if tensor::is_tensor(object) {
        if tensor::overrides(object) {
            add_overloaded(object, overloaded);
        }
        return true;
    }
    if has_torch_function(object) {
        add_overloaded(object, overloaded);
        return true;
    }
    false
}

/// Whether an object that is no tensor overrides operators.
fn has_torch_function(object: &Obj) -> bool {
    if number_kind(object).is_some()
        || object.is_str()
        || object.is_tuple()
        || object.is_list()
        || object.is_none()
    {
        return false;
    }
    match object.type_obj().attr_opt(name!("__torch_function__")) {
        Ok(found) => found.is_some_and(|function| !tensor::is_disabled_function(&function)),
        Err(raised) => {
            raised.clear();
            false
        }
    }
}

/// Subclasses go before their bases, else in the order of the arguments, each type once.
fn add_overloaded(object: &Obj, overloaded: &mut Overloaded) {
    if overloaded.iter().any(|seen| seen.type_ptr() == object.type_ptr()) {
        return;
    }
    let place = overloaded
        .iter()
        .position(|seen| object.is_instance_of(seen.type_ptr()))
        .unwrap_or(overloaded.len());
    overloaded.insert(place, object.clone());
}

/// The objects among the arguments, and in lists of them, that override operators and are no tensors.
pub(crate) fn stand_ins(args: Args<'_>) -> Overloaded {
    let mut found = Overloaded::new();
    for object in args.positional.iter().chain(args.keywords) {
        if object.is_tuple() || object.is_list() {
            for index in 0..object.sequence_len() {
                match object.sequence_item(index) {
                    Ok(item) => add_stand_in(&item, &mut found),
                    Err(raised) => raised.clear(),
                }
            }
        } else {
            add_stand_in(object, &mut found);
        }
    }
    found
}

fn add_stand_in(object: &Obj, found: &mut Overloaded) {
    if !tensor::is_tensor(object) && has_torch_function(object) {
        add_overloaded(object, found);
    }
}

/// What a check found.
pub(crate) enum Verdict {
    Accepted,
    Refused,
    /// A list whose element at this place is of the wrong type.
    RefusedAt(usize),
}

impl From<bool> for Verdict {
    fn from(accepted: bool) -> Self {
        if accepted { Self::Accepted } else { Self::Refused }
    }
}

/// Whether the parameter accepts the object. A list of tensors with another element raises at once.
pub(crate) fn check(
    param: &Param,
    object: &Obj,
    index: usize,
    overloaded: &mut Overloaded,
) -> Py<Verdict> {
    Ok(match param.kind {
        ParamKind::Tensor => {
            let accepted = is_tensor_like(object, overloaded)
                || (param.numbers && number_kind(object).is_some());
            accepted.into()
        }
        ParamKind::TensorList => {
            return tensor_list(object, index, overloaded, false).map(Verdict::from);
        }
        ParamKind::OptionalTensorList => {
            return tensor_list(object, index, overloaded, true).map(Verdict::from);
        }
        ParamKind::Scalar | ParamKind::Complex => {
            (number_kind(object).is_some() || is_plain_scalar_tensor(object)).into()
        }
        ParamKind::Float => (is_real(object) || is_plain_scalar_tensor(object)).into(),
        ParamKind::Int => is_int(object, param.symbolic).into(),
        ParamKind::Bool => {
            (object.is_bool() || number_kind(object) == Some(NumberKind::Bool)).into()
        }
        ParamKind::IntList => return Ok(int_list(param.count, object)),
        ParamKind::FloatList => first_item(object, |item| number_kind(item).is_some())?.into(),
        ParamKind::BoolList => first_item(object, Obj::is_bool)?.into(),
        ParamKind::ScalarList => first_item(object, |item| number_kind(item).is_some())?.into(),
        ParamKind::Str => (object.is_str() || object.is_bytes()).into(),
        ParamKind::DType => types::dtype::accepts(object).into(),
        ParamKind::Layout => types::layout::is_layout(object).into(),
        ParamKind::MemoryFormat => types::layout::is_memory_format(object).into(),
        ParamKind::Device => types::device::accepts(object).into(),
        ParamKind::Generator => types::generator::is_generator(object).into(),
        ParamKind::Storage => crate::storage::is_storage(object).into(),
        ParamKind::Stream | ParamKind::Object => Verdict::Accepted,
    })
}

/// Whether the object is a number that can be used as a float: truth values are, and NumPy's complex
/// numbers, of which NumPy gives the real part with a warning.
fn is_real(object: &Obj) -> bool {
    match number_kind(object) {
        Some(NumberKind::Complex) => numpy::scalar_kind(object).is_some(),
        kind => kind.is_some(),
    }
}

/// Whether the object can be used as an integer: bool cannot, an integral tensor of rank 0 can. Those
/// of sizes (`symbolic`) may be whatever `operator.index` takes, tensors of one element among them.
pub(crate) fn is_int(object: &Obj, symbolic: bool) -> bool {
    if let Some(kind) = number_kind(object) {
        return kind == NumberKind::Int;
    }
    match tensor::get(object) {
        Some(value) if symbolic => value.dtype().is_integral(true) && value.numel() == 1,
        Some(value) => {
            value.dtype().is_integral(false) && value.dim() == 0 && !tensor::requires_grad(value)
        }
        None => symbolic && has_index(object),
    }
}

/// Whether `operator.index` takes the object. Arrays have the slot, but only those of one integer
/// fill it, so that the others are data.
fn has_index(object: &Obj) -> bool {
    // SAFETY: the object is live.
    let has_slot = unsafe { ffi::PyIndex_Check(object.as_ptr()) != 0 };
    has_slot && super::scalar::index_of(object).map_err(Raised::clear).is_ok()
}

/// Whether the object is a tensor of rank 0 that needs no gradient.
fn is_plain_scalar_tensor(object: &Obj) -> bool {
    tensor::get(object).is_some_and(|value| value.dim() == 0 && !tensor::requires_grad(value))
}

fn tensor_list(
    object: &Obj,
    argument: usize,
    overloaded: &mut Overloaded,
    nullable: bool,
) -> Py<bool> {
    if !object.is_tuple() && !object.is_list() {
        return Ok(false);
    }
    for index in 0..object.sequence_len() {
        let item = object.sequence_item(index)?;
        let fits = is_tensor_like(&item, overloaded) || (nullable && item.is_none());
        if !fits {
            return Err(type_error(format!(
                "expected Tensor as element {index} in argument {argument}, but got {}",
                item.type_name()
            )));
        }
    }
    Ok(true)
}

fn int_list(count: u8, object: &Obj) -> Verdict {
    if object.is_tuple() || object.is_list() {
        if object.sequence_len() == 0 {
            return Verdict::Accepted;
        }
        return match object.sequence_item(0) {
            Ok(item) if is_int(&item, true) => Verdict::Accepted,
            Ok(_) => Verdict::RefusedAt(0),
            Err(raised) => {
                raised.clear();
                Verdict::Refused
            }
        };
    }
    (count > 0 && is_int(object, true)).into()
}

/// Whether positional arguments may be taken together as one list of integers.
pub(crate) fn varargs_ints(args: &[Obj]) -> Verdict {
    match args.first() {
        Some(first) if !is_int(first, true) => Verdict::RefusedAt(0),
        _ => Verdict::Accepted,
    }
}

fn first_item(object: &Obj, accepts: impl Fn(&Obj) -> bool) -> Py<bool> {
    if !object.is_tuple() && !object.is_list() {
        return Ok(false);
    }
    if object.sequence_len() == 0 {
        return Ok(true);
    }
    Ok(accepts(&object.sequence_item(0)?))
}
