//! Dropout: a product with noise.

use crate::{Tensor, op};
use corten_core::{Result, Scalar, ensure};

/// Where the noise has one value per element, or one per channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grain {
    Element,
    Feature,
}

/// Zeroes elements with probability `p` and scales the others.
///
/// # Errors
/// `Runtime` for a probability outside 0..=1.
pub fn dropout(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    dropout_by(input, p, train, Grain::Element, false)
}

/// [`dropout`] in place.
///
/// # Errors
/// As for `dropout`.
pub fn dropout_(self_: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    dropout_by(self_, p, train, Grain::Element, true)
}

/// Dropout of whole channels.
///
/// # Errors
/// As for `dropout`, and for an input of less than two dimensions.
pub fn feature_dropout(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    dropout_by(input, p, train, Grain::Feature, false)
}

/// [`feature_dropout`] in place.
///
/// # Errors
/// As for `feature_dropout`.
pub fn feature_dropout_(self_: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    dropout_by(self_, p, train, Grain::Feature, true)
}

/// Dropout that keeps mean and variance after a self-normalising activation.
///
/// # Errors
/// As for `dropout`.
pub fn alpha_dropout(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    alpha(input, p, train, Grain::Element, false)
}

/// [`alpha_dropout`] in place.
///
/// # Errors
/// As for `dropout`.
pub fn alpha_dropout_(self_: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    alpha(self_, p, train, Grain::Element, true)
}

/// [`alpha_dropout`] of whole channels.
///
/// # Errors
/// As for `feature_dropout`.
pub fn feature_alpha_dropout(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    alpha(input, p, train, Grain::Feature, false)
}

/// [`feature_alpha_dropout`] in place.
///
/// # Errors
/// As for `feature_dropout`.
pub fn feature_alpha_dropout_(self_: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    alpha(self_, p, train, Grain::Feature, true)
}

fn dropout_by(input: &Tensor, p: f64, train: bool, grain: Grain, inplace: bool) -> Result<Tensor> {
    check(p)?;
    if p == 0.0 || !train || input.numel() == 0 {
        return Ok(input.clone());
    }
    if p == 1.0 {
        return multiply(input, &zero_like(input)?, inplace);
    }
    let one_launch = input.device().is_cuda() && input.dtype().is_floating_point();
    if one_launch && grain == Grain::Element && !inplace {
        return Ok(op::native_dropout(input, p, Some(true))?.0);
    }
    let noise = noise(input, p, grain)?;
    op::div__scalar(&noise, Scalar::from(1.0 - p))?;
    multiply(input, &noise, inplace)
}

fn alpha(input: &Tensor, p: f64, train: bool, grain: Grain, inplace: bool) -> Result<Tensor> {
    /// The negative of what the activation tends to on the left.
    const LIMIT: f64 = 1.758_099_340_847_376_6;
    check(p)?;
    if p == 0.0 || !train || input.numel() == 0 {
        return Ok(input.clone());
    }
    if p == 1.0 {
        return multiply(input, &zero_like(input)?, inplace);
    }
    let noise = noise(input, p, grain)?;
    let scale = 1.0 / ((LIMIT * LIMIT * p + 1.0) * (1.0 - p)).sqrt();
    let one = Scalar::Int(1);
    let shift = op::mul_scalar(&op::sub_scalar(&noise, one, one)?, Scalar::from(LIMIT * scale))?;
    op::add__scalar(&shift, Scalar::from(LIMIT * scale * p), one)?;
    op::mul__scalar(&noise, Scalar::from(scale))?;
    let product = multiply(input, &noise, inplace)?;
    match inplace {
        true => op::add__tensor(&product, &shift, one),
        false => op::add_tensor(&product, &shift, one),
    }
}

fn check(p: f64) -> Result<()> {
    ensure!(
        (0.0..=1.0).contains(&p),
        Runtime,
        "dropout probability has to be between 0 and 1, but got {p}"
    );
    Ok(())
}

fn multiply(input: &Tensor, noise: &Tensor, inplace: bool) -> Result<Tensor> {
    if inplace { op::mul__tensor(input, noise) } else { op::mul_tensor(input, noise) }
}

fn zero_like(input: &Tensor) -> Result<Tensor> {
    op::zeros(&[], Some(input.dtype()), None, Some(input.device()), None)
}

/// Ones and zeros, zero with probability `p`.
fn noise(input: &Tensor, p: f64, grain: Grain) -> Result<Tensor> {
    // Complex numbers are kept or dropped as a whole.
    let dtype = input.dtype().to_real();
    let noise = match grain {
        Grain::Element => {
            let dtype = (dtype != input.dtype()).then_some(dtype);
            op::empty_like(input, dtype, None, None, None, None)?
        }
        Grain::Feature => {
            ensure!(
                input.dim() >= 2,
                Runtime,
                "Feature dropout requires at least 2 dimensions in the input"
            );
            let mut sizes = input.sizes();
            sizes[2..].fill(1);
            let (dtype, device) = (Some(dtype), Some(input.device()));
            op::empty_memory_format(&sizes, dtype, None, device, None, None)?
        }
    };
    op::bernoulli__float(&noise, 1.0 - p, None)
}
