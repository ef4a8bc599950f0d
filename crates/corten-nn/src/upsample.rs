//! Resampling.

use crate::module::{Forward, Module};
use crate::print::Repr;
use corten_core::{Result, bail, ensure};
use corten_ops::{Tensor, op};

/// How elements between those of the input are made.
///
/// ```
/// assert_eq!(corten::nn::Interpolation::default(), corten::nn::Interpolation::Nearest);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// The nearest element, by PyTorch's older rule.
    #[default]
    Nearest,
    /// The nearest element.
    NearestExact,
    /// Linear, of signals.
    Linear,
    /// Linear in both dimensions of images.
    Bilinear,
    /// Linear in the three dimensions of volumes.
    Trilinear,
    /// Cubic, of images.
    Bicubic,
    /// The mean of the area that an element covers.
    Area,
}

impl Interpolation {
    fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::NearestExact => "nearest-exact",
            Self::Linear => "linear",
            Self::Bilinear => "bilinear",
            Self::Trilinear => "trilinear",
            Self::Bicubic => "bicubic",
            Self::Area => "area",
        }
    }

    fn is_alignable(self) -> bool {
        matches!(self, Self::Linear | Self::Bilinear | Self::Trilinear | Self::Bicubic)
    }
}

/// What an image is resized to: a number or a list, for one or each dimension.
///
/// ```
/// use corten::nn::Resize;
///
/// assert_ne!(Resize::scale(2.0), Resize::sizes(&[4, 4]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Resize {
    /// A size of all dimensions.
    Size(i64),
    /// A size of each dimension.
    Sizes(Vec<i64>),
    /// A factor of all dimensions.
    Scale(f64),
    /// A factor of each dimension.
    Scales(Vec<f64>),
}

impl Resize {
    /// A size of all dimensions.
    pub fn size(size: i64) -> Self {
        Self::Size(size)
    }

    /// A size of each dimension.
    pub fn sizes(sizes: &[i64]) -> Self {
        Self::Sizes(sizes.to_vec())
    }

    /// A factor of all dimensions.
    pub fn scale(factor: f64) -> Self {
        Self::Scale(factor)
    }

    /// A factor of each dimension.
    pub fn scales(factors: &[f64]) -> Self {
        Self::Scales(factors.to_vec())
    }

    /// The sizes of the output, and the factors where they were given.
    fn of(&self, input: &Tensor) -> Result<(Vec<i64>, Option<Vec<f64>>)> {
        let spatial = &input.sizes()[2..];
        let count = spatial.len();
        let factors = match self {
            // Bounded: a size for each dimension.
            Self::Size(size) => return Ok((vec![*size; count], None)),
            Self::Sizes(sizes) => {
                ensure!(
                    sizes.len() == count,
                    Value,
                    "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of {spatial:?} and output size of {sizes:?}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
                );
                return Ok((sizes.clone(), None));
            }
            // Bounded: a factor for each dimension.
            Self::Scale(factor) => vec![*factor; count],
            Self::Scales(factors) => factors.clone(),
        };
        ensure!(
            factors.len() == count,
            Value,
            "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of {spatial:?} and scale_factor of shape {factors:?}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
        );
        let sizes = spatial.iter().zip(&factors).map(|(n, factor)| (*n as f64 * factor) as i64);
        Ok((sizes.collect(), Some(factors)))
    }

    fn repr(&self) -> String {
        match self {
            Self::Size(size) => format!("size={size}"),
            Self::Sizes(sizes) => format!("size={}", sizes.repr()),
            Self::Scale(factor) => format!("scale_factor={}", factor.repr()),
            Self::Scales(factors) => format!("scale_factor={}", factors.repr()),
        }
    }
}

/// Options of [`Upsample`] and [`interpolate`].
///
/// ```
/// assert!(!corten::nn::UpsampleOptions::default().align_corners);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct UpsampleOptions {
    /// How elements between those of the input are made.
    pub mode: Interpolation,
    /// Whether the corners of both images are the same points.
    pub align_corners: bool,
    /// Whether factors are computed anew from the sizes.
    pub recompute_scale_factor: bool,
}

/// Resizes an (N, C, …) input.
#[doc = example!("let x = op::ones(&[1, 2, 3, 3], None, None, None, None)?;
let up = Upsample::new(Resize::scale(2.0));
assert_eq!(up.forward(&x)?.sizes().as_slice(), [1, 2, 6, 6]);")]
#[derive(Clone, Module)]
#[module(repr)]
pub struct Upsample {
    #[module(skip)]
    resize: Resize,
    #[module(skip)]
    options: UpsampleOptions,
}

impl Upsample {
    /// Resizing by nearest elements.
    pub fn new(resize: Resize) -> Self {
        Self::with(resize, UpsampleOptions::default())
    }

    /// Resizing with options.
    pub fn with(resize: Resize, options: UpsampleOptions) -> Self {
        Self { resize, options }
    }

    fn repr(&self) -> String {
        format!("{}, mode={}", self.resize.repr(), self.options.mode.name().repr())
    }
}

impl Forward for Upsample {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        interpolate(input, &self.resize, &self.options)
    }
}

macro_rules! upsampling {
    ($(#[$attribute:meta])* $name:ident, $mode:ident, $align:literal) => {
        #[derive(Clone, Module)]
        $(#[$attribute])*
        #[doc = example!(
            "let x = op::ones(&[1, 2, 3, 3], None, None, None, None)?;\n",
            "assert_eq!(", stringify!($name), "::new(Resize::scale(2.0)).forward(&x)?.size(-1)?, 6);"
        )]
        #[module(repr)]
        pub struct $name {
            #[module(skip)]
            inner: Upsample,
        }

        impl $name {
            /// Resizing to a size or by a factor.
            pub fn new(resize: Resize) -> Self {
                let (mode, align_corners) = (Interpolation::$mode, $align);
                let options = UpsampleOptions { mode, align_corners, ..Default::default() };
                Self { inner: Upsample::with(resize, options) }
            }

            fn repr(&self) -> String {
                self.inner.repr()
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                self.inner.forward(input)
            }
        }
    };
}

upsampling!(
    /// Resizes images by taking nearest neighbours.
    UpsamplingNearest2d, Nearest, false
);
upsampling!(
    /// Resizes images by linear interpolation with aligned corners.
    UpsamplingBilinear2d, Bilinear, true
);

/// Resizes an (N, C, …) input.
///
/// # Errors
/// `Value` for options that do not go together, `NotImplemented` for a mode of other dimensions.
#[doc = example!("let x = op::ones(&[1, 2, 4], None, None, None, None)?;
let half = interpolate(&x, &Resize::size(2), &UpsampleOptions::default())?;
assert_eq!(half.sizes().as_slice(), [1, 2, 2]);")]
pub fn interpolate(input: &Tensor, resize: &Resize, options: &UpsampleOptions) -> Result<Tensor> {
    let UpsampleOptions { mode, align_corners, recompute_scale_factor } = *options;
    let rank = input.dim();
    ensure!(
        !align_corners || mode.is_alignable(),
        Value,
        "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear | lanczos"
    );
    ensure!((3..=5).contains(&rank), NotImplemented, "{}", refusal(rank, mode));
    let (sizes, factors) = resize.of(input)?;
    ensure!(
        !recompute_scale_factor || factors.is_some(),
        Value,
        "recompute_scale_factor is not meaningful with an explicit size."
    );
    let factors = factors.filter(|_| !recompute_scale_factor);
    let factor = |d: usize| factors.as_ref().map(|factors| factors[d]);
    use Interpolation as I;
    match (mode, rank) {
        (I::Nearest, 3) => op::upsample_nearest1d(input, &sizes, factor(0)),
        (I::Nearest, 4) => op::upsample_nearest2d(input, &sizes, factor(0), factor(1)),
        (I::Nearest, _) => op::upsample_nearest3d(input, &sizes, factor(0), factor(1), factor(2)),
        (I::NearestExact, 3) => op::_upsample_nearest_exact1d(input, &sizes, factor(0)),
        (I::NearestExact, 4) => op::_upsample_nearest_exact2d(input, &sizes, factor(0), factor(1)),
        (I::NearestExact, _) => {
            op::_upsample_nearest_exact3d(input, &sizes, factor(0), factor(1), factor(2))
        }
        (I::Linear, 3) => op::upsample_linear1d(input, &sizes, align_corners, factor(0)),
        (I::Bilinear, 4) => {
            op::upsample_bilinear2d(input, &sizes, align_corners, factor(0), factor(1))
        }
        (I::Bicubic, 4) => {
            op::upsample_bicubic2d(input, &sizes, align_corners, factor(0), factor(1))
        }
        (I::Trilinear, 5) => {
            let (depth, height, width) = (factor(0), factor(1), factor(2));
            op::upsample_trilinear3d(input, &sizes, align_corners, depth, height, width)
        }
        (I::Area, 3) => op::adaptive_avg_pool1d(input, &sizes),
        (I::Area, 4) => op::adaptive_avg_pool2d(input, &sizes),
        (I::Area, _) => op::adaptive_avg_pool3d(input, &sizes),
        _ => bail!(NotImplemented, "{}", refusal(rank, mode)),
    }
}

fn refusal(rank: usize, mode: Interpolation) -> String {
    let needed = match mode {
        Interpolation::Linear => 3,
        Interpolation::Bilinear => 4,
        Interpolation::Trilinear => 5,
        _ => 0,
    };
    let name = mode.name();
    if needed > 0 && (3..=5).contains(&rank) {
        return format!("Got {rank}D input, but {name} mode needs {needed}D input");
    }
    format!(
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got {name})"
    )
}
