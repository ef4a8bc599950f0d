//! Activation functions as modules.

use crate::module::Module;
use crate::parts;
use corten_core::Result;
use corten_ops::{Tensor, op};

macro_rules! activation {
    ($(#[$doc:meta])* $name:ident, |$x:ident| $call:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl Module for $name {
            parts!();

            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                $call
            }
        }
    };
}

activation!(
    /// `max(0, x)`.
    Relu, |x| op::relu(x)
);
activation!(
    /// `x` times the normal distribution function of it.
    Gelu, |x| op::gelu(x, "none")
);
activation!(
    /// `x * sigmoid(x)`.
    Silu, |x| op::silu(x)
);
activation!(
    /// `1 / (1 + exp(-x))`.
    Sigmoid, |x| op::sigmoid(x)
);
activation!(
    /// Hyperbolic tangent.
    Tanh, |x| op::tanh(x)
);

/// `x` if positive, else `slope * x`.
#[derive(Clone, Copy, Debug)]
pub struct LeakyRelu(pub f64);

impl Module for LeakyRelu {
    parts!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::leaky_relu(input, self.0.into())
    }
}

/// `exp(x)` normalised to sum 1 along a dimension.
#[derive(Clone, Copy, Debug)]
pub struct Softmax(pub i64);

impl Module for Softmax {
    parts!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::softmax_int(input, self.0, None)
    }
}

/// `log(softmax(x))`.
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmax(pub i64);

impl Module for LogSoftmax {
    parts!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::log_softmax_int(input, self.0, None)
    }
}
