//! Conversions that may give the tensor itself.

use crate::{Tensor, op, opaque};
use corten_core::{DType, Device, Layout, MemoryFormat, Result, Scalar, bail, ensure};

/// What a conversion is asked for.
#[derive(Clone, Copy, Default)]
struct Wanted {
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
}

impl Wanted {
    fn of(self, self_: &Tensor) -> Result<Tensor> {
        let keeps_format = match self.memory_format {
            None | Some(MemoryFormat::Preserve) => true,
            Some(format) => self_.suggest_memory_format() == format,
        };
        let same = self.dtype.is_none_or(|dtype| dtype == self_.dtype())
            && self.layout.is_none_or(|layout| layout == self_.layout())
            && self.device.is_none_or(|device| device == self_.device())
            && keeps_format;
        if same && !self.copy {
            return Ok(self_.clone());
        }
        op::_to_copy(
            self_,
            self.dtype,
            self.layout,
            self.device,
            self.pin_memory,
            self.non_blocking,
            self.memory_format,
        )
    }
}

/// Another dtype.
///
/// # Errors
/// Those of the copy.
pub fn to_dtype(
    self_: &Tensor,
    dtype: DType,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    Wanted { dtype: Some(dtype), non_blocking, copy, memory_format, ..Wanted::default() }.of(self_)
}

/// Another device and dtype.
///
/// # Errors
/// Those of the copy.
pub fn to_device(
    self_: &Tensor,
    device: Device,
    dtype: DType,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let (dtype, device) = (Some(dtype), Some(device));
    Wanted { dtype, device, non_blocking, copy, memory_format, ..Wanted::default() }.of(self_)
}

/// Any of dtype, layout and device.
///
/// # Errors
/// Those of the copy.
pub fn to_dtype_layout(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    Wanted { dtype, layout, device, pin_memory, non_blocking, copy, memory_format }.of(self_)
}

/// The dtype, layout and device of another tensor.
///
/// # Errors
/// Those of the copy.
pub fn to_other(
    self_: &Tensor,
    other: &Tensor,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let wanted = Wanted {
        dtype: Some(other.dtype()),
        layout: Some(other.layout()),
        device: Some(other.device()),
        pin_memory: None,
        non_blocking,
        copy,
        memory_format,
    };
    wanted.of(self_)
}

/// The dtype and device of another tensor.
///
/// # Errors
/// Those of the copy.
pub fn type_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    to_other(self_, other, false, false, None)
}

/// The only element as a number.
///
/// # Errors
/// `Runtime` unless there is exactly one element.
pub fn item(self_: &Tensor) -> Result<Scalar> {
    let numel = self_.numel();
    ensure!(numel == 1, Runtime, "a Tensor with {numel} elements cannot be converted to Scalar");
    op::_local_scalar_dense(self_)
}

/// Whether the only element is not zero.
///
/// # Errors
/// `Runtime` unless there is exactly one element.
pub fn is_nonzero(self_: &Tensor) -> Result<bool> {
    crate::batched::check_decidable(self_)?;
    match self_.numel() {
        0 => bail!(Runtime, "Boolean value of Tensor with no values is ambiguous"),
        1 => Ok(op::item(self_)?.to_bool()),
        _ => bail!(Runtime, "Boolean value of Tensor with more than one value is ambiguous"),
    }
}

/// The tensor in the layout `strided`: itself where that is its layout.
///
/// # Errors
/// Those of copying.
pub fn to_dense(self_: &Tensor, dtype: Option<DType>, masked_grad: Option<bool>) -> Result<Tensor> {
    if opaque::is_opaque(self_) || self_.is_sparse() || self_.is_sparse_compressed() {
        return op::_to_dense(self_, dtype, masked_grad);
    }
    match dtype {
        Some(dtype) => op::to_dtype(self_, dtype, false, false, None),
        None => Ok(self_.clone()),
    }
}
