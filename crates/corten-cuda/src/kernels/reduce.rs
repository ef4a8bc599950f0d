//! Reductions.

use crate::reduction::{Reduction, run};
use corten_core::{DType, Result, Scalar, bug, ensure, not_implemented_for};
use corten_ops::{Tensor, TensorIterator, meta};

/// Runs an accumulator that has at most 16 bytes.
fn accumulate(iter: &mut TensorIterator, accumulator: &'static str, dtype: DType) -> Result<()> {
    run(iter, Reduction { accumulator, dtype, number: 0.0, bytes: 16 })
}

/// What sums and products of a dtype are accumulated in.
fn sum_dtype(iter: &TensorIterator) -> DType {
    match iter.dtype(0) {
        dtype if dtype.is_integral(true) => DType::Int64,
        dtype => dtype,
    }
}

/// `sum`: floats of 16 bits in `f32`, integers in `i64`.
///
/// # Errors
/// Those of [`run`]; for the functions below likewise.
pub fn sum(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let dtype = sum_dtype(iter);
    accumulate(iter, "ct::Sum<{}>", dtype)
}

/// `nansum`.
pub fn nansum(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let dtype = sum_dtype(iter);
    accumulate(iter, "ct::NanSum<{}>", dtype)
}

/// `mean`.
pub fn mean(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let dtype = iter.dtype(0);
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        Runtime,
        "result type {} can't be cast to the desired output type {}",
        iter.input_dtype().type_name(),
        dtype.type_name()
    );
    accumulate(iter, "ct::Mean<{}>", dtype)
}

/// `prod`.
pub fn prod(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let dtype = sum_dtype(iter);
    accumulate(iter, "ct::Product<{}>", dtype)
}

/// `any`.
pub fn any(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let dtype = iter.dtype(1);
    accumulate(iter, "ct::Any<{}>", dtype)
}

/// `all`.
pub fn all(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let dtype = iter.dtype(1);
    accumulate(iter, "ct::All<{}>", dtype)
}

fn ordered(
    iter: &mut TensorIterator,
    name: &'static str,
    accumulator: &'static str,
    bytes: usize,
) -> Result<()> {
    let dtype = iter.dtype(iter.noutputs());
    let is_ordered = !dtype.is_complex() && (dtype.itemsize() > 1 || dtype.is_integral(true));
    if !is_ordered {
        return Err(not_implemented_for(name, dtype));
    }
    run(iter, Reduction { accumulator, dtype, number: 0.0, bytes })
}

/// `amax` and `max` of everything.
pub fn amax(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered(iter, "max_values_cuda", "ct::Extremum<{}, 1>", 16)
}

/// `amin` and `min` of everything.
pub fn amin(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered(iter, "min_values_cuda", "ct::Extremum<{}, -1>", 16)
}

/// `max.dim`: values and indices.
pub fn max_dim(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered(iter, "max_cuda", "ct::Extremum<{}, 1>", 16)
}

/// `min.dim`: values and indices.
pub fn min_dim(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered(iter, "min_cuda", "ct::Extremum<{}, -1>", 16)
}

/// `argmax`.
pub fn argmax(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered(iter, "argmax_cuda", "ct::Position<{}, 1>", 16)
}

/// `argmin`.
pub fn argmin(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered(iter, "argmin_cuda", "ct::Position<{}, -1>", 16)
}

/// `aminmax`.
pub fn aminmax(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    ordered(iter, "aminmax_cuda", "ct::Extrema<{}>", 32)
}

/// `linalg_vector_norm`; the first scalar is the order.
pub fn vector_norm(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let Some(order) = scalars.first() else { bug!("a norm needs an order") };
    let number = order.to_f64();
    let dtype = match iter.dtype(1) {
        dtype if dtype.is_complex() => dtype,
        _ => iter.dtype(0),
    };
    run(iter, Reduction { accumulator: "ct::Norm<{}>", dtype, number, bytes: 16 })
}

fn spread(
    iter: &mut TensorIterator,
    accumulator: &'static str,
    correction: Option<Scalar>,
) -> Result<()> {
    let number = correction.map_or(1.0, |correction| correction.to_f64());
    let dtype = match iter.dtype(0) {
        DType::Float64 => DType::Float64,
        _ => DType::Float32,
    };
    run(iter, Reduction { accumulator, dtype, number, bytes: 24 })
}

const VARIANCE: &str = "ct::Variance<{}, false>";
const DEVIATION: &str = "ct::Variance<{}, true>";

/// Complex numbers vary in two dimensions: the sum of the variances of both parts.
fn of_parts(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let parts = corten_ops::op::view_as_real(self_)?;
    let [real, imaginary] = [0, 1].map(|part| -> Result<Tensor> {
        let part = corten_ops::op::select_int(&parts, -1, part)?;
        spread_into(VARIANCE, &part, dim, correction, keepdim, None)
    });
    corten_ops::op::add_tensor(&real?, &imaginary?, Scalar::Int(1))
}

fn spread_into(
    accumulator: &'static str,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
    out: Option<&Tensor>,
) -> Result<Tensor> {
    if self_.dtype().is_complex() {
        let variance = of_parts(self_, dim, correction, keepdim)?;
        let result = match accumulator {
            DEVIATION => corten_ops::op::sqrt(&variance)?,
            _ => variance,
        };
        return match out {
            Some(out) => {
                corten_ops::op::resize_(out, &result.sizes(), None)?;
                corten_ops::op::copy_(out, &result, false)
            }
            None => Ok(result),
        };
    }
    let mut iter = meta::reduction_var(self_, dim, correction, keepdim, out)?;
    spread(&mut iter, accumulator, correction)?;
    iter.finish()?;
    Ok(iter.into_output(0))
}

fn spread_and_mean(
    accumulator: &'static str,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    if self_.dtype().is_complex() {
        let spread = spread_into(accumulator, self_, dim, correction, keepdim, None)?;
        return Ok((spread, corten_ops::op::mean_dim(self_, dim, keepdim, None)?));
    }
    let mut iter = meta::reduction_var_mean(self_, dim, correction, keepdim, None, None)?;
    spread(&mut iter, accumulator, correction)?;
    iter.finish()?;
    Ok((iter.output(0), iter.output(1)))
}

/// The variance.
pub fn var(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    spread_into(VARIANCE, self_, dim, correction, keepdim, None)
}

/// The variance, into `out`.
pub fn var_out(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
    out: &Tensor,
) -> Result<Tensor> {
    meta::check_var_out(self_, out)?;
    spread_into(VARIANCE, self_, dim, correction, keepdim, Some(out))
}

/// The variance and the mean.
pub fn var_mean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    spread_and_mean(VARIANCE, self_, dim, correction, keepdim)
}

/// The standard deviation.
pub fn std(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    spread_into(DEVIATION, self_, dim, correction, keepdim, None)
}

/// The standard deviation, into `out`.
pub fn std_out(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
    out: &Tensor,
) -> Result<Tensor> {
    meta::check_var_out(self_, out)?;
    spread_into(DEVIATION, self_, dim, correction, keepdim, Some(out))
}

/// The standard deviation and the mean.
pub fn std_mean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    spread_and_mean(DEVIATION, self_, dim, correction, keepdim)
}
