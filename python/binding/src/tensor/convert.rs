//! `to` and its short forms, `type`.

use super::object::{TENSOR, this, wrap_owned};
use super::overridable;
use crate::args::parser;
use crate::py::errors::value_error;
use crate::py::{Args, Obj, Py, ffi};
use crate::types;
use corten_core::{DType, Device, DeviceType, MemoryFormat, Result};
use corten_ops::{Tensor, op};

/// The rows of the method table.
pub(crate) fn rows() -> Vec<ffi::PyMethodDef> {
    let mut rows = vec![
        overridable!("to", to),
        overridable!("type", type_),
        overridable!("cpu", |s: &Obj, a: Args<'_>| {
            let bound = parser!("cpu(*, MemoryFormat? memory_format=None)").parse(None, a)?;
            short(s, None, Some(Device::CPU), bound.memory_format_opt(0)?)
        }),
        overridable!("cuda", |s: &Obj, a: Args<'_>| {
            let parser = parser!(
                "cuda(Device? device=None, bool non_blocking=False, *, MemoryFormat? memory_format=None)"
            );
            let bound = parser.parse(None, a)?;
            let device = bound.device_opt(0)?.unwrap_or(Device::new(DeviceType::Cuda));
            short(s, None, Some(device), bound.memory_format_opt(2)?)
        }),
    ];
    rows.extend(dtype_rows());
    rows
}

macro_rules! to_dtype {
    ($($name:literal, $dtype:ident;)+) => {
        vec![$(overridable!($name, |s: &Obj, a: Args<'_>| {
            if a.positional.is_empty() && a.keywords.is_empty() {
                return short(s, Some(DType::$dtype), None, None);
            }
            let bound = parser!(concat!($name, "(*, MemoryFormat? memory_format=None)"));
            short(s, Some(DType::$dtype), None, bound.parse(None, a)?.memory_format_opt(0)?)
        })),+]
    };
}

fn dtype_rows() -> Vec<ffi::PyMethodDef> {
    to_dtype! {
        "float", Float32;
        "double", Float64;
        "half", Float16;
        "bfloat16", BFloat16;
        "cfloat", Complex64;
        "cdouble", Complex128;
        "chalf", Complex32;
        "long", Int64;
        "int", Int32;
        "short", Int16;
        "char", Int8;
        "byte", UInt8;
        "bool", Bool;
    }
}

/// What `to` was asked for.
#[derive(Default)]
struct Wish {
    dtype: Option<DType>,
    device: Option<Device>,
    non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
}

fn convert(tensor: &Tensor, wish: &Wish) -> Result<Tensor> {
    op::to_dtype_layout(
        tensor,
        wish.dtype,
        None,
        wish.device,
        None,
        wish.non_blocking,
        wish.copy,
        wish.format,
    )
}

/// Whether the tensor already is what was asked for.
fn fits(tensor: &Tensor, wish: &Wish) -> bool {
    let format = wish.format.is_none_or(|format| {
        format == MemoryFormat::Preserve || tensor.suggest_memory_format() == format
    });
    !wish.copy
        && format
        && wish.dtype.is_none_or(|dtype| dtype == tensor.dtype())
        && wish.device.is_none_or(|device| {
            let own = tensor.device();
            device == own
                || (device.device_type == own.device_type && !device.has_index())
                || (device.is_cpu() && own.is_cpu())
        })
}

fn answer(object: &Obj, wish: &Wish) -> Py<Obj> {
    let tensor = this(object);
    if fits(tensor, wish) {
        return Ok(object.clone());
    }
    wrap_owned(convert(tensor, wish)?)
}

fn short(
    object: &Obj,
    dtype: Option<DType>,
    device: Option<Device>,
    format: Option<MemoryFormat>,
) -> Py<Obj> {
    answer(object, &Wish { dtype, device, format, ..Wish::default() })
}

fn to(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "to(Device device=None, ScalarType dtype=None, bool non_blocking=False, bool copy=False, *, MemoryFormat? memory_format=None)",
        "to(ScalarType dtype, bool non_blocking=False, bool copy=False, *, MemoryFormat? memory_format=None)",
        "to(Tensor tensor, bool non_blocking=False, bool copy=False, *, MemoryFormat? memory_format=None)",
    );
    let bound = parser.parse(Some(object), args)?;
    let wish = match bound.index {
        0 => Wish {
            device: bound.device_opt(0)?,
            dtype: bound.dtype_opt(1)?,
            non_blocking: bound.bool(2)?,
            copy: bound.bool(3)?,
            format: bound.memory_format_opt(4)?,
        },
        1 => Wish {
            device: None,
            dtype: bound.dtype_opt(0)?,
            non_blocking: bound.bool(1)?,
            copy: bound.bool(2)?,
            format: bound.memory_format_opt(3)?,
        },
        _ => {
            let like = bound.tensor(0)?;
            Wish {
                device: Some(like.device()),
                dtype: Some(like.dtype()),
                non_blocking: bound.bool(1)?,
                copy: bound.bool(2)?,
                format: bound.memory_format_opt(3)?,
            }
        }
    };
    answer(object, &wish)
}

/// `type()` is a name; `type(dtype)` converts.
fn type_(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "type(ScalarType? dtype=None, bool non_blocking=False, *, MemoryFormat? memory_format=None)",
        "type(any dtype, bool non_blocking=False, *, MemoryFormat? memory_format=None)"
    );
    let bound = parser.parse(Some(object), args)?;
    let Some(wanted) = bound.get(0) else {
        return Obj::str_from(&legacy_name(this(object)));
    };
    let (dtype, device) = if types::dtype::accepts(wanted) {
        (types::dtype::from_object(wanted)?, None)
    } else {
        let name = if wanted.is_str() { wanted.as_str()?.to_owned() } else { class_name(wanted) };
        let Some(found) = from_legacy_name(&name) else {
            return Err(value_error(format!("invalid type: '{name}'")));
        };
        (found.0, Some(found.1))
    };
    let wish = Wish {
        dtype: Some(dtype),
        device,
        non_blocking: bound.bool(1)?,
        format: bound.memory_format_opt(2)?,
        ..Wish::default()
    };
    answer(object, &wish)
}

/// `torch.FloatTensor`, the name of the class that a tensor had before there was one class.
pub(crate) fn legacy_name(tensor: &Tensor) -> String {
    let place = match tensor.device().device_type {
        DeviceType::Cuda => "cuda.",
        _ if tensor.is_quantized() => "quantized.",
        _ => "",
    };
    format!("torch.{place}{}Tensor", tensor.dtype().type_name())
}

fn from_legacy_name(name: &str) -> Option<(DType, Device)> {
    let rest = name.strip_prefix("torch.").or_else(|| name.strip_prefix("corten."))?;
    let (rest, device) = match rest.strip_prefix("cuda.") {
        Some(rest) => (rest, Device::new(DeviceType::Cuda)),
        None => (rest, Device::CPU),
    };
    let kind = rest.strip_suffix("Tensor")?;
    let dtype = DType::ALL.iter().copied().find(|dtype| dtype.type_name() == kind)?;
    Some((dtype, device))
}

/// The legacy name that a class stands for.
fn class_name(class: &Obj) -> String {
    if class.is_type() && class.as_ptr() == TENSOR.get().cast() {
        return format!("torch.{}Tensor", corten_core::default_dtype().type_name());
    }
    // Not the method of the class, which is that of its instances.
    match class.str() {
        Ok(text) => text.as_str().map_or_else(|_| String::new(), plain_class_name),
        Err(raised) => {
            raised.clear();
            String::new()
        }
    }
}

/// `int` out of `<class 'int'>`.
fn plain_class_name(text: &str) -> String {
    let inner = text.strip_prefix("<class '").and_then(|rest| rest.strip_suffix("'>"));
    inner.unwrap_or(text).to_owned()
}
