//! Convolutions.

use crate::module::{Module, Parameter};
use crate::{empty, init, parts};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// How a kernel of `N` spatial dimensions moves.
#[derive(Clone, Copy, Debug)]
pub struct ConvOptions<const N: usize> {
    /// Steps between windows.
    pub stride: [i64; N],
    /// Zeros added at both ends.
    pub padding: [i64; N],
    /// Steps between the elements of a window.
    pub dilation: [i64; N],
    /// Blocks of channels that do not see each other.
    pub groups: i64,
    /// Whether a bias is added.
    pub bias: bool,
}

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> Self {
        Self { stride: [1; N], padding: [0; N], dilation: [1; N], groups: 1, bias: true }
    }
}

/// Options of [`Conv2d`].
pub type Conv2dOptions = ConvOptions<2>;

type Weights = (Parameter, Option<Parameter>);

fn weights<const N: usize>(
    inputs: i64,
    outputs: i64,
    kernel: [i64; N],
    options: &ConvOptions<N>,
) -> Result<Weights> {
    let groups = options.groups;
    ensure!(groups > 0, Value, "groups must be a positive integer");
    ensure!(inputs % groups == 0, Value, "in_channels must be divisible by groups");
    ensure!(outputs % groups == 0, Value, "out_channels must be divisible by groups");
    let mut shape = vec![outputs, inputs / groups];
    shape.extend(kernel);
    let weight = Parameter::new(empty(&shape)?)?;
    let bias = options.bias.then(|| Parameter::new(empty(&[outputs])?)).transpose()?;
    init::weight_and_bias(&weight, bias.as_deref())?;
    Ok((weight, bias))
}

macro_rules! convolution {
    ($(#[$doc:meta])* $name:ident, $n:literal, $op:ident) => {
        $(#[$doc])*
        pub struct $name {
            /// Shape (out, in / groups, kernel…).
            pub weight: Parameter,
            /// Shape (out).
            pub bias: Option<Parameter>,
            options: ConvOptions<$n>,
        }

        impl $name {
            /// A convolution with stride 1, no padding and a bias.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn new(inputs: i64, outputs: i64, kernel: [i64; $n]) -> Result<Self> {
                Self::with(inputs, outputs, kernel, ConvOptions::default())
            }

            /// A convolution with options.
            ///
            /// # Errors
            /// `Value` when the groups do not divide the channels.
            pub fn with(
                inputs: i64,
                outputs: i64,
                kernel: [i64; $n],
                options: ConvOptions<$n>,
            ) -> Result<Self> {
                let (weight, bias) = weights(inputs, outputs, kernel, &options)?;
                Ok(Self { weight, bias, options })
            }
        }

        impl Module for $name {
            parts!(weight, bias);

            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let ConvOptions { stride, padding, dilation, groups, .. } = &self.options;
                let bias = self.bias.as_deref();
                op::$op(input, &self.weight, bias, stride, padding, dilation, *groups)
            }
        }
    };
}

convolution!(
    /// Cross-correlation of (N, C, L) signals with learned kernels.
    Conv1d, 1, conv1d
);
convolution!(
    /// Cross-correlation of (N, C, H, W) images with learned kernels.
    Conv2d, 2, conv2d
);
