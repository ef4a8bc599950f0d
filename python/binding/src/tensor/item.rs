//! Elements as Python numbers, and the protocols that follow from them.

use super::object::{is_tensor, this};
use crate::args::number_kind;
use crate::functions::{call_method, op};
use crate::overrides;
use crate::py::errors::{runtime_error, type_error, value_error};
use crate::py::{Obj, Py, ffi, name, slot};
use corten_core::{DispatchKey, Element, MemoryFormat, Reader, Result, Scalar, match_dtype};
use corten_ops::Tensor;
use smallvec::SmallVec;
use std::ffi::{c_int, c_void};

/// The only element of a tensor.
pub(crate) fn item(tensor: &Tensor) -> Result<Scalar> {
    if corten_core::tls::local_include().has(DispatchKey::Python)
        && !tensor.is_wrapped_number()
        && tensor.numel() == 1
    {
        // Modes see that a value is asked for.
        return corten_ops::returns(op!("aten::_local_scalar_dense", tensor)?);
    }
    if let Some(number) = tensor.only_element()? {
        return Ok(number);
    }
    if tensor.numel() != 1 {
        corten_core::bail!(
            Runtime,
            "a Tensor with {} elements cannot be converted to Scalar",
            tensor.numel()
        );
    }
    if tensor.device().is_meta() {
        corten_core::bail!(Runtime, "Tensor.item() cannot be called on meta tensors");
    }
    if !is_dense_cpu(tensor) {
        return corten_ops::returns(op!("aten::_local_scalar_dense", tensor)?);
    }
    match_dtype!(tensor.dtype(), "_local_scalar_dense_cpu", All, T => {
        let reader = Reader::<T>::new(tensor.base())?;
        Ok(reader[0].to_scalar())
    })
}

/// Whether the elements lie in host memory as they are to be read.
fn is_dense_cpu(tensor: &Tensor) -> bool {
    let is_stored = tensor.has_storage() && !tensor.is_quantized();
    tensor.device().is_cpu() && !tensor.is_conj() && !tensor.is_neg() && is_stored
}

/// Nested lists of numbers.
pub(crate) fn to_list(tensor: &Tensor) -> Py<Obj> {
    if tensor.dim() == 0 {
        return Obj::scalar(item(tensor)?);
    }
    match_dtype!(tensor.dtype(), "tolist", All, T => {
        // Copied first: making lists may run any code, which may want to write to the tensor.
        let mut values = SmallVec::<[T; 16]>::new();
        if !tensor.append_block_to(&mut values)? {
            values.extend_from_slice(&Reader::<T>::new(dense(tensor)?.base())?);
        }
        Ok(match tensor.dim() {
            1 => Obj::list_of_numbers(values.iter().map(|value| value.to_scalar())),
            _ => nest(&tensor.sizes(), &mut &values[..]),
        })
    })?
}

/// The tensor with its elements as they are to be read, one after the other in host memory.
fn dense(tensor: &Tensor) -> Py<Tensor> {
    let copy = (!is_dense_cpu(tensor)).then(|| super::memory::dense_copy(tensor)).transpose()?;
    let plain = copy.unwrap_or_else(|| tensor.clone());
    match plain.is_contiguous() {
        true => Ok(plain),
        false => Ok(corten_ops::op::contiguous(&plain, MemoryFormat::Contiguous)?),
    }
}

/// The first of the values as lists of these sizes; they are taken away.
fn nest<T: Element>(sizes: &[i64], values: &mut &[T]) -> Py<Obj> {
    match sizes {
        [first, rest @ ..] if !rest.is_empty() => {
            Obj::list((0..*first).map(|_| nest(rest, values)))
        }
        _ => {
            let count = sizes.first().map_or(1, |&count| count as usize);
            let row = values.split_off(..count).unwrap_or_default();
            Obj::list_of_numbers(row.iter().map(|value| value.to_scalar()))
        }
    }
}

/// The element for `int()`, `float()` and `complex()`.
fn single(object: &Obj) -> Py<Scalar> {
    let tensor = this(object);
    if tensor.numel() != 1 {
        return Err(value_error("only one element tensors can be converted to Python scalars"));
    }
    Ok(item(tensor)?)
}

fn to_int(object: &Obj) -> Py<Obj> {
    if let Some(done) = overrides::slot(object, name!("__int__"), &[]) {
        return done;
    }
    let number = single(object)?;
    if matches!(number, Scalar::Complex(value) if value.im != 0.0) {
        return Err(overflow("int64_t"));
    }
    let number = Obj::scalar(number)?;
    // SAFETY: the object is live.
    unsafe { Obj::owned(ffi::PyNumber_Long(number.as_ptr())) }
}

fn to_float(object: &Obj) -> Py<Obj> {
    if let Some(done) = overrides::slot(object, name!("__float__"), &[]) {
        return done;
    }
    let number = single(object)?;
    if let Scalar::Complex(value) = number {
        if value.im != 0.0 {
            return Err(overflow("double"));
        }
        return Obj::scalar(Scalar::Float(value.re));
    }
    let number = Obj::scalar(number)?;
    // SAFETY: the object is live.
    unsafe { Obj::owned(ffi::PyNumber_Float(number.as_ptr())) }
}

#[cold]
fn overflow(wanted: &str) -> crate::py::Raised {
    runtime_error(format!("value cannot be converted to type {wanted} without overflow"))
}

/// `__complex__`.
pub(crate) fn to_complex(object: &Obj) -> Py<Obj> {
    Obj::complex(single(object)?.to_complex())
}

/// `operator.index` of any object; a tensor must be integral and have one element.
pub(crate) fn index_object(object: &Obj) -> Py<Obj> {
    if let Some(sample) = crate::symbolic::sample(object) {
        return sample;
    }
    // SAFETY: the object is live.
    unsafe { Obj::owned(ffi::PyNumber_Index(object.as_ptr())) }
}

fn index(object: &Obj) -> Py<Obj> {
    if let Some(done) = overrides::slot(object, name!("__index__"), &[]) {
        return done;
    }
    let tensor = this(object);
    if tensor.numel() != 1 || !tensor.dtype().is_integral(true) {
        return Err(type_error(
            "only integer tensors of a single element can be converted to an index",
        ));
    }
    match item(tensor)? {
        Scalar::Bool(truth) => Obj::int(i64::from(truth)),
        number => Obj::scalar(number),
    }
}

fn truth(object: &Obj) -> Py<bool> {
    if let Some(done) = overrides::slot(object, name!("__bool__"), &[]) {
        return done?.is_true();
    }
    let tensor = this(object);
    corten_ops::batched::check_decidable(tensor)?;
    match tensor.numel() {
        1 => Ok(item(tensor)?.to_bool()),
        0 => Err(runtime_error("Boolean value of Tensor with no values is ambiguous")),
        _ => Err(runtime_error("Boolean value of Tensor with more than one value is ambiguous")),
    }
}

fn length(object: &Obj) -> Py<usize> {
    if let Some(done) = overrides::slot(object, name!("__len__"), &[]) {
        let length = done?.to_i64()?;
        return usize::try_from(length).map_err(|_| value_error("__len__() should return >= 0"));
    }
    match this(object).sizes().first() {
        Some(&size) => Ok(size as usize),
        None => Err(type_error("len() of a 0-d tensor")),
    }
}

fn iter(object: &Obj) -> Py<Obj> {
    if this(object).dim() == 0 {
        return Err(type_error("iteration over a 0-d tensor"));
    }
    let rows = call_method("unbind", object, &[Obj::int(0)?])?;
    // SAFETY: the object is live.
    unsafe { Obj::owned(ffi::PyObject_GetIter(rows.as_ptr())) }
}

fn contains(object: &Obj, element: &Obj) -> Py<bool> {
    let others = std::slice::from_ref(element);
    if let Some(done) = overrides::slot(object, name!("__contains__"), others) {
        return done?.is_true();
    }
    if !is_tensor(element) && number_kind(element).is_none() {
        return Err(runtime_error(format!(
            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a {}.",
            element.type_obj().display()
        )));
    }
    let equal = call_method("eq", object, std::slice::from_ref(element))?;
    let any = call_method("any", &equal, &[])?;
    any.is_true()
}

fn hash(object: &Obj) -> Py<usize> {
    Ok(object.as_ptr() as usize)
}

/// `format(tensor, spec)`: a tensor of rank 0 formats its element.
pub(crate) fn format(object: &Obj, spec: &Obj) -> Py<Obj> {
    let tensor = this(object);
    if tensor.dim() == 0 && !tensor.device().is_meta() && super::object::is_dense_cpu(object) {
        let number = Obj::scalar(item(tensor)?)?;
        return number.call_method(name!("__format__"), &[spec]);
    }
    if spec.len()? == 0 {
        return object.str();
    }
    Err(type_error("unsupported format string passed to Tensor.__format__"))
}

/// The text of a tensor, under the name of its class.
pub(crate) fn repr(object: &Obj) -> Py<Obj> {
    let prefix = match super::object::is_dense_cpu(object) {
        true => "tensor(".to_owned(),
        false => format!("{}(", object.type_name()),
    };
    Obj::str_from(&corten_ops::print::repr_with_prefix(this(object), &prefix)?)
}

/// The protocol slots of the class.
pub(crate) fn slots() -> Vec<(c_int, *mut c_void)> {
    vec![
        (ffi::Py_nb_int, slot!(unary to_int)),
        (ffi::Py_nb_float, slot!(unary to_float)),
        (ffi::Py_nb_index, slot!(unary index)),
        (ffi::Py_nb_bool, slot!(truth truth)),
        (ffi::Py_mp_length, slot!(length length)),
        (ffi::Py_tp_iter, slot!(unary iter)),
        (ffi::Py_sq_contains, slot!(contains contains)),
        (ffi::Py_tp_hash, slot!(length hash)),
        (ffi::Py_tp_repr, slot!(unary repr)),
    ]
}
