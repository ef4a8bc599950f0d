//! Normalisation within one sample.

use crate::hooks::Hooks;
use crate::module::{Forward, Module, Parameter};
use crate::print::Repr;
use crate::{ones, zeros};
use corten_core::{Result, Scalar, ensure};
use corten_ops::{Tensor, op};

pub(crate) const EPS: f64 = 1e-5;

/// Scale 1 and shift 0 of a shape, as far as they are wanted.
pub(crate) fn scale_and_shift(
    shape: &[i64],
    affine: bool,
    bias: bool,
) -> Result<(Option<Parameter>, Option<Parameter>)> {
    let scale = affine.then(|| Parameter::new(ones(shape)?)).transpose()?;
    let shift = (affine && bias).then(|| Parameter::new(zeros(shape)?)).transpose()?;
    Ok((scale, shift))
}

/// Statistics over a single value say nothing.
pub(crate) fn check_count(values: i64, size: &[i64]) -> Result<()> {
    ensure!(
        values != 1,
        Value,
        "Expected more than 1 value per channel when training, got input size torch.Size({size:?})"
    );
    Ok(())
}

/// Options of [`LayerNorm`].
///
/// ```
/// assert_eq!(corten::nn::LayerNormOptions::default().eps, 1e-5);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LayerNormOptions {
    /// Added to variances.
    pub eps: f64,
    /// Whether there are a scale and a shift.
    pub elementwise_affine: bool,
    /// Whether there is a shift.
    pub bias: bool,
}

impl Default for LayerNormOptions {
    fn default() -> Self {
        Self { eps: EPS, elementwise_affine: true, bias: true }
    }
}

/// Normalises over the last dimensions.
#[doc = example!("let norm = LayerNorm::new(&[8])?;
let y = norm.forward(&op::randn(&[2, 8], None, None, None, None)?)?;
assert!(y.mean()?.to_element::<f32>()?.abs() < 1e-5);")]
#[derive(Module)]
#[module(repr)]
pub struct LayerNorm {
    /// Scale.
    pub weight: Option<Parameter>,
    /// Shift.
    pub bias: Option<Parameter>,
    shape: Vec<i64>,
    /// Added to variances.
    pub eps: f64,
    hooks: Hooks,
}

impl LayerNorm {
    /// Normalises over dimensions of the given shape.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn new(normalized_shape: &[i64]) -> Result<Self> {
        Self::with(normalized_shape, LayerNormOptions::default())
    }

    /// Normalises with options.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn with(normalized_shape: &[i64], options: LayerNormOptions) -> Result<Self> {
        let LayerNormOptions { eps, elementwise_affine, bias } = options;
        let (weight, bias) = scale_and_shift(normalized_shape, elementwise_affine, bias)?;
        let shape = normalized_shape.to_vec();
        Ok(Self { weight, bias, shape, eps, hooks: Hooks::default() })
    }

    fn repr(&self) -> String {
        let (affine, bias) = (self.weight.is_some().repr(), self.bias.is_some().repr());
        let (shape, eps) = (self.shape.repr(), self.eps.repr());
        format!("{shape}, eps={eps}, elementwise_affine={affine}, bias={bias}")
    }
}

impl Forward for LayerNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
        op::layer_norm(input, &self.shape, weight, bias, self.eps, true)
    }
}

/// Options of [`RmsNorm`].
///
/// ```
/// assert!(corten::nn::RmsNormOptions::default().eps.is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RmsNormOptions {
    /// Added to mean squares; the dtype's own epsilon if absent.
    pub eps: Option<f64>,
    /// Whether there is a scale.
    pub elementwise_affine: bool,
}

impl Default for RmsNormOptions {
    fn default() -> Self {
        Self { eps: None, elementwise_affine: true }
    }
}

/// Divides by the root of the mean square over the last dimensions.
#[doc = example!("let norm = RmsNorm::new(&[2])?;
let y = norm.forward(&op::ones(&[1, 2], None, None, None, None)?)?;
assert!((y.to_vec::<f32>()?[0] - 1.0).abs() < 1e-5);")]
#[derive(Module)]
#[module(name = "RMSNorm", repr)]
pub struct RmsNorm {
    /// Scale.
    pub weight: Option<Parameter>,
    shape: Vec<i64>,
    /// Added to mean squares; the dtype's own epsilon if absent.
    #[module(skip)]
    pub eps: Option<f64>,
    hooks: Hooks,
}

impl RmsNorm {
    /// Normalises over dimensions of the given shape.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn new(normalized_shape: &[i64]) -> Result<Self> {
        Self::with(normalized_shape, RmsNormOptions::default())
    }

    /// Normalises with options.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn with(normalized_shape: &[i64], options: RmsNormOptions) -> Result<Self> {
        let (weight, _) = scale_and_shift(normalized_shape, options.elementwise_affine, false)?;
        let shape = normalized_shape.to_vec();
        Ok(Self { weight, shape, eps: options.eps, hooks: Hooks::default() })
    }

    fn repr(&self) -> String {
        let affine = self.weight.is_some().repr();
        format!("{}, eps={}, elementwise_affine={affine}", self.shape.repr(), self.eps.repr())
    }
}

impl Forward for RmsNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::rms_norm(input, &self.shape, self.weight.as_deref(), self.eps)
    }
}

/// Options of [`GroupNorm`].
///
/// ```
/// assert!(corten::nn::GroupNormOptions::default().affine);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GroupNormOptions {
    /// Added to variances.
    pub eps: f64,
    /// Whether there are a scale and a shift.
    pub affine: bool,
    /// Whether there is a shift.
    pub bias: bool,
}

impl Default for GroupNormOptions {
    fn default() -> Self {
        Self { eps: EPS, affine: true, bias: true }
    }
}

/// Normalises groups of channels of each sample.
#[doc = example!("let norm = GroupNorm::new(2, 4)?;
let y = norm.forward(&op::randn(&[3, 4, 5], None, None, None, None)?)?;
assert_eq!(y.sizes().as_slice(), [3, 4, 5]);")]
#[derive(Module)]
#[module(repr)]
pub struct GroupNorm {
    /// Scale of each channel.
    pub weight: Option<Parameter>,
    /// Shift of each channel.
    pub bias: Option<Parameter>,
    num_groups: i64,
    num_channels: i64,
    /// Added to variances.
    pub eps: f64,
    hooks: Hooks,
}

impl GroupNorm {
    /// Groups of channels, of which there are `num_channels` in all.
    ///
    /// # Errors
    /// `Value` when the groups do not divide the channels.
    pub fn new(num_groups: i64, num_channels: i64) -> Result<Self> {
        Self::with(num_groups, num_channels, GroupNormOptions::default())
    }

    /// Groups of channels with options.
    ///
    /// # Errors
    /// `Value` when the groups do not divide the channels.
    pub fn with(num_groups: i64, num_channels: i64, options: GroupNormOptions) -> Result<Self> {
        ensure!(
            num_groups > 0 && num_channels % num_groups == 0,
            Value,
            "num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
        );
        let GroupNormOptions { eps, affine, bias } = options;
        let (weight, bias) = scale_and_shift(&[num_channels], affine, bias)?;
        Ok(Self { weight, bias, num_groups, num_channels, eps, hooks: Hooks::default() })
    }

    fn repr(&self) -> String {
        let (affine, bias) = (self.weight.is_some().repr(), self.bias.is_some().repr());
        let (groups, channels, eps) = (self.num_groups, self.num_channels, self.eps.repr());
        format!("{groups}, {channels}, eps={eps}, affine={affine}, bias={bias}")
    }
}

impl Forward for GroupNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let rank = input.dim();
        ensure!(
            rank >= 2,
            Runtime,
            "Expected at least 2 dimensions for input tensor but received {rank}"
        );
        let sizes = input.sizes();
        let groups = self.num_groups;
        let spatial: i64 = sizes[2..].iter().product();
        check_count(sizes[0] * sizes[1] / groups * spatial, &sizes)?;
        let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
        op::group_norm(input, groups, weight, bias, self.eps, true)
    }
}

/// Options of [`LocalResponseNorm`] and [`CrossMapLrn2d`].
///
/// ```
/// assert_eq!(corten::nn::LocalResponseNormOptions::default().beta, 0.75);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LocalResponseNormOptions {
    /// Factor of the mean square.
    pub alpha: f64,
    /// Exponent.
    pub beta: f64,
    /// Added to the mean square.
    pub k: f64,
}

impl Default for LocalResponseNormOptions {
    fn default() -> Self {
        Self { alpha: 1e-4, beta: 0.75, k: 1.0 }
    }
}

macro_rules! response_norm {
    ($(#[$attribute:meta])* $name:ident, |$k:ident| $printed:expr) => {
        #[derive(Clone, Copy, Module)]
        $(#[$attribute])*
        #[doc = example!(
            "let norm = ", stringify!($name), "::new(2);\n",
            "let y = norm.forward(&op::randn(&[1, 4, 3, 3], None, None, None, None)?)?;\n",
            "assert_eq!(y.size(1)?, 4);"
        )]
        pub struct $name {
            size: i64,
            #[module(skip)]
            options: LocalResponseNormOptions,
        }

        impl $name {
            /// Over `size` neighbouring channels.
            pub fn new(size: i64) -> Self {
                Self::with(size, LocalResponseNormOptions::default())
            }

            /// Over `size` neighbouring channels, with options.
            pub fn with(size: i64, options: LocalResponseNormOptions) -> Self {
                Self { size, options }
            }

            fn repr(&self) -> String {
                let LocalResponseNormOptions { alpha, beta, k: $k } = self.options;
                let k: String = $printed;
                format!("{}, alpha={}, beta={}, k={k}", self.size, alpha.repr(), beta.repr())
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                local_response_norm(input, self.size, &self.options)
            }
        }
    };
}

response_norm!(
    /// Divides each channel by a power of the mean square of its neighbours.
    #[module(repr)]
    LocalResponseNorm, |k| k.repr()
);
response_norm!(
    /// Older form of [`LocalResponseNorm`].
    #[module(name = "CrossMapLRN2d", repr)]
    CrossMapLrn2d, |k| if k.fract() == 0.0 { format!("{k:.0}") } else { k.repr() }
);

fn local_response_norm(
    input: &Tensor,
    size: i64,
    options: &LocalResponseNormOptions,
) -> Result<Tensor> {
    let rank = input.dim();
    ensure!(rank >= 3, Value, "Expected 3D or higher dimensionality input (got {rank} dimensions)");
    if input.numel() == 0 {
        return Ok(input.clone());
    }
    let sizes = input.sizes();
    let squares = op::unsqueeze(&(input * input)?, 1)?;
    let (before, after) = (size / 2, (size - 1) / 2);
    let zero = Scalar::Float(0.0);
    let mean = if rank == 3 {
        let padded = op::constant_pad_nd(&squares, &[0, 0, before, after], zero)?;
        let mean = op::avg_pool2d(&padded, &[size, 1], &[1, 1], &[0, 0], false, true, None)?;
        op::squeeze_dim(&mean, 1)?
    } else {
        let flat = op::view(&squares, &[sizes[0], 1, sizes[1], sizes[2], -1])?;
        let padded = op::constant_pad_nd(&flat, &[0, 0, 0, 0, before, after], zero)?;
        let (window, step) = ([size, 1, 1], [1; 3]);
        let mean = op::avg_pool3d(&padded, &window, &step, &[0; 3], false, true, None)?;
        op::view(&op::squeeze_dim(&mean, 1)?, &sizes)?
    };
    let scale =
        op::pow_tensor_scalar(&((mean * options.alpha)? + options.k)?, options.beta.into())?;
    op::div_tensor(input, &scale)
}
