//! Copies of quantised tensors, and changes of them.

use super::make::like;
use super::{check_uniform, check_whole, integers, of_integers, same_quantizer};
use crate::any::factory::check_number;
use crate::{Tensor, any, op};
use corten_core::{
    BelowADInplaceOrViewGuard, DType, Device, KeySet, Layout, MemoryFormat, Result, Scalar, bail,
    ensure,
};

/// A copy with the same quantizer.
///
/// # Errors
/// Those of copying.
pub fn clone(self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    let copy = like(self_, None, Some(memory_format.unwrap_or(MemoryFormat::Contiguous)))?;
    let _below = BelowADInplaceOrViewGuard::new();
    op::copy_(&integers(&copy)?, &integers(self_)?, false)?;
    Ok(copy)
}

/// A copy of the same dtype on the same device.
///
/// # Errors
/// `Runtime` for another dtype.
pub fn to_copy(
    self_: &Tensor,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    _non_blocking: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    ensure!(
        dtype.is_none_or(|dtype| dtype == self_.dtype()),
        Runtime,
        "Creation of quantized tensor requires quantized dtype like torch.quint8"
    );
    if let Some(other) = device.filter(|device| !device.is_cpu()) {
        let keys = KeySet::for_tensor(other.device_type, Layout::Strided, self_.dtype());
        bail!(
            NotImplemented,
            "Could not run 'aten::empty_quantized' with arguments from the '{}' backend.",
            keys.highest_key()
        );
    }
    clone(self_, Some(memory_format.unwrap_or(MemoryFormat::Preserve)))
}

/// Integers and quantizer of another quantised tensor.
///
/// # Errors
/// `Runtime` where dtypes, shapes or schemes differ.
pub fn copy_quantized_(self_: &Tensor, src: &Tensor) -> Result<()> {
    let (from, to) = (src.known_quantizer()?, self_.known_quantizer()?);
    ensure!(from.scheme() == to.scheme(), Runtime, "Quantized Copy only works with same qscheme");
    ensure!(
        self_.dtype() == src.dtype(),
        Runtime,
        "Quantized copy only works with tensors of one dtype, but got {} and {}",
        self_.dtype().name(),
        src.dtype().name()
    );
    if self_.dtype().elements_per_byte() > 1 {
        ensure!(
            self_.sizes() == src.sizes(),
            Runtime,
            "Quantized copy only works with Tensors with the same shape"
        );
    }
    let _below = BelowADInplaceOrViewGuard::new();
    op::copy_(&integers(self_)?, &integers(src)?, false)?;
    if !same_quantizer(self_, src)? {
        self_.set_quantizer(from)?;
    }
    Ok(())
}

/// The error of a copy into a tensor that is not quantised.
///
/// # Errors
/// Always.
pub fn refuse_copy<T>() -> Result<T> {
    bail!(
        Runtime,
        "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to \
         get a float Tensor from a quantized Tensor"
    )
}

/// The integer nearest to a number everywhere.
///
/// # Errors
/// `Runtime` where the tensor has no quantizer.
pub fn fill_scalar_(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    check_whole(self_, "Copy")?;
    let numbers = op::full(&self_.sizes(), value, Some(DType::Float32), None, None, None)?;
    let _below = BelowADInplaceOrViewGuard::new();
    op::copy_(self_, &numbers, false)?;
    Ok(self_.clone())
}

/// [`fill_scalar_`] with the number in a tensor.
///
/// # Errors
/// As there, and `Runtime` for more elements than one.
pub fn fill_tensor_(self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    check_number(value)?;
    fill_scalar_(self_, op::item(value)?)
}

/// [`fill_scalar_`] of a copy.
///
/// # Errors
/// As there.
pub fn fill_scalar(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    fill_scalar_(&like(self_, None, None)?, value)
}

/// [`fill_tensor_`] of a copy.
///
/// # Errors
/// As there.
pub fn fill_tensor(self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    fill_tensor_(&like(self_, None, None)?, value)
}

/// Another shape in place.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn resize_(
    self_: &Tensor,
    size: &[i64],
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let message = "Can only resize quantized tensors with per-tensor schemes!";
    check_uniform(self_, "resize_", message)?;
    any::copy::resize_(self_, size, memory_format)
}

/// The shape of another tensor in place.
///
/// # Errors
/// As for [`resize_`].
pub fn resize_as_(
    self_: &Tensor,
    the_template: &Tensor,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    resize_(self_, &the_template.sizes(), memory_format)
}

/// Whether two tensors have the same shape, dtype, quantizer and integers.
///
/// # Errors
/// Those of comparing.
pub fn equal(self_: &Tensor, other: &Tensor) -> Result<bool> {
    if !self_.is_quantized() || !other.is_quantized() || self_.dtype() != other.dtype() {
        return Ok(false);
    }
    if self_.sizes() != other.sizes() || !same_quantizer(self_, other)? {
        return Ok(false);
    }
    op::equal(&integers(self_)?, &integers(other)?)
}

/// The only element as a number.
///
/// # Errors
/// `Runtime` where the tensor has no quantizer.
pub fn local_scalar_dense(self_: &Tensor) -> Result<Scalar> {
    op::item(&op::dequantize_self(self_)?)
}

/// The elements several times, one after the other in each dimension.
///
/// # Errors
/// `Runtime` where there are several scales.
pub fn repeat(self_: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    let message = "Setting strides is possible only on uniformly quantized tensor";
    check_uniform(self_, "copy_kernel", message)?;
    of_integers(self_, |ints| op::repeat(ints, repeats))
}
