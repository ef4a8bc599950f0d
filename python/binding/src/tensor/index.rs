//! `tensor[…]` and `tensor[…] = value`: Python's keys as the index items of `corten_ops::index`.

use super::object::{TENSOR, get, is_dense_cpu, this, wrap_owned};
use crate::args::{NumberKind, number_kind, parser};
use crate::creation;
use crate::functions::op1;
use crate::numpy;
use crate::overrides;
use crate::py::errors::{Raised, type_error, value_error, warn};
use crate::py::{Args, Obj, Py, ffi, method, name, slot};
use corten_core::{DType, MemoryFormat, Scalar};
use corten_ops::Tensor;
use corten_ops::index::{self, IndexItem, Slice};
use smallvec::{SmallVec, smallvec};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// The slots of the class.
pub(crate) fn slots() -> Vec<(c_int, *mut c_void)> {
    vec![
        (ffi::Py_mp_subscript, slot!(binary get_item)),
        (ffi::Py_mp_ass_subscript, slot!(assign set_item)),
    ]
}

fn get_item(object: &Obj, key: &Obj) -> Py<Obj> {
    if overrides::modes_active() || !is_dense_cpu(object) {
        let args = [object.clone(), key.clone()];
        if let Some(result) = overridden(name!("__getitem__"), object, &args)? {
            return Ok(result);
        }
    }
    let tensor = this(object);
    if key.type_ptr() == &raw mut ffi::PyLong_Type {
        return wrap_owned(index::get(tensor, &[IndexItem::Int(key.to_i64()?)])?);
    }
    if key.is_slice() {
        return wrap_owned(index::get(tensor, &[slice(key)?])?);
    }
    if key.is_none() {
        return wrap_owned(index::get(tensor, &[IndexItem::None])?);
    }
    wrap_owned(index::get(tensor, &items(key)?)?)
}

fn set_item(object: &Obj, key: &Obj, value: Option<&Obj>) -> Py<()> {
    let Some(value) = value else {
        return Err(type_error("Tensor does not support deleting items"));
    };
    if overrides::modes_active() || !is_dense_cpu(object) {
        let args = [object.clone(), key.clone(), value.clone()];
        if overridden(name!("__setitem__"), object, &args)?.is_some() {
            return Ok(());
        }
    }
    let tensor = this(object);
    if let Some(source) = get(value) {
        return Ok(index::set(tensor, &items(key)?, source)?);
    }
    if let Some(number) = number(value)? {
        return Ok(index::set_scalar(tensor, &items(key)?, number)?);
    }
    Err(type_error(format!(
        "can't assign a {} to a torch.{}Tensor",
        value.type_name(),
        tensor.dtype().type_name()
    )))
}

/// A number that can be assigned: of Python, or an integer of NumPy, in 64 bits.
fn number(value: &Obj) -> Py<Option<Scalar>> {
    Ok(match number_kind(value) {
        Some(NumberKind::Int) => Some(Scalar::Int(super::item::index_object(value)?.to_i64()?)),
        Some(_) if value.is_bool() || value.is_float() || value.is_complex() => {
            Some(crate::args::scalar_from(value)?)
        }
        _ => None,
    })
}

/// Lets a subclass or mode take indexing over.
#[cold]
fn overridden(
    method: &'static crate::py::names::Name,
    object: &Obj,
    args: &[Obj],
) -> Py<Option<Obj>> {
    if !overrides::enabled() {
        return Ok(None);
    }
    let mut found = Default::default();
    if !is_dense_cpu(object) {
        crate::args::is_tensor_like(object, &mut found);
    }
    if found.is_empty() && !overrides::modes_active() {
        return Ok(None);
    }
    let function = TENSOR.obj().attr(method)?;
    let args = Obj::tuple(args.iter().map(|item| Ok(item.clone())))?;
    overrides::dispatch(&function, &found, &args, &Obj::dict()?).map(Some)
}

/// The items of a key: those of a tuple, of a short list that means one, or the key itself.
fn items(key: &Obj) -> Py<SmallVec<[IndexItem; 3]>> {
    if key.is_tuple() {
        // Item by item: no list of them is needed.
        return (0..key.sequence_len()).map(|at| item(&key.sequence_item(at)?)).collect();
    }
    if means_tuple(key)? {
        return key.items()?.iter().map(item).collect();
    }
    Ok(smallvec![item(key)?])
}

/// Lists that hold sequences, slices, `None` or `...` meant a tuple of indices in old NumPy.
fn means_tuple(key: &Obj) -> Py<bool> {
    if !key.is_list() || key.sequence_len() >= 32 {
        return Ok(false);
    }
    let as_tuple = key.items()?.iter().any(|item| {
        let nested = get(item).is_some() || is_sequence(item);
        nested || item.is_slice() || is_ellipsis(item) || item.is_none()
    });
    if as_tuple {
        warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be \
             changed in pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will \
             be interpreted as tensor index, x[torch.tensor(seq)], which will result either in an \
             error or a different result",
        )?;
    }
    Ok(as_tuple)
}

fn is_sequence(object: &Obj) -> bool {
    // SAFETY: the object is live.
    unsafe { ffi::PySequence_Check(object.as_ptr()) != 0 }
}

fn is_ellipsis(object: &Obj) -> bool {
    // SAFETY: only compares addresses.
    object.as_ptr() == unsafe { ffi::Py_Ellipsis() }
}

fn item(part: &Obj) -> Py<IndexItem> {
    if part.is_none() {
        return Ok(IndexItem::None);
    }
    if is_ellipsis(part) {
        return Ok(IndexItem::Ellipsis);
    }
    if part.is_slice() {
        return slice(part);
    }
    if let Some(index) = get(part) {
        return Ok(IndexItem::Tensor(index.clone()));
    }
    match number_kind(part) {
        Some(NumberKind::Bool) if part.is_bool() => return Ok(IndexItem::Bool(part.is_true()?)),
        Some(NumberKind::Int) => {
            return Ok(IndexItem::Int(super::item::index_object(part)?.to_i64()?));
        }
        _ => {}
    }
    if numpy::is_array(part) {
        return array(part).map(IndexItem::Tensor);
    }
    if part.is_float() || part.is_complex() || !is_sequence(part) {
        return Ok(index::invalid(&part.type_name())?);
    }
    let made = creation::tensor_from(part, None)?;
    match made.dtype() {
        DType::Bool | DType::UInt8 | DType::Int64 => Ok(IndexItem::Tensor(made)),
        // Positions, whatever they are written as; an empty list has no dtype of its own.
        _ => creation::tensor_from(part, Some(DType::Int64)).map(IndexItem::Tensor),
    }
}

/// An array as an index; integers of any width will do.
fn array(part: &Obj) -> Py<Tensor> {
    let index = numpy::from_array(part, false)?;
    let dtype = index.dtype();
    if !dtype.is_integral(false) || matches!(dtype, DType::Int32 | DType::Int64 | DType::UInt8) {
        return Ok(index);
    }
    Ok(op1!("aten::to.dtype", &index, DType::Int64, false, false, None::<MemoryFormat>)?)
}

fn slice(key: &Obj) -> Py<IndexItem> {
    if crate::symbolic::in_use() {
        return symbolic_slice(key);
    }
    unpacked_slice(key)
}

/// A slice whose bounds may be symbolic numbers.
#[cold]
fn symbolic_slice(key: &Obj) -> Py<IndexItem> {
    let bounds = [key.attr(name!("start"))?, key.attr(name!("stop"))?, key.attr(name!("step"))?];
    if bounds.iter().all(|bound| crate::symbolic::kind(bound).is_none()) {
        return unpacked_slice(key);
    }
    let number = |bound: &Obj| match bound.is_none() {
        true => Ok(None),
        false => super::item::index_object(bound)?.to_i64().map(Some),
    };
    let [start, stop, step] = &bounds;
    let start = number(start)?.or(Some(0));
    Ok(IndexItem::Slice(Slice { start, stop: number(stop)?, step: number(step)?.or(Some(1)) }))
}

fn unpacked_slice(key: &Obj) -> Py<IndexItem> {
    let (mut start, mut stop, mut step): (ffi::Py_ssize_t, ffi::Py_ssize_t, ffi::Py_ssize_t) =
        (0, 0, 0);
    // SAFETY: the object is a slice. Bounds that are missing or beyond 64 bits come as the ends.
    let status = unsafe { ffi::PySlice_Unpack(key.as_ptr(), &mut start, &mut stop, &mut step) };
    if status != 0 {
        return Err(Raised::already());
    }
    if step < 0 {
        if !NEGATIVE_STEPS.load(Ordering::Relaxed) {
            return Err(value_error("step must be greater than zero"));
        }
        let start = (start != ffi::Py_ssize_t::MAX).then_some(start as i64);
        let stop = (stop != ffi::Py_ssize_t::MIN).then_some(stop as i64);
        return Ok(IndexItem::Slice(Slice { start, stop, step: Some(step as i64) }));
    }
    let stop = (stop != ffi::Py_ssize_t::MAX).then_some(stop as i64);
    Ok(IndexItem::Slice(Slice { start: Some(start as i64), stop, step: Some(step as i64) }))
}

/// Whether slices may have negative steps: PyTorch's may not, and programs expect the error.
static NEGATIVE_STEPS: AtomicBool = AtomicBool::new(false);

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_set_negative_steps", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("set_negative_steps(bool enabled)").parse(None, args)?;
            NEGATIVE_STEPS.store(bound.bool(0)?, Ordering::Relaxed);
            Ok(Obj::none())
        }),
        method!("_get_negative_steps", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(NEGATIVE_STEPS.load(Ordering::Relaxed)))
        }),
    ]
}
