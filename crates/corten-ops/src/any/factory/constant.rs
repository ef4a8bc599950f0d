//! Tensors of one number.

use super::empty::{empty, empty_like, new_empty};
use super::{filled, fresh};
use crate::iter::write_elements;
use crate::{Tensor, op};
use corten_core::{
    DType, Device, Layout, MemoryFormat, Result, Scalar, default_complex_dtype, default_dtype,
    ensure, match_dtype,
};

/// Zeros in this shape.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn zeros(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        size.iter().all(|&size| size >= 0),
        Runtime,
        "zeros: Dimension size must be non-negative."
    );
    filled(empty(size, dtype, layout, device, pin_memory, None)?, Scalar::Int(0))
}

/// Fills an output of this shape with zeros.
///
/// # Errors
/// Those of resizing.
pub fn zeros_out(size: &[i64], out: &Tensor) -> Result<Tensor> {
    full_out(size, Scalar::Int(0), out)
}

/// Ones in this shape.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn ones(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    filled(empty(size, dtype, layout, device, pin_memory, None)?, Scalar::Int(1))
}

/// Fills an output of this shape with ones.
///
/// # Errors
/// Those of resizing.
pub fn ones_out(size: &[i64], out: &Tensor) -> Result<Tensor> {
    full_out(size, Scalar::Int(1), out)
}

/// The dtype that a number has in a tensor made of it.
fn dtype_of(value: Scalar) -> DType {
    match value {
        Scalar::Float(_) => default_dtype(),
        // Half of the precision is for numbers that a dtype asks it of.
        Scalar::Complex(_) if default_dtype() == DType::Float16 => DType::Complex64,
        Scalar::Complex(_) => default_complex_dtype(),
        // No dtype is widened for a number: beyond 63 bits it does not fit.
        Scalar::UInt(_) => DType::Int64,
        integer => integer.dtype(),
    }
}

/// One number in this shape; the dtype follows from it unless given.
///
/// # Errors
/// `Runtime` for a negative size or a number that does not fit the dtype.
pub fn full(
    size: &[i64],
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(|| dtype_of(fill_value));
    filled(empty(size, Some(dtype), layout, device, pin_memory, None)?, fill_value)
}

/// Fills an output of this shape with a number.
///
/// # Errors
/// Those of resizing; `Runtime` for a number that does not fit the dtype.
pub fn full_out(size: &[i64], fill_value: Scalar, out: &Tensor) -> Result<Tensor> {
    op::resize_(out, size, None)?;
    op::fill__scalar(out, fill_value)
}

/// Zeros in the shape of another tensor.
///
/// # Errors
/// Those of `empty_like`.
pub fn zeros_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    if let Some(layout) = layout.filter(|&layout| layout != Layout::Strided) {
        let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
        return op::zeros(&self_.sizes(), Some(dtype), Some(layout), Some(device), pin_memory);
    }
    let result = empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    filled(result, Scalar::Int(0))
}

/// Ones in the shape of another tensor.
///
/// # Errors
/// Those of `empty_like`.
pub fn ones_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    filled(result, Scalar::Int(1))
}

/// One number in the shape of another tensor.
///
/// # Errors
/// Those of `empty_like`; `Runtime` for a number that does not fit the dtype.
pub fn full_like(
    self_: &Tensor,
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    filled(result, fill_value)
}

/// Zeros, by default with the dtype and device of another tensor.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn new_zeros(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    filled(new_empty(self_, size, dtype, layout, device, pin_memory)?, Scalar::Int(0))
}

/// Ones, by default with the dtype and device of another tensor.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn new_ones(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    filled(new_empty(self_, size, dtype, layout, device, pin_memory)?, Scalar::Int(1))
}

/// One number, by default with the dtype and device of another tensor.
///
/// # Errors
/// `Runtime` for a negative size or a number that does not fit the dtype.
pub fn new_full(
    self_: &Tensor,
    size: &[i64],
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    filled(new_empty(self_, size, dtype, layout, device, pin_memory)?, fill_value)
}

/// A number as a tensor of rank 0, by default in the default dtype.
///
/// # Errors
/// `Runtime` for a number that does not fit the dtype.
pub fn scalar_tensor(
    s: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let result = empty(&[], dtype, layout, device, pin_memory, None)?;
    if !result.device().is_cpu() {
        return filled(result, s);
    }
    match_dtype!(result.dtype(), "fill", All, T => {
        write_elements(&result, std::iter::once(s.checked_to::<T>("fill_")))
    })?;
    Ok(result)
}

/// Fills with zeros.
///
/// # Errors
/// Those of `fill_`.
pub fn zero_(self_: &Tensor) -> Result<Tensor> {
    let dtype = self_.dtype();
    if !dtype.is_numeric() && !dtype.is_quantized() {
        // Dtypes that are stored only have no numbers, but bits.
        let bits = if dtype.itemsize() == 2 { DType::UInt16 } else { DType::UInt8 };
        op::zero_(&op::view_dtype(self_, bits)?)?;
        return Ok(self_.clone());
    }
    op::fill__scalar(self_, Scalar::Int(0))
}

/// A tensor like `self`, full of a rank-0 tensor's value.
///
/// # Errors
/// Those of [`fill_tensor_`].
pub fn fill_tensor(self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    let result = empty_like(self_, None, None, None, None, None)?;
    fresh(|| fill_tensor_(&result, value))?;
    Ok(result)
}

/// Fills with a rank-0 tensor's value.
///
/// # Errors
/// `Runtime` for a value of another rank.
pub fn fill_tensor_(self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    check_number(value)?;
    if self_.device() != value.device() {
        return op::fill__scalar(self_, op::item(value)?);
    }
    if self_.is_alias_of(value) {
        return op::copy_(self_, &op::clone(value, None)?, false);
    }
    op::copy_(self_, value, false)
}

/// The number that [`fill_tensor_`] takes is a tensor without dimensions.
pub(crate) fn check_number(value: &Tensor) -> Result<()> {
    ensure!(
        value.dim() == 0,
        Runtime,
        "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.dim()
    );
    Ok(())
}
