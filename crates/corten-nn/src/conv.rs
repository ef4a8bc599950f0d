//! Convolutions and their adjoints.

use crate::hooks::Hooks;
use crate::lazy::{Lazy, Shapes, lazy_module};
use crate::module::{Forward, Module, Parameter};
use crate::padding::PaddingMode;
use crate::parametrize::Weighted;
use crate::print::Repr;
use crate::size::Size;
use crate::{empty, init};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// What a convolution adds at both ends of each dimension.
///
/// ```
/// use corten::nn::ConvPadding;
///
/// assert_eq!(ConvPadding::<2>::from(1), ConvPadding::Explicit([1, 1]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvPadding<const N: usize> {
    /// So many elements.
    Explicit([i64; N]),
    /// As many as keep the size: `padding="same"`.
    Same,
    /// None: `padding="valid"`.
    Valid,
}

impl<const N: usize> From<i64> for ConvPadding<N> {
    fn from(width: i64) -> Self {
        Self::Explicit([width; N])
    }
}

impl<const N: usize> From<[i64; N]> for ConvPadding<N> {
    fn from(widths: [i64; N]) -> Self {
        Self::Explicit(widths)
    }
}

/// How a kernel of `N` spatial dimensions moves.
///
/// ```
/// use corten::nn::ConvOptions;
///
/// let options = ConvOptions::<2> { stride: 2.into(), padding: 1.into(), ..Default::default() };
/// assert_eq!(*options.stride, [2, 2]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ConvOptions<const N: usize> {
    /// Steps between windows.
    pub stride: Size<N>,
    /// What is added at both ends.
    pub padding: ConvPadding<N>,
    /// Steps between the elements of a window.
    pub dilation: Size<N>,
    /// Blocks of channels that do not see each other.
    pub groups: i64,
    /// Whether a bias is added.
    pub bias: bool,
    /// What stands in the padding.
    pub padding_mode: PaddingMode,
}

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> Self {
        Self {
            stride: 1.into(),
            padding: 0.into(),
            dilation: 1.into(),
            groups: 1,
            bias: true,
            padding_mode: PaddingMode::Zeros,
        }
    }
}

/// Options of [`Conv1d`].
pub type Conv1dOptions = ConvOptions<1>;
/// Options of [`Conv2d`].
pub type Conv2dOptions = ConvOptions<2>;
/// Options of [`Conv3d`].
pub type Conv3dOptions = ConvOptions<3>;

impl<const N: usize> ConvOptions<N> {
    fn check(&self) -> Result<()> {
        let is_strided = self.stride.iter().any(|stride| *stride != 1);
        ensure!(
            self.padding != ConvPadding::Same || !is_strided,
            Value,
            "padding='same' is not supported for strided convolutions"
        );
        Ok(())
    }

    /// The widths of padding that is not of zeros: (left, right) of the last dimension first.
    fn pad_widths(&self, kernel: &[i64; N]) -> Vec<i64> {
        let of = |d: usize| match self.padding {
            ConvPadding::Explicit(widths) => [widths[d]; 2],
            ConvPadding::Valid => [0; 2],
            ConvPadding::Same => {
                let total = self.dilation[d] * (kernel[d] - 1);
                [total / 2, total - total / 2]
            }
        };
        (0..N).rev().flat_map(of).collect()
    }
}

/// What is printed of a convolution.
struct Shown<'a, const N: usize> {
    channels: (i64, i64),
    kernel: [i64; N],
    stride: &'a [i64; N],
    padding: ConvPadding<N>,
    dilation: &'a [i64; N],
    output_padding: [i64; N],
    groups: i64,
    bias: bool,
    mode: PaddingMode,
}

impl<const N: usize> Shown<'_, N> {
    fn text(&self) -> String {
        let (inputs, outputs) = self.channels;
        let (kernel, stride) = (self.kernel.repr(), self.stride.repr());
        let mut text = format!("{inputs}, {outputs}, kernel_size={kernel}, stride={stride}");
        let mut add = |is_shown: bool, part: String| {
            if is_shown {
                text.push_str(&part);
            }
        };
        let padding = match self.padding {
            ConvPadding::Explicit(widths) => widths.repr(),
            ConvPadding::Same => "same".to_owned(),
            ConvPadding::Valid => "valid".to_owned(),
        };
        add(self.padding != ConvPadding::Explicit([0; N]), format!(", padding={padding}"));
        add(*self.dilation != [1; N], format!(", dilation={}", self.dilation.repr()));
        let extra = self.output_padding;
        add(extra != [0; N], format!(", output_padding={}", extra.repr()));
        add(self.groups != 1, format!(", groups={}", self.groups));
        add(!self.bias, ", bias=False".to_owned());
        let mode = self.mode;
        add(mode != PaddingMode::Zeros, format!(", padding_mode={}", mode.conv_name()));
        text
    }
}

type Weights = (Parameter, Option<Parameter>);

/// Weight (first, second / groups, kernel…) and bias of `outputs`.
fn weights(
    inputs: i64,
    outputs: i64,
    kernel: &[i64],
    groups: i64,
    bias: bool,
    is_transposed: bool,
) -> Result<Weights> {
    ensure!(groups > 0, Value, "groups must be a positive integer");
    ensure!(inputs % groups == 0, Value, "in_channels must be divisible by groups");
    ensure!(outputs % groups == 0, Value, "out_channels must be divisible by groups");
    let (first, second) = if is_transposed { (inputs, outputs) } else { (outputs, inputs) };
    let mut shape = vec![first, second / groups];
    shape.extend(kernel);
    let weight = Parameter::new(empty(&shape)?)?;
    let bias = bias.then(|| Parameter::new(empty(&[outputs])?)).transpose()?;
    init::weight_and_bias(&weight, bias.as_deref())?;
    Ok((weight, bias))
}

/// The number of channels of an input with or without a batch.
fn channels<const N: usize>(input: &Tensor) -> Result<i64> {
    let rank = input.dim();
    ensure!(
        rank == N + 1 || rank == N + 2,
        Runtime,
        "Expected {}D (unbatched) or {}D (batched) input to a lazy convolution, but got input of size: {:?}",
        N + 1,
        N + 2,
        input.sizes().as_slice()
    );
    input.size(-(N as i64) - 1)
}

fn weight_size(shapes: Shapes<'_>, dim: usize) -> Option<i64> {
    shapes("weight").and_then(|shape| shape.get(dim).copied())
}

macro_rules! convolution {
    ($name:ident, $lazy:ident, $n:literal, $op:ident, $named:ident, $what:literal, $input:literal) => {
        #[doc = concat!("Cross-correlation of ", $what, " with learned kernels.")]
        #[doc = example!(
            "let conv = ", stringify!($name), "::new(2, 4, 3)?;\n",
            "let y = conv.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
            "assert_eq!(y.size(1)?, 4);"
        )]
        #[derive(Module)]
        #[module(repr)]
        pub struct $name {
            /// Shape (out, in / groups, kernel…).
            pub weight: Parameter,
            /// Shape (out).
            pub bias: Option<Parameter>,
            #[module(skip)]
            kernel_size: [i64; $n],
            #[module(skip)]
            options: ConvOptions<$n>,
            hooks: Hooks,
        }

        impl $name {
            /// A convolution with stride 1, no padding and a bias.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn new(
                in_channels: i64,
                out_channels: i64,
                kernel_size: impl Into<Size<$n>>,
            ) -> Result<Self> {
                Self::with(in_channels, out_channels, kernel_size, ConvOptions::default())
            }

            /// A convolution with options.
            ///
            /// # Errors
            /// `Value` when the groups do not divide the channels.
            pub fn with(
                in_channels: i64,
                out_channels: i64,
                kernel_size: impl Into<Size<$n>>,
                options: ConvOptions<$n>,
            ) -> Result<Self> {
                let ConvOptions { groups, bias, .. } = options;
                let kernel_size = *kernel_size.into();
                options.check()?;
                let (weight, bias) =
                    weights(in_channels, out_channels, &kernel_size, groups, bias, false)?;
                Ok(Self { weight, bias, kernel_size, options, hooks: Hooks::default() })
            }

            /// Draws weight and bias anew.
            ///
            /// # Errors
            /// Those of the operators.
            pub fn reset_parameters(&self) -> Result<()> {
                init::weight_and_bias(&self.weight, self.bias.as_deref())
            }

            fn repr(&self) -> String {
                let sizes = self.weight.sizes();
                Self::text((sizes[1] * self.options.groups, sizes[0]), self.kernel_size, &self.options)
            }

            fn text(channels: (i64, i64), kernel: [i64; $n], options: &ConvOptions<$n>) -> String {
                let ConvOptions { stride, padding, dilation, groups, bias, padding_mode } = options;
                let (output_padding, mode) = ([0; $n], *padding_mode);
                let (padding, groups, bias) = (*padding, *groups, *bias);
                Shown { channels, kernel, stride, padding, dilation, output_padding, groups, bias, mode }
                    .text()
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                self.forward_with(input, &self.weight)
            }
        }

        impl Weighted for $name {
            const PARAMETRIZED: &'static str = concat!("Parametrized", stringify!($name));
            const OUTPUT_DIM: usize = 0;

            fn weight(&self) -> &Parameter {
                &self.weight
            }

            fn forward_with(&self, input: &Tensor, weight: &Tensor) -> Result<Tensor> {
                let ConvOptions { stride, padding, dilation, groups, padding_mode, .. } = &self.options;
                let bias = self.bias.as_deref();
                if *padding_mode != PaddingMode::Zeros {
                    let widths = self.options.pad_widths(&self.kernel_size);
                    let input = op::pad(input, &widths, padding_mode.name(), None)?;
                    return op::$op(&input, weight, bias, &**stride, &[0; $n], &**dilation, *groups);
                }
                let name = match padding {
                    ConvPadding::Explicit(widths) => {
                        return op::$op(input, weight, bias, &**stride, widths, &**dilation, *groups);
                    }
                    ConvPadding::Same => "same",
                    ConvPadding::Valid => "valid",
                };
                op::$named(input, weight, bias, &**stride, name, &**dilation, *groups)
            }
        }

        lazy_module!(
            #[doc = concat!("A [`", stringify!($name), "`] that takes `in_channels` from its first input.")]
            #[doc = example!(
                "let conv = ", stringify!($lazy), "::new(4, 3);\n",
                "conv.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                "assert!(conv.to_string().starts_with(\"", stringify!($name), "(2, 4\"));"
            )]
            $lazy => $name
        );

        impl $lazy {
            /// A convolution with stride 1, no padding and a bias.
            pub fn new(out_channels: i64, kernel_size: impl Into<Size<$n>>) -> Self {
                Self::with(out_channels, kernel_size, ConvOptions::default())
            }

            /// A convolution with options.
            pub fn with(
                out_channels: i64,
                kernel_size: impl Into<Size<$n>>,
                options: ConvOptions<$n>,
            ) -> Self {
                let kernel = kernel_size.into();
                let repr = $name::text((0, out_channels), *kernel, &options);
                let build = move |inputs| $name::with(inputs, out_channels, *kernel, options);
                let loaded = move |shapes: Shapes<'_>| {
                    weight_size(shapes, 1).map(|share| share * options.groups)
                };
                Self(Lazy::new(repr, build, channels::<$n>, loaded))
            }
        }
    };
}

convolution!(Conv1d, LazyConv1d, 1, conv1d, conv1d_padding, "(N, C, L) signals", "[1, 2, 8]");
convolution!(Conv2d, LazyConv2d, 2, conv2d, conv2d_padding, "(N, C, H, W) images", "[1, 2, 8, 8]");
convolution!(
    Conv3d,
    LazyConv3d,
    3,
    conv3d,
    conv3d_padding,
    "(N, C, D, H, W) volumes",
    "[1, 2, 4, 4, 4]"
);

/// How the kernel of an adjoint of a convolution moves.
///
/// ```
/// use corten::nn::ConvTransposeOptions;
///
/// let options = ConvTransposeOptions::<1> { stride: 2.into(), ..Default::default() };
/// assert_eq!(options.groups, 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ConvTransposeOptions<const N: usize> {
    /// Steps between windows of the output.
    pub stride: Size<N>,
    /// What the convolution would add at both ends.
    pub padding: Size<N>,
    /// Elements more at one end of the output.
    pub output_padding: Size<N>,
    /// Blocks of channels that do not see each other.
    pub groups: i64,
    /// Whether a bias is added.
    pub bias: bool,
    /// Steps between the elements of a window.
    pub dilation: Size<N>,
}

impl<const N: usize> Default for ConvTransposeOptions<N> {
    fn default() -> Self {
        Self {
            stride: 1.into(),
            padding: 0.into(),
            output_padding: 0.into(),
            groups: 1,
            bias: true,
            dilation: 1.into(),
        }
    }
}

/// Options of [`ConvTranspose1d`].
pub type ConvTranspose1dOptions = ConvTransposeOptions<1>;
/// Options of [`ConvTranspose2d`].
pub type ConvTranspose2dOptions = ConvTransposeOptions<2>;
/// Options of [`ConvTranspose3d`].
pub type ConvTranspose3dOptions = ConvTransposeOptions<3>;

impl<const N: usize> ConvTransposeOptions<N> {
    fn text(&self, channels: (i64, i64), kernel: [i64; N]) -> String {
        Shown {
            channels,
            kernel,
            stride: &self.stride,
            padding: ConvPadding::Explicit(*self.padding),
            dilation: &self.dilation,
            output_padding: *self.output_padding,
            groups: self.groups,
            bias: self.bias,
            mode: PaddingMode::Zeros,
        }
        .text()
    }

    /// The elements at the end that give a size, which leaves a choice of up to one stride.
    fn output_padding(&self, input: &Tensor, kernel: &[i64; N], size: &[i64]) -> Result<[i64; N]> {
        let leading = input.dim().saturating_sub(N);
        let wanted = if size.len() == N + leading { &size[leading..] } else { size };
        ensure!(
            wanted.len() == N,
            Value,
            "ConvTranspose{N}D: for {}D input, output_size must have {N} or {} elements (got {})",
            input.dim(),
            leading + N,
            size.len()
        );
        let (mut least, mut most, mut extra) = ([0; N], [0; N], [0; N]);
        for d in 0..N {
            least[d] = (input.size((d + leading) as i64)? - 1) * self.stride[d]
                - 2 * self.padding[d]
                + self.dilation[d] * (kernel[d] - 1)
                + 1;
            most[d] = least[d] + self.stride[d] - 1;
            extra[d] = wanted[d] - least[d];
        }
        let fits = (0..N).all(|d| (least[d]..=most[d]).contains(&wanted[d]));
        ensure!(
            fits,
            Value,
            "requested an output size of {wanted:?}, but valid sizes range from {least:?} to {most:?} (for an input of {:?})",
            &input.sizes()[leading..]
        );
        Ok(extra)
    }
}

macro_rules! transposed {
    ($name:ident, $lazy:ident, $of:ident, $n:literal, $op:ident, $input:literal) => {
        #[doc = concat!("The adjoint of [`", stringify!($of), "`].")]
        #[doc = example!(
            "let conv = ", stringify!($name), "::new(2, 4, 3)?;\n",
            "let y = conv.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
            "assert_eq!(y.size(-1)?, 6);"
        )]
        #[derive(Module)]
        #[module(repr)]
        pub struct $name {
            /// Shape (in, out / groups, kernel…).
            pub weight: Parameter,
            /// Shape (out).
            pub bias: Option<Parameter>,
            #[module(skip)]
            kernel_size: [i64; $n],
            #[module(skip)]
            options: ConvTransposeOptions<$n>,
            hooks: Hooks,
        }

        impl $name {
            /// An adjoint with stride 1, no padding and a bias.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn new(
                in_channels: i64,
                out_channels: i64,
                kernel_size: impl Into<Size<$n>>,
            ) -> Result<Self> {
                Self::with(in_channels, out_channels, kernel_size, Default::default())
            }

            /// An adjoint with options.
            ///
            /// # Errors
            /// `Value` when the groups do not divide the channels.
            pub fn with(
                in_channels: i64,
                out_channels: i64,
                kernel_size: impl Into<Size<$n>>,
                options: ConvTransposeOptions<$n>,
            ) -> Result<Self> {
                let kernel_size = *kernel_size.into();
                let ConvTransposeOptions { groups, bias, .. } = options;
                let (weight, bias) =
                    weights(in_channels, out_channels, &kernel_size, groups, bias, true)?;
                Ok(Self { weight, bias, kernel_size, options, hooks: Hooks::default() })
            }

            /// Draws weight and bias anew.
            ///
            /// # Errors
            /// Those of the operators.
            pub fn reset_parameters(&self) -> Result<()> {
                init::weight_and_bias(&self.weight, self.bias.as_deref())
            }

            /// The output of a wished size, one of those that a convolution would bring to the
            /// size of the input.
            ///
            /// # Errors
            /// `Value` for other sizes.
            pub fn forward_to_size(&self, input: &Tensor, output_size: &[i64]) -> Result<Tensor> {
                let extra = self.options.output_padding(input, &self.kernel_size, output_size)?;
                self.compute(input, &self.weight, &extra)
            }

            fn compute(
                &self,
                input: &Tensor,
                weight: &Tensor,
                extra: &[i64; $n],
            ) -> Result<Tensor> {
                let ConvTransposeOptions { stride, padding, groups, dilation, .. } = &self.options;
                let (bias, groups) = (self.bias.as_deref(), *groups);
                op::$op(input, weight, bias, &**stride, &**padding, extra, groups, &**dilation)
            }

            fn repr(&self) -> String {
                let sizes = self.weight.sizes();
                let channels = (sizes[0], sizes[1] * self.options.groups);
                self.options.text(channels, self.kernel_size)
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                self.forward_with(input, &self.weight)
            }
        }

        impl Weighted for $name {
            const PARAMETRIZED: &'static str = concat!("Parametrized", stringify!($name));
            const OUTPUT_DIM: usize = 1;

            fn weight(&self) -> &Parameter {
                &self.weight
            }

            fn forward_with(&self, input: &Tensor, weight: &Tensor) -> Result<Tensor> {
                self.compute(input, weight, &self.options.output_padding)
            }
        }

        lazy_module!(
            #[doc = concat!("A [`", stringify!($name), "`] that takes `in_channels` from its first input.")]
            #[doc = example!(
                "let conv = ", stringify!($lazy), "::new(4, 3);\n",
                "conv.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                "assert!(conv.to_string().starts_with(\"", stringify!($name), "(2, 4\"));"
            )]
            $lazy => $name
        );

        impl $lazy {
            /// An adjoint with stride 1, no padding and a bias.
            pub fn new(out_channels: i64, kernel_size: impl Into<Size<$n>>) -> Self {
                Self::with(out_channels, kernel_size, Default::default())
            }

            /// An adjoint with options.
            pub fn with(
                out_channels: i64,
                kernel_size: impl Into<Size<$n>>,
                options: ConvTransposeOptions<$n>,
            ) -> Self {
                let kernel = kernel_size.into();
                let repr = options.text((0, out_channels), *kernel);
                let build = move |inputs| $name::with(inputs, out_channels, *kernel, options);
                Self(Lazy::new(repr, build, channels::<$n>, |shapes| weight_size(shapes, 0)))
            }
        }
    };
}

transposed!(ConvTranspose1d, LazyConvTranspose1d, Conv1d, 1, conv_transpose1d, "[1, 2, 4]");
transposed!(
    ConvTranspose2d,
    LazyConvTranspose2d,
    Conv2d,
    2,
    conv_transpose2d_input,
    "[1, 2, 4, 4]"
);
transposed!(
    ConvTranspose3d,
    LazyConvTranspose3d,
    Conv3d,
    3,
    conv_transpose3d_input,
    "[1, 2, 4, 4, 4]"
);
