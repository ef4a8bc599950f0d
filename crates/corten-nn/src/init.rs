//! Filling parameters with first values, drawn as PyTorch draws them.

use corten_autograd::no_grad;
use corten_core::{Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// Which number of connections a variance is scaled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// Inputs of each output.
    In,
    /// Outputs of each input.
    Out,
}

/// The nonlinearity behind a layer, whose shrinking the weights make up for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gain {
    /// None, a convolution, or a sigmoid: 1.
    Linear,
    /// Hyperbolic tangent: 5/3.
    Tanh,
    /// Rectifier: the root of 2.
    Relu,
    /// Rectifier with this slope below zero.
    LeakyRelu(f64),
    /// SELU: 3/4.
    Selu,
}

impl Gain {
    /// The factor.
    pub fn value(self) -> f64 {
        match self {
            Self::Linear => 1.0,
            Self::Tanh => 5.0 / 3.0,
            Self::Relu => std::f64::consts::SQRT_2,
            Self::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Self::Selu => 0.75,
        }
    }
}

/// Inputs of each output and outputs of each input of a weight.
///
/// # Errors
/// `Value` for fewer than two dimensions.
pub fn fans(tensor: &Tensor) -> Result<(f64, f64)> {
    let sizes = tensor.sizes();
    ensure!(
        sizes.len() >= 2,
        Value,
        "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
    );
    let receptive: i64 = sizes[2..].iter().product();
    Ok(((sizes[1] * receptive) as f64, (sizes[0] * receptive) as f64))
}

/// Fills with `U(from, to)`.
///
/// # Errors
/// Those of the operator, as in all functions here.
pub fn uniform_(tensor: &Tensor, from: f64, to: f64) -> Result<()> {
    no_grad(|| op::uniform_(tensor, from, to, None)).map(drop)
}

/// Fills with the normal distribution.
///
/// # Errors
/// Those of the operator.
pub fn normal_(tensor: &Tensor, mean: f64, std: f64) -> Result<()> {
    no_grad(|| op::normal_(tensor, mean, std, None)).map(drop)
}

/// Fills with one value.
///
/// # Errors
/// Those of the operator.
pub fn constant_(tensor: &Tensor, value: impl Into<Scalar>) -> Result<()> {
    no_grad(|| op::fill__scalar(tensor, value.into())).map(drop)
}

/// Fills uniformly so that variances pass unchanged forwards and backwards (Glorot).
///
/// # Errors
/// `Value` for fewer than two dimensions.
pub fn xavier_uniform_(tensor: &Tensor, gain: f64) -> Result<()> {
    let (fan_in, fan_out) = fans(tensor)?;
    let bound = 3f64.sqrt() * (gain * (2.0 / (fan_in + fan_out)).sqrt());
    uniform_(tensor, -bound, bound)
}

/// Fills normally so that variances pass unchanged forwards and backwards (Glorot).
///
/// # Errors
/// `Value` for fewer than two dimensions.
pub fn xavier_normal_(tensor: &Tensor, gain: f64) -> Result<()> {
    let (fan_in, fan_out) = fans(tensor)?;
    normal_(tensor, 0.0, gain * (2.0 / (fan_in + fan_out)).sqrt())
}

fn kaiming_std(tensor: &Tensor, gain: Gain, fan: Fan) -> Result<f64> {
    let (fan_in, fan_out) = fans(tensor)?;
    let count = if fan == Fan::In { fan_in } else { fan_out };
    Ok(gain.value() / count.sqrt())
}

/// Fills uniformly so that variances pass a rectifier unchanged (He).
///
/// # Errors
/// `Value` for fewer than two dimensions.
pub fn kaiming_uniform_(tensor: &Tensor, gain: Gain, fan: Fan) -> Result<()> {
    let bound = 3f64.sqrt() * kaiming_std(tensor, gain, fan)?;
    uniform_(tensor, -bound, bound)
}

/// Fills normally so that variances pass a rectifier unchanged (He).
///
/// # Errors
/// `Value` for fewer than two dimensions.
pub fn kaiming_normal_(tensor: &Tensor, gain: Gain, fan: Fan) -> Result<()> {
    let std = kaiming_std(tensor, gain, fan)?;
    normal_(tensor, 0.0, std)
}

/// What linear maps and convolutions start with: weight and bias within one over the root of the
/// number of inputs.
pub(crate) fn weight_and_bias(weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    kaiming_uniform_(weight, Gain::LeakyRelu(5f64.sqrt()), Fan::In)?;
    let Some(bias) = bias else { return Ok(()) };
    let (fan_in, _) = fans(weight)?;
    let bound = if fan_in > 0.0 { 1.0 / fan_in.sqrt() } else { 0.0 };
    uniform_(bias, -bound, bound)
}
