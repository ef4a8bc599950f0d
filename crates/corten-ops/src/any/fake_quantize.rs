//! Fake quantisation by numbers that are learned or observed.

use crate::affine::AffineParams;
use crate::composite::support::{along, expect_dtype};
use crate::{Tensor, op};
use corten_core::{DType, Device, Result, Scalar, ensure};

const ONE: Scalar = Scalar::Int(1);

/// The zero points, whole and within the limits.
fn whole(zero_point: &Tensor, quant_min: i64, quant_max: i64) -> Result<Tensor> {
    let round = op::round(&op::to_dtype(zero_point, DType::Float32, false, false, None)?)?;
    op::clamp(&round, Some(Scalar::Int(quant_min)), Some(Scalar::Int(quant_max)))
}

/// Quantised and dequantised by a scale that is learned, the first element of its tensor.
///
/// # Errors
/// Those of `fake_quantize_per_tensor_affine`.
pub fn learnable_per_tensor(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    quant_min: i64,
    quant_max: i64,
    _grad_factor: f64,
) -> Result<Tensor> {
    let (scale, zero) = (op::select_int(scale, 0, 0)?, op::select_int(zero_point, 0, 0)?);
    if self_.device().is_meta() {
        return op::empty_like(self_, None, None, None, None, None);
    }
    let scale = op::item(&scale)?.to_f64();
    // The limits are checked before numbers are clamped to them.
    let zero = op::item(&zero)?.to_f64().round_ties_even() as i64;
    let zero = zero.min(quant_max).max(quant_min);
    op::fake_quantize_per_tensor_affine(self_, scale, zero, quant_min, quant_max)
}

/// Quantised and dequantised by learned scales of slices along a dimension.
///
/// # Errors
/// Those of `fake_quantize_per_channel_affine`.
pub fn learnable_per_channel(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
    _grad_factor: f64,
) -> Result<Tensor> {
    let zeros = whole(zero_point, quant_min, quant_max)?;
    let zeros = op::to_dtype(&zeros, DType::Int32, false, false, None)?;
    op::fake_quantize_per_channel_affine(self_, scale, &zeros, axis, quant_min, quant_max)
}

fn check_backward(tensors: [(&str, &Tensor); 4], quant_min: i64, quant_max: i64) -> Result<()> {
    for (name, tensor) in tensors {
        ensure!(
            tensor.dtype() == DType::Float32,
            Runtime,
            "Expected {name}.scalar_type() == ScalarType::Float to be true, but got false.  (Could this error \
             message be improved?  If so, please report an enhancement request to PyTorch.)"
        );
    }
    let [(_, grad), (_, self_), ..] = tensors;
    ensure!(self_.numel() == grad.numel(), Runtime, "`X` and `dY` are not the same size");
    ensure!(
        quant_min <= 0 && quant_max >= 0,
        Runtime,
        "`quant_min` should be less than or         equal to `quant_max`, and the quantization range \
         should include 0."
    );
    Ok(())
}

/// Gradients of elements, and by element those of scale and zero point.
fn elements_backward(
    grad: &Tensor,
    self_: &Tensor,
    scale: &Tensor,
    zero: &Tensor,
    limits: [i64; 2],
    grad_factor: f64,
) -> Result<[Tensor; 3]> {
    let inverse = op::reciprocal(scale)?;
    let steps = op::round(&op::add_tensor(&op::mul_tensor(self_, &inverse)?, zero, ONE)?)?;
    let [least, greatest] = limits.map(Scalar::Int);
    let kept = op::clamp(&steps, Some(least), Some(greatest))?;
    let inside = op::eq_tensor(&kept, &steps)?;
    let distance = op::sub_tensor(&kept, zero, ONE)?;
    let error = op::sub_tensor(&op::mul_tensor(&distance, scale)?, self_, ONE)?;
    let slope = op::where_self(&inside, &op::mul_tensor(&error, &inverse)?, &distance)?;
    let weighted = op::mul_scalar(grad, Scalar::Float(grad_factor))?;
    let clamped = op::mul_tensor(&weighted, &op::logical_not(&inside)?)?;
    Ok([
        op::mul_tensor(grad, &inside)?,
        op::mul_tensor(&weighted, &slope)?,
        op::neg(&op::mul_tensor(&clamped, scale)?)?,
    ])
}

/// Gradients of elements, scale and zero point.
///
/// # Errors
/// `Runtime` for other dtypes than `float32`, and sizes and limits that do not fit.
pub fn learnable_per_tensor_backward(
    grad: &Tensor,
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    quant_min: i64,
    quant_max: i64,
    grad_factor: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let tensors = [("dY_", grad), ("X", self_), ("scale", scale), ("zero_point", zero_point)];
    check_backward(tensors, quant_min, quant_max)?;
    if self_.numel() == 0 {
        return Ok((self_.clone(), scale.clone(), zero_point.clone()));
    }
    let zero = op::select_int(&whole(zero_point, quant_min, quant_max)?, 0, 0)?;
    let (scale, limits) = (op::select_int(scale, 0, 0)?, [quant_min, quant_max]);
    let [x, scale, zero] = elements_backward(grad, self_, &scale, &zero, limits, grad_factor)?;
    let total = |values: &Tensor| op::unsqueeze(&op::sum(values, None)?, 0);
    Ok((x, total(&scale)?, total(&zero)?))
}

/// Gradients of elements, scales and zero points.
///
/// # Errors
/// `Runtime` for other dtypes than `float32`, and sizes and limits that do not fit.
pub fn learnable_per_channel_backward(
    grad: &Tensor,
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
    grad_factor: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let tensors = [("dY_", grad), ("X_", self_), ("scale_", scale), ("zero_point_", zero_point)];
    check_backward(tensors, quant_min, quant_max)?;
    ensure!(
        scale.dim() == 1 && zero_point.dim() == 1 && scale.numel() == zero_point.numel(),
        Runtime,
        "scale and zero-point need to have the same dimensions"
    );
    ensure!(
        scale.numel() == self_.size(axis)?,
        Runtime,
        "dimensions of scale and zero-point are not consistent with input tensor"
    );
    if self_.numel() == 0 {
        return Ok((self_.clone(), scale.clone(), zero_point.clone()));
    }
    let dim = self_.dim() as i64;
    let axis = if axis < 0 { axis + dim } else { axis };
    let beside = |numbers: &Tensor| along(numbers, dim as usize, axis as usize);
    let zero = beside(&whole(zero_point, quant_min, quant_max)?)?;
    let (scale, limits) = (beside(scale)?, [quant_min, quant_max]);
    let [x, scale, zero] = elements_backward(grad, self_, &scale, &zero, limits, grad_factor)?;
    let others: Vec<i64> = (0..dim).filter(|&other| other != axis).collect();
    let total = |values: Tensor| match others.is_empty() {
        true => Ok(values),
        false => op::sum_dim_intlist(&values, Some(&others), false, None),
    };
    Ok((x, total(scale)?, total(zero)?))
}

/// What `_fused_moving_avg_obs_fq_helper` keeps from call to call.
struct Observed<'a> {
    least: &'a Tensor,
    greatest: &'a Tensor,
    scale: &'a Tensor,
    zero_point: &'a Tensor,
}

impl Observed<'_> {
    /// Moves the averages by the range of elements, for each slice of the first dimension by itself or
    /// for all.
    fn observe(&self, elements: &Tensor, axis: Option<i64>, factor: f64) -> Result<()> {
        let (low, high) = match axis {
            None => op::aminmax(elements, None, false)?,
            Some(axis) => {
                self.resize(elements.size(axis)?)?;
                let rows = op::flatten_using_ints(&op::transpose_int(elements, 0, axis)?, 1, -1)?;
                op::aminmax(&rows, Some(1), false)?
            }
        };
        for (running, new) in [(self.least, low), (self.greatest, high)] {
            let new = op::reshape(&new, &running.sizes())?;
            let step = op::mul_scalar(&op::sub_tensor(&new, running, ONE)?, Scalar::Float(factor))?;
            let moved = op::add_tensor(running, &step, ONE)?;
            op::copy_(running, &op::where_self(&op::isinf(running)?, &new, &moved)?, false)?;
        }
        Ok(())
    }

    fn resize(&self, size: i64) -> Result<()> {
        if self.least.numel() > 0 {
            return Ok(());
        }
        for (running, start) in [(self.least, f64::INFINITY), (self.greatest, f64::NEG_INFINITY)] {
            op::fill__scalar(&op::resize_(running, &[size], None)?, Scalar::Float(start))?;
        }
        op::resize_(self.scale, &[size], None)?;
        op::resize_(self.zero_point, &[size], None)?;
        Ok(())
    }

    /// Writes scales and zero points of the averages.
    fn derive(&self, [quant_min, quant_max]: [i64; 2], symmetric: bool) -> Result<()> {
        let numbers = |tensor: &Tensor| {
            op::to_device(tensor, Device::CPU, DType::Float32, false, false, None)?.to_vec::<f32>()
        };
        let (least, greatest) = (numbers(self.least)?, numbers(self.greatest)?);
        let (mut scales, mut zeros) = (Vec::new(), Vec::new());
        for (&least, &greatest) in least.iter().zip(&greatest) {
            // Nothing has been observed: the range is that of zero alone.
            let (least, greatest) = (least.min(0.0), greatest.max(0.0));
            let params = AffineParams::of_range(least, greatest, quant_min, quant_max, symmetric)?;
            scales.push(params.scale as f32);
            zeros.push(params.zero_point as i32);
        }
        let write = |target: &Tensor, made: Tensor| -> Result<()> {
            op::copy_(target, &op::reshape(&made, &target.sizes())?, false)?;
            Ok(())
        };
        let sizes = [scales.len() as i64];
        write(self.scale, Tensor::from_vec(scales, &sizes)?)?;
        write(self.zero_point, Tensor::from_vec(zeros, &sizes)?)
    }
}

/// Moves averages of the range, derives scale and zero point from them, quantises and dequantises; and
/// where nothing was clamped.
///
/// # Errors
/// `Runtime` for elements other than `float32` and a dimension that is none.
pub fn fused_moving_avg_helper(
    self_: &Tensor,
    observer_on: &Tensor,
    fake_quant_on: &Tensor,
    running_min: &Tensor,
    running_max: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    averaging_const: f64,
    quant_min: i64,
    quant_max: i64,
    ch_axis: i64,
    per_row: bool,
    symmetric: bool,
) -> Result<(Tensor, Tensor)> {
    ensure!(
        ch_axis < self_.dim() as i64,
        Runtime,
        "Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()"
    );
    let all = || op::ones_like(self_, Some(DType::Bool), None, None, None, None);
    if self_.device().is_meta() {
        return Ok((op::empty_like(self_, None, None, None, None, None)?, all()?));
    }
    let observed = Observed { least: running_min, greatest: running_max, scale, zero_point };
    let is_on = |flag: &Tensor| op::item(flag).map(|number| number.to_f64() as i64 != 0);
    let (observes, quantises) = (is_on(observer_on)?, is_on(fake_quant_on)?);
    if observes || quantises {
        expect_dtype(self_, DType::Float32)?;
    }
    if observes {
        observed.observe(self_, per_row.then_some(ch_axis), averaging_const)?;
    }
    if !quantises {
        return Ok((op::clone(self_, None)?, all()?));
    }
    ensure!(
        !per_row || ch_axis == 0,
        Runtime,
        "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0"
    );
    observed.derive([quant_min, quant_max], symmetric)?;
    if per_row {
        return op::fake_quantize_per_channel_affine_cachemask(
            self_, scale, zero_point, 0, quant_min, quant_max,
        );
    }
    let (scale, zero) = (op::item(scale)?.to_f64(), op::item(zero_point)?.to_f64() as i64);
    op::fake_quantize_per_tensor_affine_cachemask(self_, scale, zero, quant_min, quant_max)
}
