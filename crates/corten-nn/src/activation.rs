//! Activation functions as modules.

use crate::module::{Forward, Mode, Module, Parameter};
use crate::print::Repr;
use crate::{empty, init};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// An activation without settings.
macro_rules! activation {
    ($(#[$attribute:meta])* $name:ident, |$x:ident| $call:expr) => {
        #[derive(Clone, Copy, Default, Module)]
        $(#[$attribute])*
        #[doc = example!(
            "let x = op::randn(&[1, 2, 3, 4], None, None, None, None)?;\n",
            "assert_eq!(", stringify!($name), ".forward(&x)?.sizes(), x.sizes());"
        )]
        pub struct $name;

        impl Forward for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                $call
            }
        }
    };
}

activation!(
    /// `max(0, x)`.
    #[module(name = "ReLU")]
    Relu, |x| op::relu(x)
);
activation!(
    /// `min(max(0, x), 6)`.
    #[module(name = "ReLU6")]
    Relu6, |x| op::hardtanh(x, 0.0.into(), 6.0.into())
);
activation!(
    /// ELU with the scale and slope that keep mean 0 and variance 1.
    #[module(name = "SELU")]
    Selu, |x| op::selu(x)
);
activation!(
    /// `x * sigmoid(x)`.
    #[module(name = "SiLU")]
    Silu, |x| op::silu(x)
);
activation!(
    /// `x * tanh(softplus(x))`.
    Mish, |x| op::mish(x)
);
activation!(
    /// `x * relu6(x + 3) / 6`.
    Hardswish, |x| op::hardswish(x)
);
activation!(
    /// `relu6(x + 3) / 6`.
    Hardsigmoid, |x| op::hardsigmoid(x)
);
activation!(
    /// `1 / (1 + exp(-x))`.
    Sigmoid, |x| op::sigmoid(x)
);
activation!(
    /// `log(sigmoid(x))`.
    LogSigmoid, |x| op::log_sigmoid(x)
);
activation!(
    /// Hyperbolic tangent.
    Tanh, |x| op::tanh(x)
);
activation!(
    /// `x - tanh(x)`.
    Tanhshrink, |x| op::sub_tensor(x, &op::tanh(x)?, 1.into())
);
activation!(
    /// `x / (1 + |x|)`.
    Softsign, |x| op::div_tensor(x, &(op::abs(x)? + 1.0)?)
);
activation!(
    /// Softmax over the channels of a (C, H, W) or (N, C, H, W) image.
    Softmax2d, |x| {
        let rank = x.dim();
        ensure!(
            rank == 3 || rank == 4,
            Value,
            "Softmax2d: expected input to be 3D or 4D, got {rank}D instead"
        );
        op::softmax_int(x, -3, None)
    }
);

/// Which form of [`Gelu`].
///
/// ```
/// assert_eq!(corten::nn::Approximate::default(), corten::nn::Approximate::None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approximate {
    /// The distribution function itself.
    #[default]
    None,
    /// Its approximation by a hyperbolic tangent.
    Tanh,
}

impl Approximate {
    fn name(self) -> &'static str {
        if self == Self::Tanh { "tanh" } else { "none" }
    }
}

/// `x` times the normal distribution function of it.
#[doc = example!("let x = op::zeros(&[2], None, None, None, None)?;
assert_eq!(Gelu::tanh().forward(&x)?.to_vec::<f32>()?, [0.0, 0.0]);")]
#[derive(Clone, Copy, Default, Module)]
#[module(name = "GELU", repr)]
pub struct Gelu {
    #[module(skip)]
    approximate: Approximate,
}

impl Gelu {
    /// The function itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its approximation by a hyperbolic tangent.
    pub fn tanh() -> Self {
        Self { approximate: Approximate::Tanh }
    }

    fn repr(&self) -> String {
        format!("approximate={}", self.approximate.name().repr())
    }
}

impl Forward for Gelu {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::gelu(input, self.approximate.name())
    }
}

/// An activation with numbers as settings.
macro_rules! parametric {
    (
        $(#[$attribute:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr),+ $(,)? },
        |$this:ident| $printed:expr, |$x:ident| $call:expr
    ) => {
        #[derive(Clone, Copy, Module)]
        $(#[$attribute])*
        #[doc = example!(
            "let x = op::randn(&[2, 4], None, None, None, None)?;\n",
            "assert_eq!(", stringify!($name), "::default().forward(&x)?.size(0)?, 2);"
        )]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl $name {
            /// The activation with its settings.
            pub fn new($($field: $type),+) -> Self {
                Self { $($field),+ }
            }

            fn repr(&self) -> String {
                let $this = self;
                $printed
            }
        }

        impl Default for $name {
            /// PyTorch's settings.
            fn default() -> Self {
                Self { $($field: $default),+ }
            }
        }

        impl Forward for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let $this = self;
                $call
            }
        }
    };
}

parametric!(
    /// `x` if positive, else `negative_slope * x`.
    #[module(name = "LeakyReLU", repr)]
    LeakyRelu {
        /// The factor below zero.
        negative_slope: f64 = 1e-2,
    },
    |this| format!("negative_slope={}", this.negative_slope.repr()),
    |x| op::leaky_relu(x, this.negative_slope.into())
);
parametric!(
    /// `x` if positive, else `alpha * (exp(x) - 1)`.
    #[module(name = "ELU", repr)]
    Elu {
        /// The factor below zero.
        alpha: f64 = 1.0,
    },
    |this| format!("alpha={}", this.alpha.repr()),
    |x| op::elu(x, this.alpha.into(), 1.into(), 1.into())
);
parametric!(
    /// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.
    #[module(name = "CELU", repr)]
    Celu {
        /// The factor below zero.
        alpha: f64 = 1.0,
    },
    |this| format!("alpha={}", this.alpha.repr()),
    |x| op::celu(x, this.alpha.into())
);
parametric!(
    /// `x` clamped to `[min_val, max_val]`.
    #[module(repr)]
    Hardtanh {
        /// The lower bound.
        min_val: f64 = -1.0,
        /// The upper bound.
        max_val: f64 = 1.0,
    },
    |this| format!("min_val={}, max_val={}", this.min_val.repr(), this.max_val.repr()),
    |x| {
        let Hardtanh { min_val: low, max_val: high } = *this;
        let (from, to) = (low.repr(), high.repr());
        ensure!(low < high, Value, "max_val ({to}) must be larger than min_val ({from})");
        op::hardtanh(x, low.into(), high.into())
    }
);
parametric!(
    /// `x` where its magnitude exceeds `lambd`, else 0.
    #[module(repr)]
    Hardshrink {
        /// The threshold.
        lambd: f64 = 0.5,
    },
    |this| this.lambd.repr(),
    |x| op::hardshrink(x, this.lambd.into())
);
parametric!(
    /// `x` moved towards 0 by `lambd`.
    #[module(repr)]
    Softshrink {
        /// How far.
        lambd: f64 = 0.5,
    },
    |this| this.lambd.repr(),
    |x| op::softshrink(x, this.lambd.into())
);
parametric!(
    /// `log(1 + exp(beta * x)) / beta`, linear above `threshold`.
    #[module(repr)]
    Softplus {
        /// The steepness.
        beta: f64 = 1.0,
        /// Where the linear part begins, in units of `1 / beta`.
        threshold: f64 = 20.0,
    },
    |this| format!("beta={}, threshold={}", this.beta.repr(), this.threshold.repr()),
    |x| op::softplus(x, this.beta.into(), this.threshold.into())
);
parametric!(
    /// `a * sigmoid(b)` where `a` and `b` are the halves of the input along `dim`.
    #[module(name = "GLU", repr)]
    Glu {
        /// The dimension.
        dim: i64 = -1,
    },
    |this| format!("dim={}", this.dim),
    |x| op::glu(x, this.dim)
);

/// `x` where it exceeds `threshold`, else `value`.
#[doc = example!("let x = op::zeros(&[2], None, None, None, None)?;
assert_eq!(Threshold::new(0.1, 20.0).forward(&x)?.to_vec::<f32>()?, [20.0, 20.0]);")]
#[derive(Clone, Copy, Module)]
#[module(repr)]
pub struct Threshold {
    /// What inputs are compared with.
    pub threshold: f64,
    /// What stands for those that do not exceed it.
    pub value: f64,
}

impl Threshold {
    /// The activation with its settings.
    pub fn new(threshold: f64, value: f64) -> Self {
        Self { threshold, value }
    }

    fn repr(&self) -> String {
        format!("threshold={}, value={}", self.threshold.repr(), self.value.repr())
    }
}

impl Forward for Threshold {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::threshold(input, self.threshold.into(), self.value.into())
    }
}

/// Softmaxes of one dimension.
macro_rules! softmax {
    ($(#[$attribute:meta])* $name:ident, |$x:ident, $dim:ident| $call:expr) => {
        #[derive(Clone, Copy, Module)]
        $(#[$attribute])*
        #[doc = example!(
            "let x = op::randn(&[2, 4], None, None, None, None)?;\n",
            "assert_eq!(", stringify!($name), "(-1).forward(&x)?.sizes(), x.sizes());"
        )]
        #[module(repr)]
        pub struct $name(
            /// The dimension.
            pub i64,
        );

        impl $name {
            /// Along a dimension.
            pub fn new(dim: i64) -> Self {
                Self(dim)
            }

            fn repr(&self) -> String {
                format!("dim={}", self.0)
            }
        }

        impl Forward for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let $dim = self.0;
                $call
            }
        }
    };
}

softmax!(
    /// `exp(x)` normalised to sum 1 along a dimension.
    Softmax, |x, dim| op::softmax_int(x, dim, None)
);
softmax!(
    /// `softmax(-x)`.
    Softmin, |x, dim| op::softmax_int(&op::neg(x)?, dim, None)
);
softmax!(
    /// `log(softmax(x))`.
    LogSoftmax, |x, dim| op::log_softmax_int(x, dim, None)
);

/// Leaky ReLU whose slope is drawn from `U(lower, upper)` in training.
#[doc = example!("let x = op::randn(&[4], None, None, None, None)?;
assert_eq!(RRelu::default().forward(&x)?.sizes(), x.sizes());")]
#[derive(Module)]
#[module(name = "RReLU", repr)]
pub struct RRelu {
    lower: f64,
    upper: f64,
    training: Mode,
}

impl RRelu {
    /// Slopes between two bounds.
    pub fn new(lower: f64, upper: f64) -> Self {
        Self { lower, upper, training: Mode::default() }
    }

    fn repr(&self) -> String {
        format!("lower={}, upper={}", self.lower.repr(), self.upper.repr())
    }
}

impl Default for RRelu {
    /// Slopes between 1/8 and 1/3.
    fn default() -> Self {
        Self::new(1.0 / 8.0, 1.0 / 3.0)
    }
}

impl Forward for RRelu {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let training = self.training.training();
        op::rrelu(input, self.lower.into(), self.upper.into(), training, None)
    }
}

/// Options of [`PRelu`].
///
/// ```
/// assert_eq!(corten::nn::PReluOptions::default().init, 0.25);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PReluOptions {
    /// One slope in all, or one per channel.
    pub num_parameters: i64,
    /// The first value of the slopes.
    pub init: f64,
}

impl Default for PReluOptions {
    fn default() -> Self {
        Self { num_parameters: 1, init: 0.25 }
    }
}

/// Leaky ReLU with a learned slope, one in all or one per channel.
#[doc = example!("let x = Tensor::from_vec(vec![-4.0f32, 1.0], &[2])?;
assert_eq!(PRelu::new()?.forward(&x)?.to_vec::<f32>()?, [-1.0, 1.0]);")]
#[derive(Module)]
#[module(name = "PReLU", repr)]
pub struct PRelu {
    /// The slopes.
    pub weight: Parameter,
}

impl PRelu {
    /// One slope of 0.25.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn new() -> Result<Self> {
        Self::with(PReluOptions::default())
    }

    /// Slopes with options.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn with(options: PReluOptions) -> Result<Self> {
        let weight = Parameter::new(empty(&[options.num_parameters])?)?;
        init::constant_(&weight, options.init)?;
        Ok(Self { weight })
    }

    fn repr(&self) -> String {
        format!("num_parameters={}", self.weight.numel())
    }
}

impl Forward for PRelu {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::prelu(input, &self.weight)
    }
}
