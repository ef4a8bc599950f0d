//! Filling parameters with first values, drawn as PyTorch draws them.

use corten_autograd::no_grad;
use corten_core::{Device, Result, Scalar, ensure, warn};
use corten_ops::{Tensor, op};

/// Which number of connections a variance is scaled by.
///
/// ```
/// use corten::nn::{Linear, init};
///
/// let layer = Linear::new(4, 8)?;
/// init::kaiming_normal_(&layer.weight, init::Gain::Relu, init::Fan::Out)?;
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// Inputs of each output.
    In,
    /// Outputs of each input.
    Out,
}

/// The nonlinearity behind a layer, whose shrinking the weights make up for.
///
/// ```
/// assert_eq!(corten::nn::init::Gain::Selu.value(), 0.75);
/// ```
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

/// The standard deviation, or nothing for a tensor without elements.
fn kaiming_std(tensor: &Tensor, gain: Gain, fan: Fan) -> Result<Option<f64>> {
    if tensor.sizes().contains(&0) {
        warn("Initializing zero-element tensors is a no-op");
        return Ok(None);
    }
    let (fan_in, fan_out) = fans(tensor)?;
    let count = if fan == Fan::In { fan_in } else { fan_out };
    Ok(Some(gain.value() / count.sqrt()))
}

/// Fills uniformly so that variances pass a rectifier unchanged (He).
///
/// # Errors
/// `Value` for fewer than two dimensions.
pub fn kaiming_uniform_(tensor: &Tensor, gain: Gain, fan: Fan) -> Result<()> {
    let Some(std) = kaiming_std(tensor, gain, fan)? else { return Ok(()) };
    let bound = 3f64.sqrt() * std;
    uniform_(tensor, -bound, bound)
}

/// Fills normally so that variances pass a rectifier unchanged (He).
///
/// # Errors
/// `Value` for fewer than two dimensions.
pub fn kaiming_normal_(tensor: &Tensor, gain: Gain, fan: Fan) -> Result<()> {
    let Some(std) = kaiming_std(tensor, gain, fan)? else { return Ok(()) };
    normal_(tensor, 0.0, std)
}

/// Fills with ones.
///
/// # Errors
/// Those of the operator.
pub fn ones_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 1.0)
}

/// Fills with zeros.
///
/// # Errors
/// Those of the operator.
pub fn zeros_(tensor: &Tensor) -> Result<()> {
    no_grad(|| op::zero_(tensor)).map(drop)
}

/// Fills a matrix with the identity.
///
/// # Errors
/// `Value` for other dimensions than two.
#[doc = example!("let x = op::ones(&[2, 2], None, None, None, None)?;
init::eye_(&x)?;
assert_eq!(x.to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);")]
pub fn eye_(tensor: &Tensor) -> Result<()> {
    ensure!(tensor.dim() == 2, Value, "Only tensors with 2 dimensions are supported");
    zeros_(tensor)?;
    no_grad(|| op::fill__scalar(&op::diagonal(tensor, 0, 0, 1)?, 1.into())).map(drop)
}

/// Fills the weight of a convolution so that it passes as many channels through as it can.
///
/// # Errors
/// `Value` for other dimensions than three to five, and groups that do not divide the outputs.
pub fn dirac_(tensor: &Tensor, groups: i64) -> Result<()> {
    let sizes = tensor.sizes();
    ensure!(
        (3..=5).contains(&sizes.len()),
        Value,
        "Only tensors with 3, 4, or 5 dimensions are supported"
    );
    ensure!(groups > 0 && sizes[0] % groups == 0, Value, "dim 0 must be divisible by groups");
    let share = sizes[0] / groups;
    zeros_(tensor)?;
    no_grad(|| {
        for group in 0..groups {
            for channel in 0..share.min(sizes[1]) {
                let mut element = op::select_int(tensor, 0, group * share + channel)?;
                element = op::select_int(&element, 0, channel)?;
                for size in &sizes[2..] {
                    element = op::select_int(&element, 0, size / 2)?;
                }
                op::fill__scalar(&element, 1.into())?;
            }
        }
        Ok(())
    })
}

/// Fills with a (semi-)orthogonal matrix; further dimensions are flattened.
///
/// # Errors
/// `Value` for fewer than two dimensions.
pub fn orthogonal_(tensor: &Tensor, gain: f64) -> Result<()> {
    ensure!(tensor.dim() >= 2, Value, "Only tensors with 2 or more dimensions are supported");
    if tensor.numel() == 0 {
        return Ok(());
    }
    no_grad(|| {
        let rows = tensor.size(0)?;
        let cols = tensor.numel() / rows;
        let shape = [rows, cols];
        let mut flat = op::new_empty(tensor, &shape, None, None, None, None)?;
        op::normal_(&flat, 0.0, 1.0, None)?;
        if rows < cols {
            flat = op::transpose_int(&flat, 0, 1)?;
        }
        let (q, r) = op::linalg_qr(&flat, "reduced")?;
        // Makes the distribution uniform.
        let mut q = (q * op::sign(&op::diagonal(&r, 0, 0, 1)?)?)?;
        if rows < cols {
            q = op::transpose_int(&q, 0, 1)?;
        }
        op::copy_(&op::view(tensor, &shape)?, &q, false)?;
        op::mul__scalar(tensor, gain.into()).map(drop)
    })
}

/// Fills a matrix normally, then zeroes the fraction `sparsity` of each column.
///
/// # Errors
/// `Value` for other dimensions than two.
pub fn sparse_(tensor: &Tensor, sparsity: f64, std: f64) -> Result<()> {
    ensure!(tensor.dim() == 2, Value, "Only tensors with 2 dimensions are supported");
    let sizes = tensor.sizes();
    let zeros = (sparsity * sizes[0] as f64).ceil() as i64;
    normal_(tensor, 0.0, std)?;
    no_grad(|| {
        for column in 0..sizes[1] {
            let rows = op::narrow(&op::randperm(sizes[0], None, None, None, None)?, 0, 0, zeros)?;
            let column = op::select_int(tensor, 1, column)?;
            op::index_fill__int_scalar(&column, 0, &rows, 0.into())?;
        }
        Ok(())
    })
}

/// The distribution function of the normal distribution.
fn normal_cdf(x: f64) -> Result<f64> {
    let x = Tensor::from_vec(vec![x / std::f64::consts::SQRT_2], &[1])?;
    Ok((1.0 + op::erf(&x)?.to_vec::<f64>()?[0]) / 2.0)
}

/// Fills with the normal distribution cut off outside `[a, b]`.
///
/// # Errors
/// Those of the operators.
pub fn trunc_normal_(tensor: &Tensor, mean: f64, std: f64, a: f64, b: f64) -> Result<()> {
    if mean < a - 2.0 * std || mean > b + 2.0 * std {
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
        );
    }
    let inside = normal_cdf((b - mean) / std)? - normal_cdf((a - mean) / std)?;
    no_grad(|| {
        let drawn = if inside > 0.3 {
            normal_between(tensor, mean, std, a, b)?
        } else {
            normal_far_out(tensor, mean, std, a, b)?
        };
        if drawn.is_same(tensor) { Ok(()) } else { op::copy_(tensor, &drawn, false).map(drop) }
    })
}

/// Draws until all elements are between the ends, which are rounded as the elements are.
fn normal_between(tensor: &Tensor, mean: f64, std: f64, a: f64, b: f64) -> Result<Tensor> {
    let rounded = |end: f64| {
        let (dtype, device) = (Some(tensor.dtype()), Some(Device::CPU));
        op::item(&op::full(&[], end.into(), dtype, None, device, None)?)
    };
    let (low, high) = (rounded(a)?, rounded(b)?);
    let mut result = op::normal_(tensor, mean, std, None)?;
    loop {
        let below = op::lt_scalar(&result, low)?;
        let outside = op::logical_or(&below, &op::gt_scalar(&result, high)?)?;
        if !op::any(&outside)?.to_element::<bool>()? {
            return Ok(result);
        }
        let again = op::empty_like(&result, None, None, None, None, None)?;
        op::normal_(&again, mean, std, None)?;
        result = op::where_self(&outside, &again, &result)?;
    }
}

/// Draws evenly between the ends, and keeps a draw as often as its density is of the greatest:
/// few draws of the distribution itself would fall between them.
fn normal_far_out(tensor: &Tensor, mean: f64, std: f64, a: f64, b: f64) -> Result<Tensor> {
    let greatest = -0.5 * ((a.max(mean.min(b)) - mean) / std).powi(2);
    let empty = || op::empty_like(tensor, None, None, None, None, None);
    let refused = |candidates: &Tensor| {
        let distance =
            op::div_scalar(&op::sub_scalar(candidates, mean.into(), 1.into())?, std.into())?;
        let density = ((op::pow_tensor_scalar(&distance, 2.into())? * -0.5)? - greatest)?;
        let drawn = empty()?;
        op::uniform_(&drawn, 0.0, 1.0, None)?;
        op::gt_tensor(&op::log(&drawn)?, &density)
    };
    let mut result = op::uniform_(tensor, a, b, None)?;
    let mut pending = refused(&result)?;
    while op::any(&pending)?.to_element::<bool>()? {
        let candidates = empty()?;
        op::uniform_(&candidates, a, b, None)?;
        result = op::where_self(&pending, &candidates, &result)?;
        pending = op::logical_and(&pending, &refused(&candidates)?)?;
    }
    Ok(result)
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
