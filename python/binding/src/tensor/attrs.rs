//! Attributes of `Tensor`.

use super::attribute;
use super::memory::{requires_grad, set_requires_grad};
use super::object::{expect, this, wrap_owned};
use crate::autograd;
use crate::functions::{op, op1};
use crate::overrides::{get_or, set_or};
use crate::py::errors::{runtime_error, type_error, warn};
use crate::py::{Obj, Py, ffi, getter, name, setter};
use crate::types;
use corten_core::{DType, DeviceType, Layout};
use corten_ops::Tensor;

/// The rows of the class's attribute table.
pub(crate) fn rows() -> Vec<ffi::PyGetSetDef> {
    let mut rows = geometry_rows();
    rows.extend(autograd_rows());
    rows.extend(view_rows());
    rows.extend(kind_rows());
    rows.extend(super::names::attributes());
    rows
}

fn geometry_rows() -> Vec<ffi::PyGetSetDef> {
    vec![
        attribute!("shape", |s: &Obj| types::size::size(&this(s).sizes())),
        attribute!("dtype", |s: &Obj| Ok(types::dtype::object(this(s).dtype()))),
        attribute!("device", |s: &Obj| types::device::object(this(s).device())),
        attribute!("layout", |s: &Obj| Ok(types::layout::layout_object(this(s).layout()))),
        attribute!("ndim", |s: &Obj| Obj::int(this(s).dim() as i64)),
        attribute!("itemsize", |s: &Obj| Obj::int(this(s).itemsize() as i64)),
        attribute!("nbytes", |s: &Obj| match this(s).nbytes() {
            usize::MAX => Obj::int(this(s).numel())?
                .call_method(crate::py::name!("__mul__"), &[&Obj::int(this(s).itemsize() as i64)?]),
            nbytes => Obj::int(nbytes as i64),
        }),
        attribute!("_cdata", |s: &Obj| Obj::int(this(s).impl_ptr() as i64)),
        attribute!("_version", |s: &Obj| Obj::int(i64::from(this(s).version()?))),
        // SAFETY: both live as long as the type.
        crate::py::call::getset_def(
            c"__dict__",
            ffi::PyObject_GenericGetDict,
            Some(ffi::PyObject_GenericSetDict),
        ),
    ]
}

fn autograd_rows() -> Vec<ffi::PyGetSetDef> {
    vec![
        attribute!("requires_grad", |s: &Obj| Ok(Obj::bool(requires_grad(this(s)))), set_flag),
        attribute!("grad", |s: &Obj| grad(this(s)), set_grad),
        setter!("_grad", |s: &Obj| get_or(s, name!("grad"), |s| grad(this(s))), |s: &Obj,
                                                                                 value: Option<
            &Obj,
        >| set_or(
            s,
            name!("grad"),
            value,
            set_grad
        )),
        attribute!("data", data, set_data),
        attribute!("is_leaf", |s: &Obj| {
            // Asking for the history renews it, or says why a view has none.
            Ok(Obj::bool(corten_autograd::graph::grad_fn(this(s))?.is_none()))
        }),
        attribute!("grad_fn", |s: &Obj| autograd::grad_fn(this(s)), set_grad_fn),
        getter!("_grad_fn", |s: &Obj| get_or(s, name!("grad_fn"), |s| autograd::grad_fn(this(s)))),
        attribute!("_base", |s: &Obj| autograd::base(this(s))),
        attribute!("output_nr", |s: &Obj| Obj::int(autograd::output_nr(this(s)))),
        attribute!("retains_grad", |s: &Obj| Ok(Obj::bool(autograd::retains_grad(this(s))))),
        attribute!("name", |_s: &Obj| Ok(Obj::none())),
        attribute!("grad_dtype", |s: &Obj| Ok(types::dtype::object(this(s).dtype()))),
        attribute!("_backward_hooks", |_s: &Obj| Ok(Obj::none())),
        attribute!("_post_accumulate_grad_hooks", |_s: &Obj| Ok(Obj::none())),
        attribute!("volatile", |_s: &Obj| {
            warn("volatile was removed (Variable.volatile is always False)")?;
            Ok(Obj::bool(false))
        }),
    ]
}

fn view_rows() -> Vec<ffi::PyGetSetDef> {
    vec![
        attribute!("T", |s: &Obj| wrap_owned(corten_ops::op::numpy_t(this(s))?)),
        attribute!("H", |s: &Obj| wrap_owned(op1!("aten::matrix_H", this(s))?)),
        attribute!("mT", |s: &Obj| wrap_owned(corten_ops::op::mt(this(s))?)),
        attribute!("mH", |s: &Obj| wrap_owned(op1!("aten::mH", this(s))?)),
        attribute!("real", |s: &Obj| wrap_owned(op1!("aten::real", this(s))?), set_real),
        attribute!("imag", imag, set_imag),
    ]
}

macro_rules! device_kind {
    ($($name:literal, $device:ident;)+) => {
        vec![$(attribute!($name, |s: &Obj| {
            Ok(Obj::bool(this(s).device().device_type == DeviceType::$device))
        })),+]
    };
}

fn kind_rows() -> Vec<ffi::PyGetSetDef> {
    let mut rows = device_kind! {
        "is_cpu", Cpu;
        "is_cuda", Cuda;
        "is_meta", Meta;
        "is_mps", Mps;
        "is_xpu", Xpu;
        "is_xla", Xla;
        "is_ipu", Ipu;
        "is_hpu", Hpu;
        "is_maia", Maia;
        "is_mtia", Mtia;
        "is_vulkan", Vulkan;
    };
    rows.extend([
        attribute!("is_sparse", |s: &Obj| Ok(Obj::bool(this(s).layout() == Layout::Sparse))),
        attribute!("is_sparse_csr", |s: &Obj| Ok(Obj::bool(this(s).layout() == Layout::SparseCsr))),
        attribute!("is_mkldnn", |s: &Obj| Ok(Obj::bool(this(s).layout() == Layout::Mkldnn))),
        attribute!("is_nested", |s: &Obj| Ok(Obj::bool(this(s).layout() == Layout::Jagged))),
        attribute!("is_quantized", |s: &Obj| Ok(Obj::bool(this(s).is_quantized()))),
    ]);
    rows
}

fn set_flag(object: &Obj, value: Option<&Obj>) -> Py<()> {
    let Some(value) = value else { return Err(runtime_error("cannot delete requires_grad")) };
    if !value.is_bool() {
        return Err(runtime_error("requires_grad must be a bool"));
    }
    let tensor = this(object);
    let wanted = value.is_true()?;
    if !wanted && tensor.autograd_meta().is_some_and(|meta| !meta.is_leaf()) {
        return Err(runtime_error(
            "you can only change requires_grad flags of leaf variables. If you want to use a \
             computed variable in a subgraph that doesn't require differentiation use \
             var_no_grad = var.detach().",
        ));
    }
    if wanted && !is_differentiable(tensor.dtype()) {
        return Err(runtime_error(
            "only Tensors of floating point and complex dtype can require gradients",
        ));
    }
    Ok(set_requires_grad(tensor, wanted)?)
}

/// Whether gradients of a dtype make sense.
pub(crate) fn is_differentiable(dtype: DType) -> bool {
    dtype.is_floating_point() || dtype.is_complex()
}

fn grad(tensor: &Tensor) -> Py<Obj> {
    match tensor.autograd_meta().and_then(|meta| meta.grad()) {
        Some(grad) => wrap_owned(grad.into()),
        None => Ok(Obj::none()),
    }
}

fn set_grad(object: &Obj, value: Option<&Obj>) -> Py<()> {
    let tensor = this(object);
    let Some(value) = value.filter(|value| !value.is_none()) else {
        if let Some(meta) = tensor.autograd_meta() {
            meta.set_grad(None);
        }
        return Ok(());
    };
    let Some(grad) = super::object::get(value) else {
        return Err(type_error(format!(
            "assigned grad expected to be a Tensor or None but got grad of type {}",
            value.type_name()
        )));
    };
    if grad.is_same(tensor) {
        return Err(runtime_error("can't assign Variable as its own grad"));
    }
    if grad.dtype() != tensor.dtype() {
        return Err(runtime_error(format!(
            "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The \
             gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can \
             set the tensor's grad_dtype attribute with a specific dtype, or None to allow any \
             dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient \
             may break downstream systems that assume they match.",
            grad.dtype().name(),
            tensor.dtype().name()
        )));
    }
    check_device(tensor, grad, value)?;
    if grad.sizes() != tensor.sizes() {
        return Err(runtime_error(format!(
            "attempting to assign a gradient of size '{:?}' to a tensor of size '{:?}'. Please \
             ensure that the gradient and the tensor are the same size",
            grad.sizes().as_slice(),
            tensor.sizes().as_slice()
        )));
    }
    tensor.autograd_meta_or_init().set_grad(Some(grad.base().clone()));
    Ok(())
}

/// That a gradient is on the device of its tensor. Classes of tensors that hold their data in
/// parts, such as sparse ones, say themselves where these are.
fn check_device(tensor: &Tensor, grad: &Tensor, object: &Obj) -> Py<()> {
    let (mut found, expected) = (grad.device().device_type, tensor.device().device_type);
    if found != expected {
        let said = object.attr(crate::py::name!("device"))?;
        found = types::device::from_object(&said)?.device_type;
    }
    if found == expected {
        return Ok(());
    }
    Err(runtime_error(format!(
        "attempting to assign a gradient with device type '{found}' to a tensor with device type \
         '{expected}'. Please ensure that the gradient and the tensor are on the same device"
    )))
}

fn data(object: &Obj) -> Py<Obj> {
    let tensor = this(object);
    let counter = corten_core::VersionCounter::Own;
    wrap_owned(tensor.base().shallow_copy_and_detach(counter, true)?.into())
}

fn set_data(object: &Obj, value: Option<&Obj>) -> Py<()> {
    let Some(value) = value else {
        return Err(runtime_error("Deleting tensor data is not allowed. Delete tensor instead!"));
    };
    let Some(source) = super::object::get(value) else {
        return Err(type_error(format!(
            "Variable data has to be a tensor, but got {}",
            value.type_name()
        )));
    };
    let tensor = this(object);
    if super::memory::requires_grad(tensor) && !is_differentiable(source.dtype()) {
        return Err(runtime_error(
            "data set to a tensor that requires gradients must be floating point or complex dtype",
        ));
    }
    Ok(tensor.base().set_data(source.base())?)
}

fn set_grad_fn(_object: &Obj, value: Option<&Obj>) -> Py<()> {
    match value {
        Some(value) if value.is_none() => Err(runtime_error("use detach_() to drop the history")),
        Some(_) => Err(runtime_error("_grad_fn can be only set to None")),
        None => Err(runtime_error("Deletion of _grad_fn not allowed. Detach tensor instead!")),
    }
}

fn imag(object: &Obj) -> Py<Obj> {
    let tensor = this(object);
    if !tensor.dtype().is_complex() {
        return Err(type_error("imag is not implemented for tensors with non-complex dtypes."));
    }
    wrap_owned(op1!("aten::imag", tensor)?)
}

fn set_real(object: &Obj, value: Option<&Obj>) -> Py<()> {
    let target = op1!("aten::real", this(object))?;
    assign(&target, value)
}

fn set_imag(object: &Obj, value: Option<&Obj>) -> Py<()> {
    let target = expect(&imag(object)?)?.clone();
    assign(&target, value)
}

fn assign(target: &Tensor, value: Option<&Obj>) -> Py<()> {
    let Some(value) = value else { return Err(runtime_error("cannot delete this attribute")) };
    let source = match super::object::get(value) {
        Some(source) => source.clone(),
        None => corten_ops::derived::wrapped(crate::args::scalar_from(value)?)?,
    };
    op!("aten::copy_", target, source, false)?;
    Ok(())
}
