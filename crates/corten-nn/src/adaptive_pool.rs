//! Pooling to a given size.

use crate::module::{Buffer, Forward, Module};
use crate::print::Repr;
use crate::size::Size;
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// Sizes of outputs in `N` dimensions, of which some may stay as those of the input.
///
/// ```
/// use corten::nn::OutputSize;
///
/// assert_ne!(OutputSize::<2>::from(7), OutputSize::from([Some(7), None]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputSize<const N: usize> {
    values: [Option<i64>; N],
    is_one: bool,
}

impl<const N: usize> From<i64> for OutputSize<N> {
    fn from(value: i64) -> Self {
        Self { values: [Some(value); N], is_one: true }
    }
}

impl<const N: usize> From<[i64; N]> for OutputSize<N> {
    fn from(values: [i64; N]) -> Self {
        Self { values: values.map(Some), is_one: false }
    }
}

impl<const N: usize> From<[Option<i64>; N]> for OutputSize<N> {
    fn from(values: [Option<i64>; N]) -> Self {
        Self { values, is_one: false }
    }
}

impl<const N: usize> OutputSize<N> {
    fn of(&self, input: &Tensor) -> Result<Vec<i64>> {
        let size = |(d, value): (usize, &Option<i64>)| match value {
            Some(value) => Ok(*value),
            None => input.size(d as i64 - N as i64),
        };
        self.values.iter().enumerate().map(size).collect()
    }
}

impl<const N: usize> Repr for OutputSize<N> {
    fn repr(&self) -> String {
        if self.is_one { self.values[0].repr() } else { self.values.repr() }
    }
}

macro_rules! adaptive {
    ($name:ident, $n:literal, $what:literal, $input:literal, |$x:ident, $size:ident| $call:expr) => {
        #[doc = concat!($what, " that give an output of a wished size.")]
        #[doc = example!(
                    "let pool = ", stringify!($name), "::new(3);\n",
                    "let y = pool.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                    "assert_eq!(y.size(-1)?, 3);"
                )]
        #[derive(Clone, Copy, Module)]
        #[module(repr)]
        pub struct $name {
            #[module(skip)]
            output_size: OutputSize<$n>,
        }

        impl $name {
            /// Windows for one size of all dimensions, or for one of each.
            pub fn new(output_size: impl Into<OutputSize<$n>>) -> Self {
                Self { output_size: output_size.into() }
            }

            fn repr(&self) -> String {
                format!("output_size={}", self.output_size.repr())
            }
        }

        impl Forward for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let $size = &self.output_size.of($x)?;
                $call
            }
        }
    };
}

macro_rules! adaptive_max {
    ($name:ident, $n:literal, $op:ident, $what:literal, $input:literal) => {
        adaptive!($name, $n, $what, $input, |x, size| Ok(op::$op(x, size)?.0));

        impl $name {
            /// The maxima and their flat positions.
            ///
            /// # Errors
            /// Those of the operator.
            pub fn forward_with_indices(&self, input: &Tensor) -> Result<(Tensor, Tensor)> {
                op::$op(input, &self.output_size.of(input)?)
            }
        }
    };
}

adaptive!(AdaptiveAvgPool1d, 1, "Means over windows of signals", "[1, 2, 8]", |x, size| {
    op::adaptive_avg_pool1d(x, size)
});
adaptive!(AdaptiveAvgPool2d, 2, "Means over windows of images", "[1, 2, 8, 8]", |x, size| {
    op::adaptive_avg_pool2d(x, size)
});
adaptive!(AdaptiveAvgPool3d, 3, "Means over windows of volumes", "[1, 2, 4, 4, 4]", |x, size| {
    op::adaptive_avg_pool3d(x, size)
});
adaptive_max!(
    AdaptiveMaxPool1d,
    1,
    adaptive_max_pool1d,
    "Maxima over windows of signals",
    "[1, 2, 8]"
);
adaptive_max!(
    AdaptiveMaxPool2d,
    2,
    adaptive_max_pool2d,
    "Maxima over windows of images",
    "[1, 2, 8, 8]"
);
adaptive_max!(
    AdaptiveMaxPool3d,
    3,
    adaptive_max_pool3d,
    "Maxima over windows of volumes",
    "[1, 2, 4, 4, 4]"
);

/// What a pool with windows at random places is to give.
///
/// ```
/// use corten::nn::FractionalSize;
///
/// let half = FractionalSize::<2>::Ratio([0.5, 0.5]);
/// assert_ne!(half, FractionalSize::Size([3, 3]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FractionalSize<const N: usize> {
    /// An output of this size.
    Size([i64; N]),
    /// An output of these fractions of the input's size, between 0 and 1.
    Ratio([f64; N]),
}

impl<const N: usize> FractionalSize<N> {
    fn of(&self, input: &Tensor) -> Result<Vec<i64>> {
        match self {
            Self::Size(size) => Ok(size.to_vec()),
            Self::Ratio(ratios) => (0..N)
                .map(|d| Ok((input.size(d as i64 - N as i64)? as f64 * ratios[d]) as i64))
                .collect(),
        }
    }
}

macro_rules! fractional {
    ($name:ident, $n:literal, $op:ident, $what:literal, $input:literal) => {
        #[doc = concat!("Maxima over windows of ", $what, " at random places.")]
        #[doc = example!(
            "let pool = ", stringify!($name), "::new(2, FractionalSize::Ratio([0.5; ", stringify!($n), "]))?;\n",
            "let y = pool.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
            "assert_eq!(y.size(-1)?, 4);"
        )]
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            kernel_size: [i64; $n],
            #[module(skip)]
            output: FractionalSize<$n>,
            #[module(rename = "_random_samples")]
            random_samples: Option<Buffer>,
        }

        impl $name {
            /// Windows for an output of a wished size.
            ///
            /// # Errors
            /// `Value` for ratios that are not between 0 and 1.
            pub fn new(
                kernel_size: impl Into<Size<$n>>,
                output: FractionalSize<$n>,
            ) -> Result<Self> {
                if let FractionalSize::Ratio(ratios) = &output {
                    ensure!(
                        ratios.iter().all(|ratio| 0.0 < *ratio && *ratio < 1.0),
                        Value,
                        "output_ratio must be between 0 and 1 (got {})",
                        ratios.repr()
                    );
                }
                Ok(Self { kernel_size: *kernel_size.into(), output, random_samples: None })
            }

            /// Windows at places given by numbers in [0, 1) of shape (batch, channels, dimensions).
            #[must_use]
            pub fn with_random_samples(mut self, samples: Tensor) -> Self {
                self.random_samples = Some(Buffer::new(samples));
                self
            }

            /// The maxima and their flat positions.
            ///
            /// # Errors
            /// Those of the operator.
            pub fn forward_with_indices(&self, input: &Tensor) -> Result<(Tensor, Tensor)> {
                let size = self.output.of(input)?;
                let samples = match &self.random_samples {
                    Some(samples) => (**samples).clone(),
                    None => {
                        let batch = if input.dim() == $n + 1 { 1 } else { input.size(0)? };
                        let shape = [batch, input.size(-$n - 1)?, $n];
                        let (dtype, device) = (Some(input.dtype()), Some(input.device()));
                        op::rand(&shape, dtype, None, device, None)?
                    }
                };
                op::$op(input, &self.kernel_size, &size, &samples)
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                Ok(self.forward_with_indices(input)?.0)
            }
        }
    };
}

fractional!(FractionalMaxPool2d, 2, fractional_max_pool2d, "images", "[1, 2, 8, 8]");
fractional!(FractionalMaxPool3d, 3, fractional_max_pool3d, "volumes", "[1, 2, 8, 8, 8]");
