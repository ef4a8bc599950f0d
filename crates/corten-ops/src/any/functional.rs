//! Writing operators that write to a copy: the forms that functionalisation puts in their place.

use crate::{Tensor, op};
use corten_core::{BelowADInplaceOrViewGuard, Generator, MemoryFormat, Result, Scalar};

/// A copy that `write` has written to. Nobody has seen it before, so that this is no change.
fn written(tensor: &Tensor, write: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let copy = op::clone(tensor, None)?;
    let _below = BelowADInplaceOrViewGuard::new();
    write(&copy)?;
    Ok(copy)
}

/// A tensor of the same sizes, dtype and strides that `fill` has written to.
fn filled(tensor: &Tensor, fill: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let made = op::empty_like(tensor, None, None, None, None, None)?;
    let _below = BelowADInplaceOrViewGuard::new();
    fill(&made)?;
    Ok(made)
}

/// `zero_` of a copy.
///
/// # Errors
/// Those of the operator; for the functions below likewise.
pub fn zero(self_: &Tensor) -> Result<Tensor> {
    filled(self_, op::zero_)
}

/// `copy_` to a copy.
pub fn copy(self_: &Tensor, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
    // The strides stay as they are, gaps included.
    let (sizes, strides) = (self_.sizes(), self_.strides());
    let made = op::new_empty_strided(self_, &sizes, &strides, None, None, None, None)?;
    let _below = BelowADInplaceOrViewGuard::new();
    op::copy_(&made, src, non_blocking)?;
    Ok(made)
}

/// `resize_` of a copy.
pub fn resize(self_: &Tensor, size: &[i64], format: Option<MemoryFormat>) -> Result<Tensor> {
    written(self_, |copy| op::resize_(copy, size, format))
}

/// `uniform_` of a copy.
pub fn uniform(
    self_: &Tensor,
    from: f64,
    to: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    filled(self_, |made| op::uniform_(made, from, to, generator))
}

/// `normal_` of a copy.
pub fn normal(
    self_: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    filled(self_, |made| op::normal_(made, mean, std, generator))
}

/// `random_` of a copy.
pub fn random(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    filled(self_, |made| op::random_(made, generator))
}

/// `random_` with both bounds, of a copy.
pub fn random_from(
    self_: &Tensor,
    from: i64,
    to: Option<i64>,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    filled(self_, |made| op::random__from(made, from, to, generator))
}

/// `random_` below a bound, of a copy.
pub fn random_to(self_: &Tensor, to: i64, generator: Option<&Generator>) -> Result<Tensor> {
    filled(self_, |made| op::random__to(made, to, generator))
}

/// `bernoulli_` with a tensor of probabilities, of a copy.
pub fn bernoulli_tensor(
    self_: &Tensor,
    p: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    filled(self_, |made| op::bernoulli__tensor(made, p, generator))
}

/// `exponential_` of a copy.
pub fn exponential(self_: &Tensor, lambd: f64, generator: Option<&Generator>) -> Result<Tensor> {
    filled(self_, |made| op::exponential_(made, lambd, generator))
}

/// `geometric_` of a copy.
pub fn geometric(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    filled(self_, |made| op::geometric_(made, p, generator))
}

/// `cauchy_` of a copy.
pub fn cauchy(
    self_: &Tensor,
    median: f64,
    sigma: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    filled(self_, |made| op::cauchy_(made, median, sigma, generator))
}

/// `log_normal_` of a copy.
pub fn log_normal(
    self_: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    filled(self_, |made| op::log_normal_(made, mean, std, generator))
}

/// `embedding_renorm_` of a copy.
pub fn embedding_renorm(
    self_: &Tensor,
    indices: &Tensor,
    max_norm: f64,
    norm_type: f64,
) -> Result<Tensor> {
    written(self_, |copy| op::embedding_renorm_(copy, indices, max_norm, norm_type))
}

/// `native_batch_norm` that writes to copies of the running statistics.
pub fn native_batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor, Tensor, Tensor)> {
    let (mean, var) = (op::clone(running_mean, None)?, op::clone(running_var, None)?);
    let _below = BelowADInplaceOrViewGuard::new();
    let (output, save_mean, save_invstd) = op::native_batch_norm(
        input,
        weight,
        bias,
        Some(&mean),
        Some(&var),
        training,
        momentum,
        eps,
    )?;
    Ok((output, save_mean, save_invstd, mean, var))
}

/// `rrelu_with_noise` that writes to a copy of the noise.
pub fn rrelu_with_noise(
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<(Tensor, Tensor)> {
    let noise = op::clone(noise, None)?;
    let _below = BelowADInplaceOrViewGuard::new();
    let result = op::rrelu_with_noise(self_, &noise, lower, upper, training, generator)?;
    Ok((result, noise))
}

/// A copy of a new tensor.
pub fn lift_fresh_copy(self_: &Tensor) -> Result<Tensor> {
    op::clone(self_, None)
}
