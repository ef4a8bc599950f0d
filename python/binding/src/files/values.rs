//! What files hold beside tensors, as objects of Python.

use crate::py::{Obj, Py, name};
use crate::{tensor, types};
use corten::io::Value;
use corten_core::Complex;
use corten_ops::Tensor;

/// The object of a value.
pub(super) fn to_object(value: &Value) -> Py<Obj> {
    let all = |values: &[Value]| values.iter().map(to_object).collect::<Py<Vec<_>>>();
    match value {
        Value::None => Ok(Obj::none()),
        Value::Bool(value) => Ok(Obj::bool(*value)),
        Value::Int(value) => Obj::int(*value),
        Value::BigInt(bytes) => big_int(bytes),
        Value::Float(value) => Obj::float(*value),
        Value::Complex(re, im) => Obj::complex(Complex::new(*re, *im)),
        Value::Text(text) => Obj::str_from(text),
        Value::Bytes(bytes) => Obj::bytes(bytes),
        Value::Tuple(values) => Obj::tuple(all(values)?.into_iter().map(Ok)),
        Value::List(values) | Value::Set(values) => Obj::list(all(values)?.into_iter().map(Ok)),
        Value::Dict(entries) => {
            let dict = Obj::dict()?;
            for (key, value) in entries {
                dict.dict_set(&to_object(key)?, &to_object(value)?)?;
            }
            Ok(dict)
        }
        Value::Tensor(value) => tensor::wrap(value),
        Value::Size(sizes) => Obj::int_tuple(sizes),
        Value::DType(dtype) => Ok(types::dtype::object(*dtype)),
        Value::Device(device) => types::device::object(*device),
        Value::Layout(layout) => Obj::str_from(&format!("torch.{}", layout.name())),
        Value::Object(object) => {
            let class = Obj::str_from(&object.class)?;
            let parts = Obj::list(all(&object.parts)?.into_iter().map(Ok))?;
            Obj::tuple([Ok(class), Ok(parts)])
        }
    }
}

/// The value of an object of metadata: numbers, texts and lists of them.
pub(super) fn from_object(object: &Obj) -> Py<Value> {
    Ok(if object.is_bool() {
        Value::Bool(object.is_true()?)
    } else if object.is_int() {
        Value::Int(object.to_i64()?)
    } else if object.is_float() {
        Value::Float(object.to_f64()?)
    } else if object.is_str() {
        Value::Text(object.as_str()?.to_owned())
    } else if object.is_list() || object.is_tuple() {
        Value::List(object.items()?.iter().map(from_object).collect::<Py<_>>()?)
    } else {
        return Err(crate::py::errors::type_error(format!(
            "metadata are numbers, texts and lists of them, not {}",
            object.type_name()
        )));
    })
}

/// The value of an object of numbers, texts, tensors, and lists, tuples and dictionaries of them.
pub(super) fn described(object: &Obj) -> Py<Value> {
    if object.is_none() {
        return Ok(Value::None);
    }
    if object.is_dict() {
        let pairs = object.call_method(name!("items"), &[])?.items()?;
        let pair = |pair: &Obj| {
            Ok((described(&pair.sequence_item(0)?)?, described(&pair.sequence_item(1)?)?))
        };
        return Ok(Value::Dict(pairs.iter().map(pair).collect::<Py<_>>()?));
    }
    if object.is_list() || object.is_tuple() {
        return Ok(Value::List(object.items()?.iter().map(described).collect::<Py<_>>()?));
    }
    match from_object(object) {
        Ok(value) => Ok(value),
        Err(_) => Ok(Value::Tensor(tensor::expect(object)?.clone())),
    }
}

/// A whole number in two's complement, little-endian.
pub(super) fn big_int(bytes: &[u8]) -> Py<Obj> {
    // SAFETY: the type of integers is live.
    let class = unsafe { Obj::borrowed((&raw mut crate::py::ffi::PyLong_Type).cast()) };
    let make = class.attr(name!("from_bytes"))?;
    let order = Obj::str_from("little")?;
    make.call_with(&[&Obj::bytes(bytes)?, &order], &[(name!("signed"), &Obj::bool(true))])
}

/// A dictionary of named tensors.
pub(super) fn dict_of(tensors: Vec<(String, Tensor)>) -> Py<Obj> {
    let dict = Obj::dict()?;
    for (name, tensor) in tensors {
        dict.dict_set(&Obj::str_from(&name)?, &tensor::wrap_owned(tensor)?)?;
    }
    Ok(dict)
}

/// The tensors of a dictionary by name.
pub(super) fn named_tensors(dict: &Obj) -> Py<Vec<(String, Tensor)>> {
    let pairs = dict.call_method(name!("items"), &[])?;
    let pair = |pair: &Obj| {
        let (name, found) = (pair.sequence_item(0)?, pair.sequence_item(1)?);
        Ok((name.as_str()?.to_owned(), tensor::expect(&found)?.clone()))
    };
    pairs.items()?.iter().map(pair).collect()
}
