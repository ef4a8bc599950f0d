//! Layers of quantised tensors: their integers are multiplied by `int8_linear` and `int8_convolution`.

use crate::quantized::{integers, of_tensor, over};
use crate::{Tensor, op};
use corten_core::{DType, Quantizer, Result, ensure};

/// The integers of an input, and its scale and zero point.
fn input_of(input: &Tensor, layer: &str) -> Result<(Tensor, f64, i64)> {
    ensure!(
        input.dtype() == DType::QUInt8,
        Runtime,
        "quantized::{layer}: Expected input data type {} but got {}",
        DType::QUInt8,
        input.dtype()
    );
    let (scale, zero) = of_tensor(input)?;
    Ok((integers(input)?, scale, zero))
}

fn output(integers: &Tensor, scale: f64, zero: i64) -> Result<Tensor> {
    over(integers, DType::QUInt8, Some(Quantizer::per_tensor(scale, zero)))
}

/// A linear layer, on a scale.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit, or there are several scales.
pub fn linear(
    input: &Tensor,
    weight: &Tensor,
    weight_scales: &Tensor,
    weight_zero_points: &Tensor,
    bias: Option<&Tensor>,
    scale: f64,
    zero_point: i64,
    relu: bool,
    onednn: bool,
) -> Result<Tensor> {
    let (bytes, input_scale, input_zero) = input_of(input, "linear")?;
    let out = op::int8_linear(
        &bytes,
        weight,
        weight_scales,
        weight_zero_points,
        bias,
        input_scale,
        input_zero,
        Some(scale),
        zero_point,
        relu,
        onednn,
    )?;
    output(&out, scale, zero_point)
}

/// A convolution, on a scale.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit, or there are several scales.
pub fn convolution(
    input: &Tensor,
    weight: &Tensor,
    weight_scales: &Tensor,
    weight_zero_points: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    output_padding: &[i64],
    groups: i64,
    transposed: bool,
    scale: f64,
    zero_point: i64,
    relu: bool,
    onednn: bool,
    addend: Option<&Tensor>,
) -> Result<Tensor> {
    let (bytes, input_scale, input_zero) = input_of(input, "conv")?;
    let added = addend.map(|addend| input_of(addend, "conv_add")).transpose()?;
    let (addend_scale, addend_zero) = added.as_ref().map_or((1.0, 0), |added| (added.1, added.2));
    let out = op::int8_convolution(
        &bytes,
        weight,
        weight_scales,
        weight_zero_points,
        bias,
        stride,
        padding,
        dilation,
        output_padding,
        groups,
        transposed,
        input_scale,
        input_zero,
        Some(scale),
        zero_point,
        relu,
        onednn,
        added.as_ref().map(|added| &added.0),
        addend_scale,
        addend_zero,
    )?;
    output(&out, scale, zero_point)
}
