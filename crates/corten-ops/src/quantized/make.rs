//! Quantised tensors from numbers, integers and nothing.

use super::channels;
use crate::affine::AffineParams;
use crate::{Tensor, op};
use corten_core::{
    DType, Device, Layout, MemoryFormat, Quantizer, Result, Scalar, TensorBase, bail, ensure,
    geometry,
};
use std::sync::Arc;

/// [`op::quantize_per_tensor`] with parameters in tensors of one element.
///
/// # Errors
/// As there.
pub fn quantize_tensor_qparams(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    dtype: DType,
) -> Result<Tensor> {
    let (scale, zero_point) = (op::item(scale)?.to_f64(), op::item(zero_point)?.to_i64());
    op::quantize_per_tensor(self_, scale, zero_point, dtype)
}

/// [`op::quantize_per_tensor`] of each tensor of a list.
///
/// # Errors
/// As there.
pub fn quantize_tensors(
    tensors: &[Tensor],
    scales: &Tensor,
    zero_points: &Tensor,
    dtype: DType,
) -> Result<Vec<Tensor>> {
    let at = |list: &Tensor, i: usize| op::select_int(list, 0, i as i64);
    let each = tensors.iter().enumerate();
    each.map(|(i, tensor)| {
        quantize_tensor_qparams(tensor, &at(scales, i)?, &at(zero_points, i)?, dtype)
    })
    .collect()
}

/// [`op::quantize_per_tensor`] with the scale and zero point that its elements ask for.
///
/// # Errors
/// As there, and `Runtime` without elements.
pub fn quantize_dynamic(self_: &Tensor, dtype: DType, reduce_range: bool) -> Result<Tensor> {
    ensure!(
        matches!(dtype, DType::QInt8 | DType::QUInt8 | DType::Float16),
        Runtime,
        "dtype {dtype} not supported"
    );
    let input = op::contiguous(self_, MemoryFormat::Contiguous)?;
    if dtype == DType::Float16 {
        return op::to_dtype(&input, dtype, false, false, None);
    }
    ensure!(
        input.dtype() == DType::Float32,
        Runtime,
        "Quantize only works on Float Tensor, got {}",
        input.dtype()
    );
    let (least, most) = (number(&op::min(&input)?)?, number(&op::max(&input)?)?);
    let range = dtype.quantized_range().unwrap_or((0, 255));
    let (low, high) = reduced(range, reduce_range);
    let params = AffineParams::of_range(least, most, low, high, false)?;
    op::quantize_per_tensor(self_, params.scale, params.zero_point, dtype)
}

/// Half of a range of integers, which leaves sums of products of 16 bits room, where that is asked for.
fn reduced((low, high): (i64, i64), reduce_range: bool) -> (i64, i64) {
    if reduce_range { (low.div_euclid(2), high / 2) } else { (low, high) }
}

fn number(tensor: &Tensor) -> Result<f32> {
    Ok(op::item(tensor)?.to_f64() as f32)
}

/// The scale and zero point of unsigned 8-bit integers that cover the elements.
///
/// # Errors
/// `Runtime` without elements.
pub fn choose_qparams_per_tensor(self_: &Tensor, reduce_range: bool) -> Result<(f64, i64)> {
    let (least, most) = (number(&op::min(self_)?)?, number(&op::max(self_)?)?);
    let (low, high) = reduced((0, 255), reduce_range);
    let params = AffineParams::of_range(least, most, low, high, false)?;
    Ok((params.scale, params.zero_point))
}

/// A tensor that is not quantised as `float32`.
///
/// # Errors
/// Those of the conversion.
pub fn dequantize_dense(self_: &Tensor) -> Result<Tensor> {
    op::to_dtype(self_, DType::Float32, false, false, None)
}

/// What the integers of each tensor stand for.
///
/// # Errors
/// Those of [`op::dequantize_self`].
pub fn dequantize_tensors(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    tensors.iter().map(op::dequantize_self).collect()
}

/// Arbitrary integers with one scale.
///
/// # Errors
/// `Runtime` for a dtype that is not quantised or a negative size.
pub fn empty_affine(
    size: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    scale: f64,
    zero_point: i64,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(corten_core::default_dtype);
    empty_with(size, dtype, device, Quantizer::per_tensor(scale, zero_point), memory_format)
}

/// Arbitrary integers with a scale for each index of a dimension.
///
/// # Errors
/// As for [`empty_affine`], and those of [`channels`].
pub fn empty_per_channel(
    size: &[i64],
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(corten_core::default_dtype);
    let quantizer = channels(scales, zero_points, axis)?;
    empty_with(size, dtype, device, quantizer, memory_format)
}

fn empty_with(
    size: &[i64],
    dtype: DType,
    device: Option<Device>,
    quantizer: Arc<Quantizer>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    if !dtype.is_quantized() {
        bail!(Runtime, "Creation of quantized tensor requires quantized dtype like torch.quint8");
    }
    let strides = geometry::memory_format_strides(size, memory_format.unwrap_or_default())?;
    let device = device.unwrap_or(Device::CPU);
    Ok(TensorBase::new_quantized(size, Some(&strides), dtype, device, Some(quantizer))?.into())
}

/// Arbitrary integers with the quantizer of another tensor.
///
/// # Errors
/// `Runtime` where it has none, or another dtype is asked for.
pub fn empty_quantized(
    size: &[i64],
    qtensor: &Tensor,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let quantizer = qtensor.known_quantizer()?;
    let device = device.unwrap_or(qtensor.device());
    empty_with(size, dtype.unwrap_or(qtensor.dtype()), Some(device), quantizer, memory_format)
}

/// Arbitrary integers in the shape of another tensor, with its quantizer.
///
/// # Errors
/// `Runtime` where another dtype is asked for.
pub fn empty_like(
    self_: &Tensor,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    ensure!(
        dtype.is_none_or(|dtype| dtype == self_.dtype()),
        Runtime,
        "It is currently not supported to specify a dtype that doesn't match the input tensor's \
         dtype via empty_like.  Specified: {} Input tensor's dtype: {}",
        dtype.unwrap_or(self_.dtype()).name(),
        self_.dtype().name()
    );
    like(self_, device, memory_format)
}

/// [`empty_like`] on a device, in a memory format.
pub(super) fn like(
    self_: &Tensor,
    device: Option<Device>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let sizes = self_.sizes();
    let format = match memory_format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => self_.suggest_memory_format(),
        format => format,
    };
    let strides = geometry::memory_format_strides(&sizes, format)?;
    let device = device.unwrap_or(self_.device());
    let quantizer = self_.quantizer();
    Ok(TensorBase::new_quantized(&sizes, Some(&strides), self_.dtype(), device, quantizer)?.into())
}

/// The integer nearest to a number everywhere, in the shape of another tensor, with its quantizer.
///
/// # Errors
/// As for [`empty_like`].
pub fn full_like(
    self_: &Tensor,
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let made = empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    super::copy::fill_scalar_(&made, fill_value)
}

/// The integer nearest to 1 everywhere, in the shape of another tensor, with its quantizer.
///
/// # Errors
/// As for [`empty_like`].
pub fn ones_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    full_like(self_, 1.into(), dtype, layout, device, pin_memory, memory_format)
}

/// A copy of integers that stand for other numbers, by one scale.
///
/// # Errors
/// `Runtime` for a dtype that no quantised dtype is stored as.
pub fn make_per_tensor(self_: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    made(self_, Quantizer::per_tensor(scale, zero_point))
}

/// A copy of integers that stand for other numbers, by a scale for each index of a dimension.
///
/// # Errors
/// As for [`make_per_tensor`], and those of [`channels`].
pub fn make_per_channel(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
) -> Result<Tensor> {
    let quantizer = channels(scale, zero_point, axis)?;
    let channels = quantizer.of_channels().map_or(0, |(scales, ..)| scales.numel());
    ensure!(
        (0..self_.dim() as i64).contains(&axis) && self_.size(axis)? == channels,
        Runtime,
        "length of scales must equal to channel, expected {} got, {channels}",
        self_.size(axis).unwrap_or(0)
    );
    made(self_, quantizer)
}

fn made(self_: &Tensor, quantizer: Arc<Quantizer>) -> Result<Tensor> {
    let dtype = self_.dtype().quantized_as()?;
    let copy = op::clone(self_, Some(MemoryFormat::Contiguous))?;
    super::over(&copy, dtype, Some(quantizer))
}
