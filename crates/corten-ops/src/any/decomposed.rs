//! Quantisation whose numbers are arguments, and whose integers are ordinary tensors.

use crate::composite::support::{along, defined};
use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, bail, ensure};

const ONE: Scalar = Scalar::Int(1);

/// The least and the greatest number of a dtype that tensors are quantised to.
fn bounds(dtype: DType) -> Option<[i64; 2]> {
    Some(match dtype {
        DType::UInt8 => [0, 255],
        DType::Int8 => [-128, 127],
        DType::UInt16 => [0, 65535],
        DType::Int16 => [-32768, 32767],
        DType::Int32 => [i64::from(i32::MIN), i64::from(i32::MAX)],
        DType::Float8E5m2 => [-57344, 57344],
        DType::Float8E4m3fn => [-448, 448],
        _ => return None,
    })
}

fn check_bounds(quant_min: i64, quant_max: i64, dtype: DType) -> Result<()> {
    let Some([least, greatest]) = bounds(dtype) else {
        bail!(Value, "Unsupported dtype: torch.{}", dtype.name())
    };
    ensure!(
        quant_min >= least,
        Assertion,
        "quant_min out of bounds for dtype, quant_min_lower_bound: {least} quant_min: {quant_min}"
    );
    ensure!(
        quant_max <= greatest,
        Assertion,
        "quant_max out of bounds for dtype, quant_max_upper_bound: {greatest} quant_max: {quant_max}"
    );
    Ok(())
}

fn to(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    op::to_dtype(tensor, dtype, false, false, None)
}

/// Elements in single precision, for those of 16 bits too.
fn single(input: &Tensor) -> Result<Tensor> {
    let wide = match input.dtype() {
        DType::Float16 | DType::BFloat16 => to(input, DType::Float32)?,
        _ => input.clone(),
    };
    ensure!(
        wide.dtype() == DType::Float32,
        Assertion,
        "Expecting input to have dtype torch.float32, but got dtype: torch.{}",
        wide.dtype().name()
    );
    Ok(wide)
}

fn clamped(steps: &Tensor, quant_min: i64, quant_max: i64, dtype: DType) -> Result<Tensor> {
    let kept = op::clamp(steps, Some(Scalar::Int(quant_min)), Some(Scalar::Int(quant_max)))?;
    to(&kept, dtype)
}

/// `clamp(round(input / scale) + zero_point)`.
///
/// # Errors
/// `Assertion` and `Value` for dtypes and limits that do not fit.
pub fn quantize_per_tensor(
    input: &Tensor,
    scale: f64,
    zero_point: i64,
    quant_min: i64,
    quant_max: i64,
    dtype: DType,
) -> Result<Tensor> {
    let input = single(input)?;
    check_bounds(quant_min, quant_max, dtype)?;
    let steps = op::round(&op::mul_scalar(&input, Scalar::Float(1.0 / scale))?)?;
    let steps = op::add_scalar(&steps, Scalar::Int(zero_point), ONE)?;
    clamped(&steps, quant_min, quant_max, dtype)
}

/// The one element of a tensor.
fn number(name: &str, tensor: &Tensor) -> Result<Scalar> {
    ensure!(
        tensor.numel() == 1,
        Assertion,
        "Expecting {name} tensor to be one element, but received : {}",
        tensor.numel()
    );
    if tensor.device().is_meta() { Ok(ONE) } else { op::item(tensor) }
}

/// [`quantize_per_tensor`] by numbers in tensors.
///
/// # Errors
/// As there, and `Assertion` for tensors of several elements.
pub fn quantize_per_tensor_tensor(
    input: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    quant_min: i64,
    quant_max: i64,
    dtype: DType,
) -> Result<Tensor> {
    let zero = number("zero_point", zero_point)?.to_i64();
    let scale = number("scale", scale)?.to_f64();
    quantize_per_tensor(input, scale, zero, quant_min, quant_max, dtype)
}

/// [`quantize_per_tensor`] by numbers and limits in tensors.
///
/// # Errors
/// As there, and `Assertion` for tensors of several elements.
pub fn quantize_per_tensor_tensor2(
    input: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    quant_min: &Tensor,
    quant_max: &Tensor,
    dtype: DType,
) -> Result<Tensor> {
    let least = number("quant_min", quant_min)?.to_i64();
    let greatest = number("quant_max", quant_max)?.to_i64();
    quantize_per_tensor_tensor(input, scale, zero_point, least, greatest, dtype)
}

/// `(input - zero_point) * scale`.
///
/// # Errors
/// `Assertion` and `Value` for dtypes that do not fit.
pub fn dequantize_per_tensor(
    input: &Tensor,
    scale: f64,
    zero_point: i64,
    _quant_min: i64,
    _quant_max: i64,
    dtype: DType,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        input.dtype() == dtype,
        Assertion,
        "Expecting input to have dtype: torch.{}, but got torch.{}",
        dtype.name(),
        input.dtype().name()
    );
    if bounds(dtype).is_none() {
        bail!(Value, "Unsupported dtype in dequantize_per_tensor: torch.{}", dtype.name());
    }
    let wide = to(input, out_dtype.unwrap_or(DType::Float32))?;
    let steps = op::sub_scalar(&wide, Scalar::Int(zero_point), ONE)?;
    op::mul_scalar(&steps, Scalar::Float(scale))
}

/// [`dequantize_per_tensor`] by numbers in tensors.
///
/// # Errors
/// As there, and `Assertion` for tensors of several elements.
pub fn dequantize_per_tensor_tensor(
    input: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    quant_min: i64,
    quant_max: i64,
    dtype: DType,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    let zero = number("zero_point", zero_point)?.to_i64();
    let scale = number("scale", scale)?.to_f64();
    dequantize_per_tensor(input, scale, zero, quant_min, quant_max, dtype, out_dtype)
}

/// [`dequantize_per_tensor`] by numbers and limits in tensors.
///
/// # Errors
/// As there, and `Assertion` for tensors of several elements.
pub fn dequantize_per_tensor_tensor2(
    input: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    _quant_min: &Tensor,
    _quant_max: &Tensor,
    dtype: DType,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    dequantize_per_tensor_tensor(input, scale, zero_point, 0, 0, dtype, out_dtype)
}

fn check_choice(input: &Tensor, quant_min: i64, quant_max: i64, dtype: DType) -> Result<()> {
    ensure!(
        matches!(input.dtype(), DType::Float32 | DType::Float16 | DType::BFloat16),
        Assertion,
        "Expecting input to have dtype torch.float32/16/b16, but got dtype: torch.{}",
        input.dtype().name()
    );
    ensure!(
        bounds(dtype).is_some(),
        Assertion,
        "Expecting target dtype to be one of dict_keys([torch.uint8, torch.int8, torch.uint16, torch.int16, \
         torch.int32, torch.float8_e5m2, torch.float8_e4m3fn]), but got: torch.{}",
        dtype.name()
    );
    ensure!(
        quant_min <= 0 && quant_max >= 0,
        Assertion,
        "Used-specified quantization range must include 0."
    );
    ensure!(
        quant_min < quant_max,
        Assertion,
        "qmin must be strictly less than qmax for user-specified quantization range."
    );
    Ok(())
}

/// The ends of the range of all elements, extended to zero.
fn range(input: &Tensor) -> Result<[Tensor; 2]> {
    let (least, greatest) = op::aminmax(input, None, false)?;
    Ok([op::clamp_max(&least, Scalar::Int(0))?, op::clamp_min(&greatest, Scalar::Int(0))?])
}

fn at_least(scale: &Tensor, eps: f64) -> Result<Tensor> {
    let eps =
        op::full(&[1], Scalar::Float(eps), Some(DType::Float32), None, Some(scale.device()), None)?;
    op::maximum(scale, &eps)
}

/// The scale and the zero point of all elements.
///
/// # Errors
/// `Assertion` for dtypes and limits that do not fit.
pub fn choose_qparams(
    input: &Tensor,
    quant_min: i64,
    quant_max: i64,
    eps: f64,
    dtype: DType,
) -> Result<(Tensor, Tensor)> {
    check_choice(input, quant_min, quant_max, dtype)?;
    let [least, greatest] = range(input)?;
    let steps = Scalar::Float((quant_max - quant_min) as f64);
    let scale = op::div_scalar(&op::sub_tensor(&greatest, &least, ONE)?, steps)?;
    let scale = at_least(&scale, eps)?;
    let below = to(&op::round(&op::div_tensor(&least, &scale)?)?, DType::Int32)?;
    let zero = op::rsub_scalar(&below, Scalar::Int(quant_min), ONE)?;
    let zero = clamped(&zero, quant_min, quant_max, DType::Int64)?;
    Ok((to(&scale, DType::Float64)?, zero))
}

/// The scale of all elements with zero in the middle of the integers.
///
/// # Errors
/// `Assertion` for dtypes and limits that do not fit.
pub fn choose_qparams_symmetric(
    input: &Tensor,
    quant_min: i64,
    quant_max: i64,
    eps: f64,
    dtype: DType,
) -> Result<(Tensor, Tensor)> {
    check_choice(input, quant_min, quant_max, dtype)?;
    let [least, greatest] = range(input)?;
    let greatest = op::maximum(&op::neg(&least)?, &greatest)?;
    let steps = Scalar::Float((quant_max - quant_min) as f64 / 2.0);
    let scale = at_least(&op::div_scalar(&greatest, steps)?, eps)?;
    let middle = if dtype == DType::UInt8 { 128 } else { 0 };
    let zero =
        op::full_like(&scale, Scalar::Int(middle), Some(DType::Int64), None, None, None, None)?;
    Ok((to(&scale, DType::Float64)?, zero))
}

/// The input with a dimension first, numbers of its slices beside it, and the order of dimensions, which
/// is its own inverse.
struct Channels {
    input: Tensor,
    shape: Vec<i64>,
    order: Vec<i64>,
}

impl Channels {
    fn of(input: &Tensor, axis: i64, scales: &Tensor) -> Result<Self> {
        let dim = input.dim() as i64;
        ensure!(axis < dim, Assertion, "Expecting axis to be < {dim}");
        let place = (if axis < 0 { axis + dim } else { axis }) as usize;
        let mut order: Vec<i64> = (0..dim).collect();
        ensure!(place < order.len(), Index, "list assignment index out of range");
        order.swap(0, place);
        // Bounded: one item for each dimension.
        let mut shape = vec![1; order.len()];
        shape[0] = scales.size(0)?;
        Ok(Self { input: op::permute(input, &order)?, shape, order })
    }

    fn beside(&self, numbers: &Tensor) -> Result<Tensor> {
        op::view(numbers, &self.shape)
    }
}

/// [`quantize_per_tensor`] with a scale and a zero point for every slice.
///
/// # Errors
/// As there, and `Assertion` for a dimension that is none.
pub fn quantize_per_channel(
    input: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
    dtype: DType,
) -> Result<Tensor> {
    let input = single(input)?;
    let channels = Channels::of(&input, axis, scales)?;
    check_bounds(quant_min, quant_max, dtype)?;
    let inverse = op::reciprocal(&channels.beside(scales)?)?;
    let steps = op::round(&op::mul_tensor(&channels.input, &inverse)?)?;
    let steps = op::add_tensor(&steps, &channels.beside(zero_points)?, ONE)?;
    let bounds = [quant_min, quant_max].map(|bound| Some(Scalar::Int(bound)));
    to(&op::permute(&op::clamp(&steps, bounds[0], bounds[1])?, &channels.order)?, dtype)
}

/// [`dequantize_per_tensor`] with a scale and a zero point for every slice.
///
/// # Errors
/// As there, and `Assertion` for a dimension that is none.
pub fn dequantize_per_channel(
    input: &Tensor,
    scales: &Tensor,
    zero_points: Option<&Tensor>,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
    dtype: DType,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        input.dtype() == dtype,
        Assertion,
        "Expecting input to have dtype: torch.{}, but got dtype: torch.{}",
        dtype.name(),
        input.dtype().name()
    );
    let channels = Channels::of(input, axis, scales)?;
    check_bounds(quant_min, quant_max, dtype)?;
    let steps = match defined(zero_points) {
        Some(zeros) => op::sub_tensor(&channels.input, &channels.beside(zeros)?, ONE)?,
        None => channels.input.clone(),
    };
    let made = op::mul_tensor(&steps, &channels.beside(scales)?)?;
    op::permute(&to(&made, out_dtype.unwrap_or(DType::Float32))?, &channels.order)
}

/// The scale of every row for 8 bits with signs, and zeros.
///
/// # Errors
/// `Runtime` for another dtype than `int8`.
pub fn choose_qparams_per_token(input: &Tensor, dtype: DType) -> Result<(Tensor, Tensor)> {
    let mut scales = op::amax(&op::abs(input)?, &[-1], true)?;
    if scales.dtype() == DType::Float16 {
        scales = to(&scales, DType::Float32)?;
    }
    ensure!(
        dtype == DType::Int8,
        Runtime,
        "unsupported dtype in choose_qparams_per_token: torch.{}",
        dtype.name()
    );
    let scales = op::div_scalar(&op::clamp_min(&scales, Scalar::Float(1e-5))?, Scalar::Int(127))?;
    let zeros = op::zeros_like(&scales, None, None, None, None, None)?;
    Ok((scales, zeros))
}

/// The scale and the zero point of every row for 8 bits with signs, as XNNPACK chooses them.
///
/// # Errors
/// Those of the operators.
pub fn choose_qparams_per_token_asymmetric(
    input: &Tensor,
    _dtype: DType,
) -> Result<(Tensor, Tensor)> {
    let least = op::clamp_max(&op::amin(input, &[-1], true)?, Scalar::Int(0))?;
    let greatest = op::clamp_min(&op::amax(input, &[-1], true)?, Scalar::Int(0))?;
    let width = op::sub_tensor(&greatest, &least, ONE)?;
    let scale = op::div_scalar(&width, Scalar::Float(255.0))?;
    let scale = op::clamp_min(&scale, Scalar::Float(f64::from(f32::EPSILON)))?;
    let (low, high) = (op::div_tensor(&least, &scale)?, op::div_tensor(&greatest, &scale)?);
    let errors = [
        op::add_scalar(&low, Scalar::Int(-128), ONE)?,
        op::add_scalar(&high, Scalar::Int(127), ONE)?,
    ];
    let is_low = op::gt_scalar(&op::add_tensor(&errors[0], &errors[1], ONE)?, Scalar::Int(0))?;
    let zero = op::where_self(
        &is_low,
        &op::rsub_scalar(&low, Scalar::Int(-128), ONE)?,
        &op::rsub_scalar(&high, Scalar::Int(127), ONE)?,
    )?;
    let zero = op::clamp(&zero, Some(Scalar::Int(-128)), Some(Scalar::Int(127)))?;
    Ok((to(&scale, DType::Float64)?, to(&op::round(&zero)?, DType::Int64)?))
}

/// Rows quantised by a scale and a zero point each.
///
/// # Errors
/// `Assertion` and `Value` for sizes, dtypes and limits that do not fit.
pub fn quantize_per_token(
    input: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    quant_min: i64,
    quant_max: i64,
    dtype: DType,
) -> Result<Tensor> {
    check_bounds(quant_min, quant_max, dtype)?;
    let mut rows = input.sizes();
    rows.pop();
    let tokens: i64 = rows.iter().product();
    for (name, numbers) in [("scales", scales), ("zero_points", zero_points)] {
        ensure!(
            numbers.numel() == tokens,
            Assertion,
            "num_tokens: {tokens} {name}: torch.Size({:?})",
            numbers.sizes().as_slice()
        );
    }
    steps_of(input, scales, zero_points, quant_min, quant_max, dtype)
}

/// `clamp(round(input / scales + zero_points))`.
fn steps_of(
    input: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    quant_min: i64,
    quant_max: i64,
    dtype: DType,
) -> Result<Tensor> {
    let steps = op::mul_tensor(input, &op::reciprocal(scales)?)?;
    let steps = op::round(&op::add_tensor(&steps, zero_points, ONE)?)?;
    clamped(&steps, quant_min, quant_max, dtype)
}

/// `(input - zero_points) * scales`.
///
/// # Errors
/// Those of the operators.
pub fn dequantize_per_token(
    input: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    _quant_min: i64,
    _quant_max: i64,
    _dtype: DType,
    output_dtype: DType,
) -> Result<Tensor> {
    let steps = op::sub_tensor(input, zero_points, ONE)?;
    to(&op::mul_tensor(&steps, scales)?, output_dtype)
}

/// The size of a group of columns, checked.
fn group_of(name: &str, input: &Tensor, scales: &Tensor, group: i64) -> Result<i64> {
    ensure!(group > 1, Assertion, "group_size must be > 1");
    let columns = input.size(-1)?;
    let group = if group > columns && scales.size(-1)? == 1 { columns } else { group };
    ensure!(
        group > 0 && columns % group == 0,
        Assertion,
        "{name}.shape[-1] must be divisible by group_size"
    );
    ensure!(input.dim() == 2, Assertion, "{name} must be 2-dimensional");
    Ok(group)
}

/// Groups of columns of a matrix quantised by a scale and a zero point each.
///
/// # Errors
/// `Assertion` for sizes that do not fit and elements that are no numbers.
pub fn quantize_per_channel_group(
    input: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    quant_min: i64,
    quant_max: i64,
    dtype: DType,
    group_size: i64,
) -> Result<Tensor> {
    let group = group_of("input", input, scales, group_size)?;
    let rows = op::reshape(input, &[-1, group])?;
    if !input.device().is_meta() {
        let has_nan = op::item(&op::any(&op::isnan(&rows)?)?)?.to_bool();
        ensure!(!has_nan, Assertion, "to_quant must not contain NaNs");
    }
    let (scales, zeros) = (op::reshape(scales, &[-1, 1])?, op::reshape(zero_points, &[-1, 1])?);
    let made = steps_of(&rows, &scales, &zeros, quant_min, quant_max, dtype)?;
    op::reshape(&made, &input.sizes())
}

/// Groups of columns of a matrix of integers as numbers again.
///
/// # Errors
/// `Assertion` for sizes that do not fit.
pub fn dequantize_per_channel_group(
    input: &Tensor,
    scales: &Tensor,
    zero_points: Option<&Tensor>,
    _quant_min: i64,
    _quant_max: i64,
    _dtype: DType,
    group_size: i64,
    output_dtype: DType,
) -> Result<Tensor> {
    let group = group_of("w_int8", input, scales, group_size)?;
    let mut rows = op::reshape(input, &[-1, group])?;
    if let Some(zeros) = defined(zero_points) {
        rows = op::sub_tensor(&rows, &op::reshape(zeros, &[-1, 1])?, ONE)?;
    }
    let made = op::mul_tensor(&rows, &op::reshape(scales, &[-1, 1])?)?;
    to(&op::reshape(&made, &input.sizes())?, output_dtype)
}

/// The steps of elements with their scales and zero points.
fn channel_steps(
    input: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
) -> Result<[Tensor; 3]> {
    let dim = input.dim() as i64;
    ensure!(
        input.dtype() == DType::Float32,
        Assertion,
        "Expecting input to have dtype torch.float32, but got dtype: torch.{}",
        input.dtype().name()
    );
    ensure!((0..dim).contains(&axis), Assertion, "Expecting axis to be < {dim}");
    let beside = |numbers: &Tensor, dtype| along(&to(numbers, dtype)?, dim as usize, axis as usize);
    let (scales, zeros) = (beside(scales, DType::Float32)?, beside(zero_points, DType::Int32)?);
    let steps = op::round(&op::mul_tensor(input, &op::reciprocal(&scales)?)?)?;
    Ok([op::add_tensor(&steps, &zeros, ONE)?, scales, zeros])
}

/// Elements quantised and dequantised by a scale for every slice.
///
/// # Errors
/// `Assertion` for another dtype than `float32` and a dimension that is none.
pub fn fake_quant_per_channel(
    input: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    let [steps, scales, zeros] = channel_steps(input, scales, zero_points, axis)?;
    let kept = op::clamp(&steps, Some(Scalar::Int(quant_min)), Some(Scalar::Int(quant_max)))?;
    op::mul_tensor(&op::sub_tensor(&kept, &zeros, ONE)?, &scales)
}

/// The gradient of [`fake_quant_per_channel`]: it passes where nothing was clamped.
///
/// # Errors
/// As there.
pub fn fake_quant_per_channel_backward(
    grad: &Tensor,
    input: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    let [steps, ..] = channel_steps(input, scales, zero_points, axis)?;
    let kept = op::clamp(&steps, Some(Scalar::Int(quant_min)), Some(Scalar::Int(quant_max)))?;
    op::mul_tensor(grad, &op::eq_tensor(&kept, &steps)?)
}

/// The elements in another dtype.
///
/// # Errors
/// Those of the conversion.
pub fn convert_element_type(input: &Tensor, dtype: DType) -> Result<Tensor> {
    op::to_dtype(input, dtype, false, true, None)
}
