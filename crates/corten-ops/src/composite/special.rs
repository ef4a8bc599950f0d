//! Special functions made of others.

use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, default_dtype, ensure};

/// `self + (1 - i) / 2` for the terms i of a multivariate function, along a new last dimension.
///
/// # Errors
/// `Runtime` for a dimension below 1, `NotImplemented` for complex numbers.
pub fn mvlgamma_arguments(self_: &Tensor, p: i64) -> Result<Tensor> {
    ensure!(p >= 1, Runtime, "p has to be greater than or equal to 1");
    let dtype = match self_.dtype() {
        dtype if dtype.is_integral(true) => default_dtype(),
        dtype => dtype,
    };
    let steps = steps(p, dtype, self_)?;
    op::add_tensor(&op::unsqueeze(self_, -1)?, &steps, Scalar::Int(1))
}

fn steps(p: i64, dtype: DType, like: &Tensor) -> Result<Tensor> {
    let first = Scalar::Float(-(p as f64) / 2.0 + 0.5);
    let (end, step) = (Scalar::Float(0.5), Scalar::Float(0.5));
    op::arange_start_step(first, end, step, Some(dtype), None, Some(like.device()), None)
}

/// The logarithm of the multivariate gamma function.
///
/// # Errors
/// As for [`mvlgamma_arguments`].
pub fn mvlgamma(self_: &Tensor, p: i64) -> Result<Tensor> {
    let terms = op::lgamma(&mvlgamma_arguments(self_, p)?)?;
    let sum = op::sum_dim_intlist(&terms, Some(&[-1]), false, None)?;
    let pairs = (p as f64) * (p as f64 - 1.0) / 4.0;
    let constant = Scalar::Float(pairs * std::f64::consts::PI.ln());
    op::add_scalar(&sum, constant, Scalar::Int(1))
}
