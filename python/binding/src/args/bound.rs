//! Arguments bound to a signature, and their values.

use super::check::Overloaded;
use super::scalar::{dtype_arg, float_from, int_from, int_item, int_list, scalar_from, text_from};
use super::signature::{Param, ParamKind, Signature};
use crate::py::errors::type_error;
use crate::py::{Obj, Py, ffi};
use crate::{storage, tensor, types};
use corten_core::{DType, Device, Dims, MemoryFormat};
use corten_ops::{IValue, Tensor};
use smallvec::SmallVec;

/// The arguments of a call, one place per parameter of the signature that accepted them.
pub(crate) struct Bound<'a> {
    pub(crate) signature: &'a Signature,
    /// Which signature.
    pub(crate) index: usize,
    /// Borrowed objects; null where the argument was left out or is `None`.
    pub(crate) slots: SmallVec<[*mut ffi::PyObject; 12]>,
    /// The positional arguments taken together as the first parameter.
    pub(crate) varargs: Option<&'a [Obj]>,
    /// The arguments that override operators.
    pub(crate) overloaded: Overloaded,
}

impl<'a> Bound<'a> {
    /// Forgets what an attempt at another signature has bound.
    #[inline]
    pub(super) fn reset(&mut self, signature: &'a Signature) {
        self.signature = signature;
        self.slots.clear();
        self.varargs = None;
        self.overloaded.clear();
    }

    /// The object at a place.
    pub(crate) fn get(&self, index: usize) -> Option<&Obj> {
        let slot = self.slots.get(index)?;
        // SAFETY: the caller of the function keeps its arguments alive.
        if slot.is_null() { None } else { Some(unsafe { Obj::peek(slot) }) }
    }

    /// Whether an argument was given at a place.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.get(index).is_some() || (index == 0 && self.varargs.is_some())
    }

    fn param(&self, index: usize) -> &'a Param {
        &self.signature.params[index]
    }

    /// A required object.
    pub(crate) fn object(&self, index: usize) -> Py<&Obj> {
        self.get(index)
            .ok_or_else(|| type_error(format!("argument '{}' is required", self.param(index).name)))
    }

    /// A required tensor.
    pub(crate) fn tensor(&self, index: usize) -> Py<Tensor> {
        tensor_from(self.object(index)?)
    }

    /// An integer, or its default.
    pub(crate) fn int(&self, index: usize) -> Py<i64> {
        match (self.get(index), &self.param(index).default) {
            (Some(object), _) => int_from(object, self.param(index).symbolic),
            (None, IValue::Int(value)) => Ok(*value),
            _ => Ok(0),
        }
    }

    /// An optional integer.
    pub(crate) fn int_opt(&self, index: usize) -> Py<Option<i64>> {
        let symbolic = self.param(index).symbolic;
        self.get(index).map(|object| int_from(object, symbolic)).transpose()
    }

    /// A truth value, or its default.
    pub(crate) fn bool(&self, index: usize) -> Py<bool> {
        match (self.get(index), &self.param(index).default) {
            (Some(object), _) => object.is_true(),
            (None, IValue::Bool(value)) => Ok(*value),
            _ => Ok(false),
        }
    }

    /// An optional truth value.
    pub(crate) fn bool_opt(&self, index: usize) -> Py<Option<bool>> {
        self.get(index).map(Obj::is_true).transpose()
    }

    /// A string.
    pub(crate) fn str(&self, index: usize) -> Py<&str> {
        text_from(self.object(index)?)
    }

    /// An optional string.
    pub(crate) fn str_opt(&self, index: usize) -> Py<Option<&str>> {
        self.get(index).map(text_from).transpose()
    }

    /// An optional dtype.
    pub(crate) fn dtype_opt(&self, index: usize) -> Py<Option<DType>> {
        self.get(index).map(dtype_arg).transpose()
    }

    /// An optional device.
    pub(crate) fn device_opt(&self, index: usize) -> Py<Option<Device>> {
        self.get(index).map(types::device::from_object).transpose()
    }

    /// An optional memory format.
    pub(crate) fn memory_format_opt(&self, index: usize) -> Py<Option<MemoryFormat>> {
        self.get(index).map(types::layout::memory_format_from).transpose()
    }

    /// A list of integers.
    pub(crate) fn ints(&self, index: usize) -> Py<Dims> {
        let param = self.param(index);
        let function = &self.signature.function;
        if let (0, Some(args)) = (index, self.varargs) {
            return args
                .iter()
                .enumerate()
                .map(|(at, item)| int_item(function, param, at, item))
                .collect();
        }
        match (self.get(index), &param.default) {
            (Some(object), _) => int_list(function, param, object),
            (None, IValue::IntList(values)) => Ok(values.clone()),
            _ => Ok(Dims::new()),
        }
    }

    /// Stores the value at a place as the dispatcher takes it, where it will stay.
    pub(crate) fn value_to(&self, index: usize, place: &mut IValue) -> Py<()> {
        let param = self.param(index);
        if index == 0 && self.varargs.is_some() {
            *place = IValue::IntList(self.ints(0)?);
            return Ok(());
        }
        match self.get(index) {
            Some(object) => boxed(&self.signature.function, param, object, place),
            None => {
                place.set_to(&param.default);
                Ok(())
            }
        }
    }
}

/// The tensor of an argument, a number becoming a wrapped one.
pub(crate) fn tensor_from(object: &Obj) -> Py<Tensor> {
    match tensor::get(object) {
        Some(value) => Ok(value.clone()),
        None => Ok(corten_ops::derived::wrapped(scalar_from(object)?)?),
    }
}

/// The device that tensors are put on: there is one host, which has no index.
fn place_of(object: &Obj) -> Py<Device> {
    let device = types::device::from_object(object)?;
    Ok(if device.is_cpu() { Device::CPU } else { device })
}

/// Stores an argument as the dispatcher takes it.
fn boxed(function: &str, param: &Param, object: &Obj, place: &mut IValue) -> Py<()> {
    match param.kind {
        ParamKind::Tensor => *place = IValue::Tensor(tensor_from(object)?),
        ParamKind::TensorList => {
            *place = IValue::TensorList(object.items()?.iter().map(tensor_from).collect::<Py<_>>()?)
        }
        ParamKind::OptionalTensorList => {
            *place = IValue::OptionalTensorList(
                object
                    .items()?
                    .iter()
                    .map(|item| if item.is_none() { Ok(None) } else { tensor_from(item).map(Some) })
                    .collect::<Py<_>>()?,
            )
        }
        ParamKind::Scalar | ParamKind::Complex => *place = scalar_from(object)?.into(),
        ParamKind::ScalarList => {
            *place = IValue::ScalarList(object.items()?.iter().map(scalar_from).collect::<Py<_>>()?)
        }
        ParamKind::Int => *place = IValue::Int(int_from(object, param.symbolic)?),
        ParamKind::IntList => *place = IValue::IntList(int_list(function, param, object)?),
        ParamKind::Float => *place = IValue::Double(float_from(object)?),
        ParamKind::FloatList => {
            *place = IValue::DoubleList(object.items()?.iter().map(float_from).collect::<Py<_>>()?)
        }
        ParamKind::Bool => *place = IValue::Bool(object.is_true()?),
        ParamKind::BoolList => {
            *place = IValue::BoolList(object.items()?.iter().map(Obj::is_true).collect::<Py<_>>()?)
        }
        ParamKind::Str => *place = IValue::String(text_from(object)?.into()),
        ParamKind::DType => *place = IValue::DType(dtype_arg(object)?),
        ParamKind::Layout => *place = IValue::Layout(types::layout::layout_from(object)?),
        ParamKind::MemoryFormat => {
            *place = IValue::MemoryFormat(types::layout::memory_format_from(object)?)
        }
        ParamKind::Device => *place = IValue::Device(place_of(object)?),
        ParamKind::Generator => *place = IValue::Generator(types::generator::from_object(object)?),
        ParamKind::Storage => *place = IValue::Storage(storage::from_object(object)?),
        ParamKind::Stream | ParamKind::Object => *place = IValue::None,
    }
    Ok(())
}
