//! Normalisation.

use crate::module::{Buffer, Mode, Module, Parameter};
use crate::{ones, parts, zeros};
use corten_autograd::no_grad;
use corten_core::{DType, Result, ensure};
use corten_ops::{Tensor, op};

const EPS: f64 = 1e-5;

/// Scale 1 and shift 0 of a shape.
fn scale_and_shift(shape: &[i64]) -> Result<(Parameter, Parameter)> {
    Ok((Parameter::new(ones(shape)?)?, Parameter::new(zeros(shape)?)?))
}

macro_rules! batch_norm {
    ($(#[$doc:meta])* $name:ident, $ranks:expr, $expected:literal) => {
        $(#[$doc])*
        pub struct $name {
            /// Scale of each channel.
            pub weight: Parameter,
            /// Shift of each channel.
            pub bias: Parameter,
            /// Running mean of each channel.
            pub running_mean: Buffer,
            /// Running variance of each channel.
            pub running_var: Buffer,
            /// How many batches were seen.
            pub num_batches_tracked: Buffer,
            /// How much a batch moves the running statistics.
            pub momentum: f64,
            /// Added to variances.
            pub eps: f64,
            training: Mode,
        }

        impl $name {
            /// Statistics and an affine map for `channels` channels.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn new(channels: i64) -> Result<Self> {
                let (weight, bias) = scale_and_shift(&[channels])?;
                let count = op::zeros(&[], Some(DType::Int64), None, None, None)?;
                Ok(Self {
                    weight,
                    bias,
                    running_mean: Buffer::new(zeros(&[channels])?),
                    running_var: Buffer::new(ones(&[channels])?),
                    num_batches_tracked: Buffer::new(count),
                    momentum: 0.1,
                    eps: EPS,
                    training: Mode::default(),
                })
            }
        }

        impl Module for $name {
            parts!(weight, bias, running_mean, running_var, num_batches_tracked, training);

            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let rank = input.dim();
                ensure!(
                    $ranks.contains(&rank),
                    Value,
                    concat!("expected ", $expected, " input (got {}D input)"),
                    rank
                );
                let training = self.training.training();
                if training {
                    no_grad(|| op::add__scalar(&self.num_batches_tracked, 1.into(), 1.into()))?;
                }
                op::batch_norm(
                    input,
                    Some(&self.weight),
                    Some(&self.bias),
                    Some(&self.running_mean),
                    Some(&self.running_var),
                    training,
                    self.momentum,
                    self.eps,
                    true,
                )
            }
        }
    };
}

batch_norm!(
    /// Batch normalisation of (N, C) or (N, C, L) inputs.
    BatchNorm1d, [2, 3], "2D or 3D"
);
batch_norm!(
    /// Batch normalisation of (N, C, H, W) inputs.
    BatchNorm2d, [4], "4D"
);

/// Normalises over the last dimensions.
pub struct LayerNorm {
    /// Scale.
    pub weight: Parameter,
    /// Shift.
    pub bias: Option<Parameter>,
    shape: Vec<i64>,
    /// Added to variances.
    pub eps: f64,
}

impl LayerNorm {
    /// Normalises over dimensions of the given shape.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn new(shape: &[i64]) -> Result<Self> {
        let (weight, bias) = scale_and_shift(shape)?;
        Ok(Self { weight, bias: Some(bias), shape: shape.to_vec(), eps: EPS })
    }
}

impl Module for LayerNorm {
    parts!(weight, bias);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_deref();
        op::layer_norm(input, &self.shape, Some(&self.weight), bias, self.eps, true)
    }
}

/// Divides by the root of the mean square over the last dimensions.
pub struct RmsNorm {
    /// Scale.
    pub weight: Parameter,
    shape: Vec<i64>,
    /// Added to mean squares; the dtype's own epsilon if absent.
    pub eps: Option<f64>,
}

impl RmsNorm {
    /// Normalises over dimensions of the given shape.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn new(shape: &[i64]) -> Result<Self> {
        Ok(Self { weight: Parameter::new(ones(shape)?)?, shape: shape.to_vec(), eps: None })
    }
}

impl Module for RmsNorm {
    parts!(weight);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::rms_norm(input, &self.shape, Some(&self.weight), self.eps)
    }
}

/// Normalises groups of channels of each sample.
pub struct GroupNorm {
    /// Scale of each channel.
    pub weight: Parameter,
    /// Shift of each channel.
    pub bias: Parameter,
    groups: i64,
    /// Added to variances.
    pub eps: f64,
}

impl GroupNorm {
    /// `groups` groups of `channels` channels in all.
    ///
    /// # Errors
    /// `Value` when the groups do not divide the channels.
    pub fn new(groups: i64, channels: i64) -> Result<Self> {
        ensure!(
            groups > 0 && channels % groups == 0,
            Value,
            "num_channels ({channels}) must be divisible by num_groups ({groups})"
        );
        let (weight, bias) = scale_and_shift(&[channels])?;
        Ok(Self { weight, bias, groups, eps: EPS })
    }
}

impl Module for GroupNorm {
    parts!(weight, bias);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::group_norm(input, self.groups, Some(&self.weight), Some(&self.bias), self.eps, true)
    }
}
