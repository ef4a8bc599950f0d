//! `tensor`, `as_tensor`, `asarray`, `scalar conversions` and `new_tensor`.

use super::buffer::frombuffer;
use super::sequence::tensor_from;
use crate::args::{Bound, parser};
use crate::dlpack;
use crate::functions::{op1, with_names_of_call};
use crate::numpy;
use crate::overrides::through_modes;
use crate::py::errors::{Raised, runtime_error, value_error, warn};
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::tensor;
use corten_core::{DType, Device, KeySet, Layout, MemoryFormat, TensorBase};
use corten_ops::{Tensor, op};

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("tensor", new_tensor),
        method!("as_tensor", as_tensor),
        method!("asarray", asarray),
        method!("frombuffer", frombuffer),
    ]
}

/// The rows of the method table.
pub(crate) fn method_rows() -> Vec<ffi::PyMethodDef> {
    vec![method!("new_tensor", method_new_tensor)]
}

/// The data as a new tensor where asked for.
fn place(made: Tensor, device: Option<Device>, requires_grad: bool) -> Py<Obj> {
    let made = match device {
        Some(device) if device != made.device() && !(device.is_cpu() && made.device().is_cpu()) => {
            op1!(
                "aten::to.dtype_layout",
                &made,
                None::<DType>,
                None::<Layout>,
                Some(device),
                None::<bool>,
                false,
                false,
                None::<MemoryFormat>
            )?
        }
        _ => made,
    };
    tensor::set_requires_grad(&made, requires_grad)?;
    tensor::wrap(&made)
}

fn new_tensor(module: &Obj, args: Args<'_>) -> Py<Obj> {
    if let Some(done) = through_modes(module, name!("tensor"), args) {
        return done;
    }
    let parser = parser!(
        "tensor(any data, *, ScalarType dtype=None, Device? device=None, bool pin_memory=False, bool requires_grad=False)"
    );
    let bound = match parser.parse(None, args) {
        Ok(bound) => bound,
        Err(raised) => return new_named_tensor(module, args, raised),
    };
    let data = bound.object(0)?;
    if tensor::is_tensor(data) {
        warn(
            "To copy construct from a tensor, it is recommended to use \
             sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), \
             rather than torch.tensor(sourceTensor).",
        )?;
    }
    let device = source_device(data, bound.device_opt(2)?);
    let mut made = tensor_from(data, bound.dtype_opt(1)?)?;
    if !tensor::is_tensor(data) {
        made = tensor::lift(made)?;
    }
    if bound.bool(3)? {
        made = pinned(&made, device)?;
    }
    place(made, device, bound.bool(4)?)
}

/// `tensor(…, names=…)`, which the parser does not know.
#[cold]
fn new_named_tensor(module: &Obj, args: Args<'_>, raised: Raised) -> Py<Obj> {
    let exception = raised.take();
    match with_names_of_call(args, |rest| new_tensor(module, rest)) {
        Some(done) => done,
        None => Err(match exception {
            Some(exception) => Raised::raise(&exception),
            None => runtime_error("tensor(): bad arguments"),
        }),
    }
}

/// A copy in pinned memory.
fn pinned(source: &Tensor, device: Option<Device>) -> Py<Tensor> {
    if device.is_some_and(|device| !device.is_cpu()) {
        return Err(runtime_error("Only dense CPU tensors can be pinned"));
    }
    let (sizes, strides) = (source.sizes(), source.strides());
    let storage = corten_core::pinned_storage(source.numel() as usize * source.itemsize())?;
    let keys = KeySet::for_tensor(source.device().device_type, source.layout(), source.dtype());
    let base = TensorBase::new_with_storage(storage, source.dtype(), keys, &sizes, &strides, 0)?;
    let made = Tensor::from(base);
    op::copy_(&made, source, false)?;
    Ok(made)
}

/// A copy of a tensor stays where it was.
fn source_device(data: &Obj, wanted: Option<Device>) -> Option<Device> {
    wanted.or_else(|| tensor::get(data).map(|source| source.device()))
}

/// `self.new_tensor(data, …)`: dtype and device of `self` unless given.
fn method_new_tensor(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "new_tensor(any data, *, ScalarType dtype=None, Device? device=None, bool requires_grad=False)"
    );
    let bound = parser.parse(None, args)?;
    let like = tensor::expect(object)?;
    let data = bound.object(0)?;
    if tensor::is_tensor(data) {
        warn(
            "To copy construct from a tensor, it is recommended to use \
             sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), \
             rather than tensor.new_tensor(sourceTensor).",
        )?;
    }
    let dtype = bound.dtype_opt(1)?.unwrap_or_else(|| like.dtype());
    let device = bound.device_opt(2)?.unwrap_or_else(|| like.device());
    let mut made = tensor_from(data, Some(dtype))?;
    if !tensor::is_tensor(data) {
        made = tensor::lift(made)?;
    }
    place(made, Some(device), bound.bool(3)?)
}

/// What shares the data where that is possible: tensors and arrays; else a copy.
fn shared(data: &Obj, dtype: Option<DType>, device: Option<Device>) -> Py<Tensor> {
    let source = if let Some(source) = tensor::get(data) {
        source.clone()
    } else if numpy::is_array(data) {
        numpy::from_array(data, true)?
    } else if dlpack::is_exporter(data)? {
        dlpack::import(data)?
    } else if crate::storage::is_storage(data) {
        crate::storage::tensor_over(data, dtype)?
    } else {
        return tensor_from(data, dtype);
    };
    if dtype.is_none_or(|dtype| dtype == source.dtype())
        && device.is_none_or(|device| device.device_type == source.device().device_type)
    {
        return Ok(source);
    }
    Ok(op1!(
        "aten::to.dtype_layout",
        &source,
        dtype,
        None::<Layout>,
        device,
        None::<bool>,
        false,
        false,
        None::<MemoryFormat>
    )?)
}

fn as_tensor(module: &Obj, args: Args<'_>) -> Py<Obj> {
    if let Some(done) = through_modes(module, name!("as_tensor"), args) {
        return done;
    }
    let parser = parser!("as_tensor(any data, ScalarType dtype=None, Device? device=None)");
    let bound = parser.parse(None, args)?;
    let (dtype, device) = (bound.dtype_opt(1)?, bound.device_opt(2)?);
    let mut made = shared(bound.object(0)?, dtype, device)?;
    if !tensor::is_tensor(bound.object(0)?) {
        made = tensor::lift(made)?;
    }
    match device {
        Some(device) => {
            let wanted = tensor::requires_grad(&made);
            if wanted { tensor::wrap(&made) } else { place(made, Some(device), false) }
        }
        None => tensor::wrap(&made),
    }
}

/// `asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)`.
fn asarray(module: &Obj, args: Args<'_>) -> Py<Obj> {
    if let Some(done) = through_modes(module, name!("asarray"), args) {
        return done;
    }
    let parser = parser!(
        "asarray(any obj, *, ScalarType? dtype=None, Device? device=None, bool? copy=None, bool requires_grad=False)"
    );
    let bound = parser.parse(None, args)?;
    let data = bound.object(0)?;
    let (dtype, device) = (bound.dtype_opt(1)?, bound.device_opt(2)?);
    let copy = bound.bool_opt(3)?;
    let source = match crate::storage::is_storage(data) && copy != Some(false) {
        true => Some(crate::storage::tensor_over(data, dtype)?),
        false => memory_of(data, dtype)?,
    };
    let Some(source) = source else {
        if copy == Some(false) {
            return Err(no_memory(data));
        }
        let made = if numpy::is_scalar(data) {
            tensor_from(&numpy::scalar_to_array(data)?, dtype)?
        } else {
            tensor_from(data, dtype)?
        };
        return place(made, device, bound.bool(4)?);
    };
    finish_asarray(&bound, source, dtype, device, copy)
}

/// The error for data that a tensor shall share and cannot.
#[cold]
fn no_memory(data: &Obj) -> Raised {
    if numpy::is_scalar(data) {
        return runtime_error(
            "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ",
        );
    }
    value_error("can't alias arbitrary sequence into a tensor.")
}

fn finish_asarray(
    bound: &Bound<'_>,
    source: Tensor,
    dtype: Option<DType>,
    device: Option<Device>,
    copy: Option<bool>,
) -> Py<Obj> {
    let wrong_device = device.is_some_and(|d| d.device_type != source.device().device_type);
    let wrong_dtype = dtype.is_some_and(|dtype| dtype != source.dtype());
    if copy == Some(false) && wrong_device {
        return Err(value_error(format!(
            "can't alias tensor from device '{}' to '{}'.",
            source.device(),
            device.unwrap_or(Device::CPU)
        )));
    }
    if copy == Some(false) && wrong_dtype {
        return Err(value_error(format!(
            "can't alias tensor with dtype '{}' into dtype '{}'.",
            source.dtype().type_name(),
            dtype.unwrap_or(DType::Undefined).type_name()
        )));
    }
    let wanted = bound.bool(4)?;
    let mut made = source;
    if copy == Some(true) || wrong_device || wrong_dtype {
        made = op1!(
            "aten::to.dtype_layout",
            &made,
            dtype,
            None::<Layout>,
            device,
            None::<bool>,
            false,
            copy == Some(true),
            None::<MemoryFormat>
        )?;
    }
    if tensor::get(bound.object(0)?).is_some() && !wanted && tensor::requires_grad(&made) {
        made = op1!("aten::detach", &made)?;
    } else if wanted && !tensor::requires_grad(&made) {
        tensor::set_requires_grad(&made, true)?;
    }
    tensor::wrap(&made)
}

/// A tensor over the object's own memory, if it has one that can be shared.
fn memory_of(data: &Obj, dtype: Option<DType>) -> Py<Option<Tensor>> {
    if let Some(source) = tensor::get(data) {
        return Ok(Some(source.clone()));
    }
    if numpy::is_array(data) {
        return numpy::from_array(data, true).map(Some);
    }
    if dlpack::is_capsule(data) {
        return dlpack::import_capsule(data).map(|(made, _)| Some(made));
    }
    let lacks = |name| data.attr_opt(name).map(|found| found.is_none());
    if !data.is_list() && !data.is_tuple() && !lacks(name!("__dlpack__"))? {
        return dlpack::import(data).map(Some);
    }
    // SAFETY: the object is live.
    let is_buffer = unsafe { ffi::PyObject_CheckBuffer(data.as_ptr()) != 0 };
    if is_buffer && !numpy::is_scalar(data) {
        return super::buffer::asarray_buffer(data, dtype).map(Some);
    }
    Ok(None)
}
