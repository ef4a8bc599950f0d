//! Samplers whose parameters are tensors. They walk the result row by row, so that one seed gives
//! one result.

use super::fill::with_generator;
use super::rejection;
use super::slopes;
use crate::kernels::support::{contiguous, empty, expect_dtype};
use corten_core::{
    DType, Element, Generator, GeneratorGuard, Reader, Result, Writer, bail, cast, ensure,
    match_dtype, try_vec,
};
use corten_ops::{Tensor, op};

/// The result of `sample` for each row-major element of parameters of one shape and dtype.
fn sample_each<T: Element>(
    parameters: &[&Tensor],
    mut sample: impl FnMut(&[f64]) -> Result<f64>,
) -> Result<Tensor> {
    let result = empty(&parameters[0].sizes(), parameters[0])?;
    let dense = parameters.iter().map(|tensor| contiguous(tensor)).collect::<Result<Vec<_>>>()?;
    let readers =
        dense.iter().map(|tensor| Reader::<T>::new(tensor)).collect::<Result<Vec<_>>>()?;
    let mut values = try_vec(0.0, parameters.len())?;
    for (place, slot) in Writer::<T>::new(&result)?.iter_mut().enumerate() {
        for (value, reader) in values.iter_mut().zip(&readers) {
            *value = cast(reader[place]);
        }
        *slot = cast(sample(&values)?);
    }
    Ok(result)
}

/// The dtypes that most of these samplers take; others are refused under `kernel`'s name.
fn with_floats(
    kernel: &str,
    parameters: &[&Tensor],
    sample: impl FnMut(&[f64]) -> Result<f64>,
) -> Result<Tensor> {
    match parameters[0].dtype() {
        DType::Float32 => sample_each::<f32>(parameters, sample),
        DType::Float64 => sample_each::<f64>(parameters, sample),
        other => {
            bail!(NotImplemented, "\"{kernel}\" not implemented for '{}'", other.type_name())
        }
    }
}

/// Numbers from the Poisson distribution, the rate given by element.
///
/// # Errors
/// `Runtime` for a rate that is negative or no number, `NotImplemented` for integers.
pub fn poisson(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    with_generator(generator, |rng| {
        match_dtype!(self_.dtype(), "poisson_cpu", Float, T => sample_each::<T>(&[self_], |rate| {
            ensure!(
                rate[0] >= 0.0 && rate[0].is_finite(),
                Runtime,
                "invalid Poisson rate, expected rate to be non-negative"
            );
            Ok(rejection::poisson(rate[0], rng))
        }))
    })
}

/// Successes among `count` trials of probability `prob`.
///
/// # Errors
/// `Value` for counts that are no floating-point numbers, `Runtime` for different dtypes.
pub fn binomial(count: &Tensor, prob: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    for (name, tensor) in [("count", count), ("prob", prob)] {
        ensure!(
            tensor.dtype().is_floating_point(),
            Value,
            "binomial only supports floating-point dtypes for {name}, got: {}",
            tensor.dtype().type_name()
        );
    }
    expect_dtype(prob, count.dtype())?;
    let both = op::broadcast_tensors(&[count.clone(), prob.clone()])?;
    with_generator(generator, |rng| {
        with_floats("binomial_cpu", &[&both[0], &both[1]], |of| {
            Ok(rejection::binomial(of[0], of[1], rng))
        })
    })
}

/// Numbers from the gamma distribution of rate 1; never less than the dtype's smallest.
///
/// # Errors
/// `NotImplemented` unless the dtype is `float32` or `float64`.
pub fn standard_gamma(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let smallest = smallest_normal(self_.dtype());
    let draw = draw_gamma(self_.dtype());
    with_generator(generator, |rng| {
        with_floats("gamma_cpu", &[self_], |of| Ok(draw(of[0], rng).max(smallest)))
    })
}

/// The sampler that computes with concentrations in the precision of a dtype.
fn draw_gamma(dtype: DType) -> fn(f64, &mut GeneratorGuard<'_>) -> f64 {
    match dtype {
        DType::Float64 => rejection::gamma_of_double,
        _ => rejection::gamma_of_single,
    }
}

fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::Float64 => f64::MIN_POSITIVE,
        _ => f32::MIN_POSITIVE.into(),
    }
}

/// How gamma samples grow with their concentration at a fixed quantile.
///
/// # Errors
/// `NotImplemented` unless the dtype is `float32` or `float64`, `Runtime` for different dtypes.
pub fn standard_gamma_grad(self_: &Tensor, output: &Tensor) -> Result<Tensor> {
    if matches!(self_.dtype(), DType::Float32 | DType::Float64) {
        expect_dtype(output, self_.dtype())?;
    }
    let both = op::broadcast_tensors(&[self_.clone(), output.clone()])?;
    let least = if self_.dtype() == DType::Float32 { 1e-10 } else { 1e-17 };
    with_floats("_standard_gamma_grad_cpu", &[&both[0], &both[1]], |of| {
        Ok(slopes::gamma(of[0], of[1], least))
    })
}

/// Points of the simplex: gamma samples over their sum, inside of the open interval (0, 1).
///
/// # Errors
/// `NotImplemented` unless the dtype is `float32` or `float64`.
pub fn sample_dirichlet(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let dtype = self_.dtype();
    ensure!(
        matches!(dtype, DType::Float32 | DType::Float64),
        NotImplemented,
        "\"dirichlet\" not implemented for '{}'",
        dtype.type_name()
    );
    let wide = op::to_dtype(self_, DType::Float64, false, false, None)?;
    let draw = draw_gamma(DType::Float64);
    let gammas =
        with_generator(generator, |rng| sample_each::<f64>(&[&wide], |of| Ok(draw(of[0], rng))))?;
    let sums = op::sum_dim_intlist(&gammas, Some(&[-1]), true, None)?;
    let shares = op::to_dtype(&(gammas / sums)?, dtype, false, false, None)?;
    let largest = if dtype == DType::Float64 {
        1.0 - f64::EPSILON / 2.0
    } else {
        1.0 - f64::from(f32::EPSILON) / 2.0
    };
    with_floats("dirichlet", &[&shares], |of| Ok(of[0].max(smallest_normal(dtype)).min(largest)))
}

/// How coordinates grow with their concentration at a fixed quantile, over `1 - x`.
///
/// # Errors
/// `NotImplemented` unless the dtype is `float32` or `float64`, `Runtime` for different dtypes.
pub fn dirichlet_grad(x: &Tensor, alpha: &Tensor, total: &Tensor) -> Result<Tensor> {
    expect_dtype(alpha, x.dtype())?;
    expect_dtype(total, x.dtype())?;
    let all = op::broadcast_tensors(&[x.clone(), alpha.clone(), total.clone()])?;
    with_floats("_dirichlet_grad_cpu", &[&all[0], &all[1], &all[2]], |of| {
        Ok(slopes::beta(of[0], of[1], of[2] - of[1]))
    })
}
