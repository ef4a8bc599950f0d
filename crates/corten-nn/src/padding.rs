//! Padding.

use crate::module::{Forward, Module};
use crate::print::Repr;
use corten_core::{Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// What stands in the padding of a convolution.
///
/// ```
/// assert_eq!(corten::nn::PaddingMode::default(), corten::nn::PaddingMode::Zeros);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingMode {
    /// Zeros.
    #[default]
    Zeros,
    /// The input, mirrored at its ends.
    Reflect,
    /// The elements at the ends.
    Replicate,
    /// The other end of the input.
    Circular,
}

impl PaddingMode {
    /// The operator's name of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zeros => "constant",
            Self::Reflect => "reflect",
            Self::Replicate => "replicate",
            Self::Circular => "circular",
        }
    }

    /// The name that convolutions have of it.
    pub(crate) fn conv_name(self) -> &'static str {
        if self == Self::Zeros { "zeros" } else { self.name() }
    }
}

/// Widths of padding of `N` dimensions: one for all sides, or (left, right, top, bottom, …).
///
/// ```
/// use corten::nn::PadWidths;
///
/// assert_eq!(PadWidths::<1>::from(2), PadWidths::<1>::from([2, 2]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PadWidths<const N: usize>([[i64; 2]; N]);

impl<const N: usize> From<i64> for PadWidths<N> {
    fn from(width: i64) -> Self {
        Self([[width; 2]; N])
    }
}

macro_rules! widths {
    ($($n:literal, [$($side:ident),+], $pairs:expr;)+) => {$(
        impl From<[i64; 2 * $n]> for PadWidths<$n> {
            fn from([$($side),+]: [i64; 2 * $n]) -> Self {
                Self($pairs)
            }
        }
    )+};
}

widths! {
    1, [left, right], [[left, right]];
    2, [left, right, top, bottom], [[left, right], [top, bottom]];
    3, [left, right, top, bottom, front, back], [[left, right], [top, bottom], [front, back]];
}

macro_rules! padding {
    ($name:ident, $n:literal, $mode:ident, $dims:literal, $with:literal, $input:literal) => {
        #[doc = concat!("Pads ", $dims, " ", $with, ".")]
        #[doc = example!(
                    "let pad = ", stringify!($name), "::new(1);\n",
                    "let y = pad.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                    "assert_eq!(y.size(-1)?, 6);"
                )]
        #[derive(Clone, Copy, Module)]
        #[module(repr)]
        pub struct $name {
            #[module(skip)]
            padding: PadWidths<$n>,
        }

        impl $name {
            /// Padding of one width, or of one for each side.
            pub fn new(padding: impl Into<PadWidths<$n>>) -> Self {
                Self { padding: padding.into() }
            }

            fn repr(&self) -> String {
                self.padding.0.as_flattened().repr()
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let mode = PaddingMode::$mode;
                check_rank(input, $n, mode)?;
                op::pad(input, self.padding.0.as_flattened(), mode.name(), None)
            }
        }
    };
}

/// The circular modes say which ranks they take; the operators check the others.
fn check_rank(input: &Tensor, spatial: usize, mode: PaddingMode) -> Result<()> {
    let rank = input.dim();
    let fits = mode != PaddingMode::Circular || rank == spatial + 1 || rank == spatial + 2;
    ensure!(fits, Value, "expected {}D or {}D input (got {rank}D input)", spatial + 1, spatial + 2);
    Ok(())
}

macro_rules! paddings {
    ($($n:literal, $zero:ident, $reflect:ident, $replicate:ident, $circular:ident, $constant:ident, $dims:literal, $input:literal;)+) => {$(
        padding!($zero, $n, Zeros, $dims, "with zeros", $input);
        padding!($reflect, $n, Reflect, $dims, "by reflection at both ends", $input);
        padding!($replicate, $n, Replicate, $dims, "with the elements at both ends", $input);
        padding!($circular, $n, Circular, $dims, "with the other end", $input);
        constant!($constant, $n, $dims, $input);
    )+};
}

macro_rules! constant {
    ($name:ident, $n:literal, $dims:literal, $input:literal) => {
        #[doc = concat!("Pads ", $dims, " with one value.")]
        #[doc = example!(
                    "let pad = ", stringify!($name), "::new(1, 3.5);\n",
                    "let y = pad.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                    "assert_eq!(y.size(-1)?, 6);"
                )]
        #[derive(Clone, Copy, Module)]
        #[module(repr)]
        pub struct $name {
            #[module(skip)]
            padding: PadWidths<$n>,
            value: f64,
        }

        impl $name {
            /// Padding of one width, or of one for each side.
            pub fn new(padding: impl Into<PadWidths<$n>>, value: f64) -> Self {
                Self { padding: padding.into(), value }
            }

            fn repr(&self) -> String {
                let widths = self.padding.0.as_flattened().repr();
                format!("padding={widths}, value={}", self.value.repr())
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let widths = self.padding.0.as_flattened();
                op::constant_pad_nd(input, widths, Scalar::Float(self.value))
            }
        }
    };
}

paddings! {
    1, ZeroPad1d, ReflectionPad1d, ReplicationPad1d, CircularPad1d, ConstantPad1d,
        "the last dimension", "[1, 2, 4]";
    2, ZeroPad2d, ReflectionPad2d, ReplicationPad2d, CircularPad2d, ConstantPad2d,
        "the last two dimensions", "[1, 2, 4, 4]";
    3, ZeroPad3d, ReflectionPad3d, ReplicationPad3d, CircularPad3d, ConstantPad3d,
        "the last three dimensions", "[1, 2, 4, 4, 4]";
}
