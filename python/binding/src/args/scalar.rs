//! Numbers, dtypes and lists out of Python objects that passed their check.

use super::check::{NumberKind, number_kind};
use super::signature::Param;
use crate::py::errors::{Raised, runtime_error, type_error};
use crate::py::{Obj, Py, ffi};
use crate::{tensor, types};
use corten_core::{DType, Dims, Scalar};

/// The scalar of a number, a NumPy number or a tensor of one element.
pub(crate) fn scalar_from(object: &Obj) -> Py<Scalar> {
    if let Some(value) = tensor::get(object) {
        return Ok(tensor::item(value)?);
    }
    if let Some(sample) = crate::symbolic::sample(object) {
        return sample?.to_scalar();
    }
    match number_kind(object) {
        Some(NumberKind::Bool) if object.is_bool() => Ok(Scalar::Bool(object.is_true()?)),
        // PyTorch takes NumPy's truth values for floats.
        Some(NumberKind::Bool) => Ok(Scalar::Float(f64::from(u8::from(object.is_true()?)))),
        Some(NumberKind::Int) if object.is_int() => object.to_scalar(),
        Some(NumberKind::Int) => index_of(object)?.to_scalar(),
        Some(NumberKind::Float) => object.to_f64().map(Scalar::Float),
        Some(NumberKind::Complex) => object.to_complex().map(Scalar::Complex),
        None => Err(type_error(format!("must be a number, not {}", object.type_name()))),
    }
}

/// `operator.index(object)`.
pub(crate) fn index_of(object: &Obj) -> Py<Obj> {
    if let Some(sample) = crate::symbolic::sample(object) {
        return sample;
    }
    // SAFETY: the object is live.
    unsafe { Obj::owned(ffi::PyNumber_Index(object.as_ptr())) }
}

/// An integer: of Python, of NumPy, anything with `__index__`, an integral tensor of one element.
pub(crate) fn int_from(object: &Obj, symbolic: bool) -> Py<i64> {
    if object.is_int() {
        return object.to_i64();
    }
    if let Some(value) = tensor::get(object) {
        if symbolic && value.dtype() == DType::Bool {
            return Err(runtime_error("expected an integer, but got a tensor of dtype bool"));
        }
        return Ok(tensor::item(value)?.to_i64());
    }
    index_of(object)?.to_i64()
}

/// A float from a number or a tensor of one element.
pub(crate) fn float_from(object: &Obj) -> Py<f64> {
    match tensor::get(object) {
        Some(value) => Ok(tensor::item(value)?.to_f64()),
        None => match crate::symbolic::sample(object) {
            Some(sample) => sample?.to_f64(),
            None => object.to_f64(),
        },
    }
}

/// A list of integers; a single integer stands for as many as the parameter has.
pub(crate) fn int_list(function: &str, param: &Param, object: &Obj) -> Py<Dims> {
    if !object.is_tuple() && !object.is_list() {
        // Here PyTorch takes tensors of truth values, other than for sizes.
        let value = int_from(object, false)?;
        return Ok(std::iter::repeat_n(value, usize::from(param.count.max(1))).collect());
    }
    let length = object.sequence_len();
    let mut values = Dims::with_capacity(length);
    for index in 0..length {
        let item = object.sequence_item(index)?;
        values.push(int_item(function, param, index, &item)?);
    }
    Ok(values)
}

/// One integer of a list, with PyTorch's complaint about its place. The first one was checked with
/// the list; of the others truth values pass, too.
pub(crate) fn int_item(function: &str, param: &Param, index: usize, item: &Obj) -> Py<i64> {
    let name = &param.name;
    if super::check::is_int(item, true) || item.is_bool() {
        return int_from(item, param.symbolic)
            .map_err(|raised| out_of_range(function, name, index, raised));
    }
    Err(type_error(format!(
        "{function}(): argument '{name}' failed to unpack the object at pos {} with error \"type \
         must be tuple of ints,but got {}\"",
        index + 1,
        item.type_name()
    )))
}

/// The text of a string or of bytes.
pub(crate) fn text_from(object: &Obj) -> Py<&str> {
    if object.is_str() {
        return object.as_str();
    }
    std::str::from_utf8(object.as_bytes()?)
        .map_err(|error| type_error(format!("expected str, but got bytes: {error}")))
}

/// Names the place of an integer that has more than 64 bits.
#[cold]
fn out_of_range(function: &str, name: &str, index: usize, raised: Raised) -> Raised {
    // SAFETY: reads a static of the interpreter.
    if !raised.matches(unsafe { ffi::PyExc_ValueError }) {
        return raised;
    }
    raised.clear();
    type_error(format!(
        "{function}(): argument '{name}' failed to unpack the object at pos {} with error \
         \"Overflow when unpacking long long\"",
        index + 1
    ))
}

/// A dtype from a dtype object or one of Python's number types.
pub(crate) fn dtype_arg(object: &Obj) -> Py<DType> {
    types::dtype::from_object(object)
}
