//! Elements quantised and dequantised at once.

use super::support::{contiguous, empty_as, is_shape_only};
use crate::parallel::chunks::{for_each_chunk2, grain_of};
use crate::rows::loops::compiled;
use corten_core::{Access, AccessSet, DType, Element, Result, bail, cast, ensure, match_dtype};
use corten_ops::{Tensor, op};

const NAME: &str = "fake_quantize_tensor_cachemask_kernel_type_handling";
/// So many elements are one chunk where one scale is for all.
const CHUNK: usize = 4096;

/// The numbers that elements are quantised by.
#[derive(Clone, Copy)]
struct Affine {
    scale: f32,
    zero: f32,
    /// The zero point may be a fraction: it is added before the rounding.
    is_fractional: bool,
    /// Whether elements in double precision are kept so to the end.
    is_exact: bool,
    limits: [f32; 2],
}

/// A type that is computed in.
trait Steps: Copy {
    /// The element after quantisation and back, and whether nothing was clamped.
    fn rounded(self, by: Affine, inverse: f32) -> (Self, bool);
}

impl Steps for f32 {
    #[inline(always)]
    fn rounded(self, by: Affine, inverse: f32) -> (f32, bool) {
        let steps = self * inverse;
        let steps = match by.is_fractional {
            true => (steps + by.zero).round_ties_even(),
            false => steps.round_ties_even() + by.zero,
        };
        let [least, greatest] = by.limits;
        // What is no number becomes the least one.
        let kept = steps.max(least).min(greatest);
        ((kept - by.zero) * by.scale, steps >= least && steps <= greatest)
    }
}

impl Steps for f64 {
    #[inline(always)]
    fn rounded(self, by: Affine, inverse: f32) -> (f64, bool) {
        let (steps, zero) = (self * f64::from(inverse), f64::from(by.zero));
        let steps = match by.is_fractional {
            true => (steps + zero).round_ties_even(),
            false => steps.round_ties_even() + zero,
        };
        let [least, greatest] = by.limits.map(f64::from);
        let (kept, inside) = (steps.max(least).min(greatest), steps >= least && steps <= greatest);
        match by.is_exact {
            true => ((kept - zero) * f64::from(by.scale), inside),
            false => (f64::from((kept as f32 - by.zero) * by.scale), inside),
        }
    }
}

fn run<T: Element, C: Steps + Element>(from: &[T], to: &mut [T], mask: &mut [bool], by: Affine) {
    let inverse = 1.0 / by.scale;
    compiled(|| {
        for ((to, mask), &from) in to.iter_mut().zip(mask).zip(from) {
            let (value, inside) = cast::<T, C>(from).rounded(by, inverse);
            *to = cast::<C, T>(value);
            *mask = inside;
        }
    });
}

/// A tensor with its dimensions in the order of memory, contiguous, with that order and its inverse.
fn in_memory_order(tensor: &Tensor) -> Result<(Tensor, Vec<i64>, Vec<i64>)> {
    let mut order: Vec<i64> = (0..tensor.dim() as i64).collect();
    if !tensor.is_contiguous() {
        let strides = tensor.strides();
        order.sort_by_key(|&dim| std::cmp::Reverse(strides[dim as usize]));
    }
    // Bounded: one item for each dimension.
    let mut inverse = vec![0; order.len()];
    for (place, &dim) in order.iter().enumerate() {
        inverse[dim as usize] = place as i64;
    }
    Ok((contiguous(&op::permute(tensor, &order)?)?, order, inverse))
}

/// Applies numbers that depend on the place along a dimension, whose number in memory is given.
fn apply(self_: &Tensor, axis: Option<usize>, by: &[Affine]) -> Result<(Tensor, Tensor)> {
    let (from, order, inverse) = in_memory_order(self_)?;
    let sizes = from.sizes();
    let (out, mask) =
        (empty_as(&sizes, self_, self_.dtype())?, empty_as(&sizes, self_, DType::Bool)?);
    let done = |out: &Tensor, mask: &Tensor| {
        Ok((op::permute(out, &inverse)?, op::permute(mask, &inverse)?))
    };
    ensure!(
        self_.dtype().is_floating_point() && self_.dtype().itemsize() > 1,
        NotImplemented,
        "\"{NAME}\" not implemented for '{}'",
        self_.dtype().type_name()
    );
    if is_shape_only(self_) || self_.numel() == 0 {
        return done(&out, &mask);
    }
    let inner = match axis {
        Some(axis) => {
            let place = order.iter().position(|&dim| dim as usize == axis).unwrap_or(0);
            sizes[place + 1..].iter().product::<i64>() as usize
        }
        None => CHUNK,
    };
    match_dtype!(self_.dtype(), NAME, Float, T => {
        let set = AccessSet::acquire(&[
            (&out, Access::Write),
            (&mask, Access::Write),
            (&from, Access::Read),
        ])?;
        walk::<T>(set.read(2)?, set.write(0)?, set.write(1)?, inner, by)
    })?;
    done(&out, &mask)
}

/// Chunks of `inner` elements take the numbers in turn.
fn walk<T: Element>(
    from: &[T],
    to: &mut [T],
    mask: &mut [bool],
    inner: usize,
    by: &[Affine],
) -> Result<()> {
    let one = |number: usize, to: &mut [T], mask: &mut [bool]| {
        let from = &from[number * inner..][..to.len()];
        let by = by[number % by.len()];
        match T::DTYPE {
            DType::Float64 => run::<T, f64>(from, to, mask, by),
            _ => run::<T, f32>(from, to, mask, by),
        }
        Ok(())
    };
    let whole = to.len() / inner * inner;
    let ((to, to_rest), (mask, mask_rest)) = (to.split_at_mut(whole), mask.split_at_mut(whole));
    for_each_chunk2((to, inner), (mask, inner), grain_of(inner), one)?;
    if to_rest.is_empty() { Ok(()) } else { one(whole / inner, to_rest, mask_rest) }
}

fn check_limits(quant_min: i64, quant_max: i64) -> Result<[f32; 2]> {
    ensure!(
        quant_min <= quant_max,
        Runtime,
        "`quant_min` should be less than or         equal to `quant_max`."
    );
    Ok([quant_min as f32, quant_max as f32])
}

fn refuse_zero_point<T>() -> Result<T> {
    bail!(Runtime, "`zero_point` must be between `quant_min` and `quant_max`.")
}

/// Elements quantised and dequantised by one scale, and where nothing was clamped.
///
/// # Errors
/// `Runtime` for limits and a zero point that do not fit, `NotImplemented` for integers.
pub fn per_tensor_cachemask(
    self_: &Tensor,
    scale: f64,
    zero_point: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<(Tensor, Tensor)> {
    let limits = check_limits(quant_min, quant_max)?;
    if !(quant_min..=quant_max).contains(&zero_point) {
        return refuse_zero_point();
    }
    let (scale, zero) = (scale as f32, zero_point as f32);
    apply(self_, None, &[Affine { scale, zero, is_fractional: false, is_exact: false, limits }])
}

/// [`per_tensor_cachemask`] by numbers in tensors; a copy where it is not enabled.
///
/// # Errors
/// As there, and `Runtime` for tensors of more than one element.
pub fn per_tensor_cachemask_of_tensors(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    fake_quant_enabled: &Tensor,
    quant_min: i64,
    quant_max: i64,
) -> Result<(Tensor, Tensor)> {
    let limits = check_limits(quant_min, quant_max)?;
    let number = |tensor: &Tensor| match is_shape_only(tensor) {
        true => Ok(1.0),
        false => op::item(tensor).map(|number| number.to_f64()),
    };
    if number(fake_quant_enabled)? as i64 == 0 {
        let mask = op::ones_like(self_, Some(DType::Bool), None, None, None, None)?;
        return Ok((op::clone(self_, None)?, mask));
    }
    let (scale, zero) = (number(scale)? as f32, number(zero_point)? as i64 as f32);
    apply(self_, None, &[Affine { scale, zero, is_fractional: false, is_exact: false, limits }])
}

/// Elements quantised and dequantised by a scale for every slice along a dimension, and where nothing
/// was clamped.
///
/// # Errors
/// `Runtime` for limits, scales and zero points that do not fit, `Index` for a dimension that is none,
/// `NotImplemented` for integers.
pub fn per_channel_cachemask(
    self_: &Tensor,
    scale: &Tensor,
    zero_point: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<(Tensor, Tensor)> {
    check_channels(self_, scale, zero_point, axis)?;
    let limits = check_limits(quant_min, quant_max)?;
    let is_fractional = zero_point.dtype().is_floating_point();
    let all = Affine { scale: 1.0, zero: 0.0, is_fractional, is_exact: true, limits };
    if is_shape_only(self_) {
        return apply(self_, Some(axis.max(0) as usize), &[all]);
    }
    let numbers =
        |tensor: &Tensor| op::to_dtype(tensor, DType::Float32, false, false, None)?.to_vec::<f32>();
    let (scales, zeros) = (numbers(scale)?, numbers(zero_point)?);
    if !is_fractional && zeros.iter().any(|zero| *zero < limits[0] || *zero > limits[1]) {
        return refuse_zero_point();
    }
    ensure!(axis >= 0, Runtime, "`axis` must be between 0 and number of dimensions of input");
    let by: Vec<_> =
        scales.iter().zip(zeros).map(|(&scale, zero)| Affine { scale, zero, ..all }).collect();
    apply(self_, Some(axis as usize), &by)
}

fn check_channels(self_: &Tensor, scale: &Tensor, zero_point: &Tensor, axis: i64) -> Result<()> {
    ensure!(
        matches!(scale.dtype(), DType::Float32 | DType::BFloat16),
        Runtime,
        "Scale must be Float or BFloat16, found {}",
        scale.dtype().type_name()
    );
    ensure!(
        matches!(zero_point.dtype(), DType::Int32 | DType::Float32 | DType::Float16),
        Runtime,
        "Zero-point must be Int32, Float or Half, found {}",
        zero_point.dtype().type_name()
    );
    ensure!(scale.dim() == 1, Runtime, "scale should be a 1-D tensor");
    ensure!(zero_point.dim() == 1, Runtime, "zero point should be a 1-D tensor");
    ensure!(
        scale.numel() == zero_point.numel(),
        Runtime,
        "scale and zero-point need to have the same dimensions"
    );
    ensure!(
        scale.numel() == self_.size(axis)?,
        Runtime,
        "dimensions of scale and zero-point are not consistent with input tensor"
    );
    Ok(())
}
