//! `Tensor(…)`, the constructor that predates the factory functions, and `new`.

use super::fake::lift;
use super::memory::empty;
use super::object::{TENSOR, get, this, wrap_as, wrap_owned};
use super::subclass::mark_dispatch;
use crate::args::parser;
use crate::creation;
use crate::functions::op1;
use crate::py::call::OwnedArgs;
use crate::py::errors::{runtime_error, type_error};
use crate::py::{Args, Obj, Py};
use corten_core::{DType, Device, DeviceType};
use corten_ops::{Tensor, op};

/// `tp_new`.
pub(crate) fn new(class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let made = build(owned.as_args(), corten_core::default_dtype(), Others::All)?;
    if class.as_ptr() == TENSOR.get().cast() {
        return wrap_owned(made);
    }
    // What Python code made of the call may have an object already; everything else keeps its history.
    let own = if made.base().pyobject().is_some() { alias(&made)? } else { made };
    mark_dispatch(class, &own)?;
    wrap_as(class.as_ptr().cast(), own)
}

/// The tensors of which a constructor makes an alias.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    /// Those of every dtype.
    All,
    /// Those of the dtype that the constructor stands for.
    SameDType,
}

/// `tensor.new(…)`: the same with the tensor's dtype.
pub(crate) fn new_like(object: &Obj, args: Args<'_>) -> Py<Obj> {
    wrap_owned(build(args, this(object).dtype(), Others::SameDType)?)
}

/// `_legacy_new(dtype, args…)`: what `FloatTensor` and its like call.
pub(crate) fn new_of_dtype(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let [dtype, rest @ ..] = args.positional else { return Err(type_error("a dtype expected")) };
    let dtype = crate::args::dtype_arg(dtype)?;
    wrap_owned(build(Args { positional: rest, ..args }, dtype, Others::SameDType)?)
}

fn build(args: Args<'_>, dtype: DType, others: Others) -> Py<Tensor> {
    let parser = parser!(
        "new(*, Device? device=None)",
        "new(Storage storage)",
        "new(Tensor other)",
        "new(int[] size, *, Device? device=None)",
        "new(any data, *, Device? device=None)",
    );
    let bound = parser.parse(None, args)?;
    let is_tensor = matches!(args.positional, [one] if get(one).is_some());
    if bound.index > 2 && is_tensor && bound.device_opt(1)?.is_some() {
        return Err(runtime_error(
            "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not \
             supported.  Use torch.tensor(...) or torch.as_tensor(...) instead.",
        ));
    }
    if matches!(bound.index, 0 | 3 | 4) {
        check_device(bound.device_opt(usize::from(bound.index != 0))?)?;
    }
    match bound.index {
        0 => Ok(empty(&[0], dtype)?),
        1 => crate::storage::tensor_over(bound.object(0)?, Some(dtype)),
        2 => {
            let other = bound.tensor(0)?;
            if others == Others::SameDType && other.dtype() != dtype {
                return Err(type_error(format!(
                    "expected {} (got {})",
                    dtype.type_name(),
                    other.dtype().type_name()
                )));
            }
            Ok(op1!("aten::alias", &other)?)
        }
        3 => match single_sequence(&bound)? {
            // A list of numbers is data, varargs and a `Size` are sizes.
            Some(data) => lift(creation::tensor_from(data, Some(dtype))?),
            None => {
                let sizes = bound.ints(0)?;
                Ok(op::empty_memory_format(&sizes, Some(dtype), None, None, None, None)?)
            }
        },
        _ => {
            let data = bound.object(0)?;
            if crate::args::number_kind(data).is_some() {
                return Err(type_error(format!(
                    "new(): data must be a sequence (got {})",
                    data.type_name()
                )));
            }
            lift(creation::tensor_from(data, Some(dtype))?)
        }
    }
}

/// Fails for another device than the constructor's.
fn check_device(device: Option<Device>) -> Py<()> {
    match device.map(|device| device.device_type) {
        None | Some(DeviceType::Cpu) => Ok(()),
        Some(other) => Err(runtime_error(format!(
            "legacy constructor expects device type: cpu but device type: {} was passed",
            other.name()
        ))),
    }
}

/// The argument when it is a sequence of data rather than a size.
fn single_sequence<'a>(bound: &'a crate::args::Bound<'_>) -> Py<Option<&'a Obj>> {
    Ok(bound.get(0).filter(|object| !crate::types::size::is_size(object)))
}

/// Another tensor over the same data, for an object of its own.
pub(crate) fn alias(tensor: &Tensor) -> Py<Tensor> {
    Ok(tensor.base().alias()?.into())
}
