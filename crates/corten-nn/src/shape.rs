//! Rearranging tensors: flattening, windows as columns, channels and pixels.

use crate::module::{Forward, Module};
use crate::print::Repr;
use crate::size::Size;
use corten_core::Result;
use corten_ops::{Tensor, op};

/// Joins the dimensions from `start_dim` to `end_dim`.
#[doc = example!("let x = op::ones(&[2, 3, 4], None, None, None, None)?;
assert_eq!(Flatten::default().forward(&x)?.sizes().as_slice(), [2, 12]);")]
#[derive(Clone, Copy, Module)]
#[module(repr)]
pub struct Flatten {
    /// First dimension joined.
    pub start_dim: i64,
    /// Last dimension joined.
    pub end_dim: i64,
}

impl Flatten {
    /// All dimensions but the batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// The dimensions between two.
    pub fn with(start_dim: i64, end_dim: i64) -> Self {
        Self { start_dim, end_dim }
    }

    fn repr(&self) -> String {
        format!("start_dim={}, end_dim={}", self.start_dim, self.end_dim)
    }
}

impl Default for Flatten {
    /// All but the batch.
    fn default() -> Self {
        Self { start_dim: 1, end_dim: -1 }
    }
}

impl Forward for Flatten {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::flatten_using_ints(input, self.start_dim, self.end_dim)
    }
}

/// Splits a dimension into several.
#[doc = example!("let x = op::ones(&[2, 12], None, None, None, None)?;
assert_eq!(Unflatten::new(1, &[3, 4]).forward(&x)?.sizes().as_slice(), [2, 3, 4]);")]
#[derive(Clone, Module)]
#[module(repr)]
pub struct Unflatten {
    dim: i64,
    unflattened_size: Vec<i64>,
}

impl Unflatten {
    /// Splits `dim` into dimensions of the given sizes, of which one may be −1.
    pub fn new(dim: i64, unflattened_size: &[i64]) -> Self {
        Self { dim, unflattened_size: unflattened_size.to_vec() }
    }

    fn repr(&self) -> String {
        format!("dim={}, unflattened_size={}", self.dim, self.unflattened_size.repr())
    }
}

impl Forward for Unflatten {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::unflatten_int(input, self.dim, &self.unflattened_size)
    }
}

/// How the windows of [`Fold`] and [`Unfold`] move.
///
/// ```
/// assert_eq!(*corten::nn::FoldOptions::default().stride, [1, 1]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FoldOptions {
    /// Steps between the elements of a window.
    pub dilation: Size<2>,
    /// Zeros added at both ends.
    pub padding: Size<2>,
    /// Steps between windows.
    pub stride: Size<2>,
}

impl Default for FoldOptions {
    fn default() -> Self {
        Self { dilation: 1.into(), padding: 0.into(), stride: 1.into() }
    }
}

impl FoldOptions {
    fn repr(&self, kernel_size: Size<2>) -> String {
        let Self { dilation, padding, stride } = self;
        format!(
            "kernel_size={}, dilation={}, padding={}, stride={}",
            kernel_size.repr(),
            dilation.repr(),
            padding.repr(),
            stride.repr()
        )
    }
}

/// Sliding windows of an image as columns.
#[doc = example!("let x = op::ones(&[1, 2, 4, 4], None, None, None, None)?;
assert_eq!(Unfold::new(2).forward(&x)?.sizes().as_slice(), [1, 8, 9]);")]
#[derive(Clone, Copy, Module)]
#[module(repr)]
pub struct Unfold {
    #[module(skip)]
    kernel_size: Size<2>,
    #[module(skip)]
    options: FoldOptions,
}

impl Unfold {
    /// Windows at all places.
    pub fn new(kernel_size: impl Into<Size<2>>) -> Self {
        Self::with(kernel_size, FoldOptions::default())
    }

    /// Windows with options.
    pub fn with(kernel_size: impl Into<Size<2>>, options: FoldOptions) -> Self {
        Self { kernel_size: kernel_size.into(), options }
    }

    fn repr(&self) -> String {
        self.options.repr(self.kernel_size)
    }
}

impl Forward for Unfold {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let FoldOptions { dilation, padding, stride } = &self.options;
        op::im2col(input, &*self.kernel_size, &**dilation, &**padding, &**stride)
    }
}

/// Sums columns of windows into an image: the adjoint of [`Unfold`].
#[doc = example!("let x = op::ones(&[1, 8, 9], None, None, None, None)?;
assert_eq!(Fold::new(4, 2).forward(&x)?.sizes().as_slice(), [1, 2, 4, 4]);")]
#[derive(Clone, Copy, Module)]
#[module(repr)]
pub struct Fold {
    #[module(skip)]
    output_size: Size<2>,
    #[module(skip)]
    kernel_size: Size<2>,
    #[module(skip)]
    options: FoldOptions,
}

impl Fold {
    /// Windows at all places of an image of `output_size`.
    pub fn new(output_size: impl Into<Size<2>>, kernel_size: impl Into<Size<2>>) -> Self {
        Self::with(output_size, kernel_size, FoldOptions::default())
    }

    /// Windows with options.
    pub fn with(
        output_size: impl Into<Size<2>>,
        kernel_size: impl Into<Size<2>>,
        options: FoldOptions,
    ) -> Self {
        Self { output_size: output_size.into(), kernel_size: kernel_size.into(), options }
    }

    fn repr(&self) -> String {
        let windows = self.options.repr(self.kernel_size);
        format!("output_size={}, {windows}", self.output_size.repr())
    }
}

impl Forward for Fold {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let FoldOptions { dilation, padding, stride } = &self.options;
        let (output, kernel) = (&*self.output_size, &*self.kernel_size);
        op::col2im(input, output, kernel, &**dilation, &**padding, &**stride)
    }
}

/// A module of one number.
macro_rules! rearrangement {
    ($(#[$attribute:meta])* $name:ident, $setting:ident, $op:ident, $sizes:literal, $expected:literal) => {
        #[derive(Clone, Copy, Module)]
        $(#[$attribute])*
        #[doc = example!(
            "let x = op::ones(&", $sizes, ", None, None, None, None)?;\n",
            "assert_eq!(", stringify!($name), "::new(2).forward(&x)?.sizes().as_slice(), ", $expected, ");"
        )]
        #[module(repr)]
        pub struct $name {
            $setting: i64,
        }

        impl $name {
            /// The module with its number.
            pub fn new($setting: i64) -> Self {
                Self { $setting }
            }

            fn repr(&self) -> String {
                format!(concat!(stringify!($setting), "={}"), self.$setting)
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                op::$op(input, self.$setting)
            }
        }
    };
}

rearrangement!(
    /// Channels to a finer image.
    PixelShuffle, upscale_factor, pixel_shuffle, "[1, 8, 2, 2]", "[1, 2, 4, 4]"
);
rearrangement!(
    /// An image to more channels of a coarser one.
    PixelUnshuffle, downscale_factor, pixel_unshuffle, "[1, 2, 4, 4]", "[1, 8, 2, 2]"
);
rearrangement!(
    /// Interleaves the channels of groups.
    ChannelShuffle, groups, channel_shuffle, "[1, 4, 2, 2]", "[1, 4, 2, 2]"
);
