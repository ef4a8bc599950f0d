//! Pooling over windows of a fixed size.

use crate::module::{Forward, Module};
use crate::print::Repr;
use crate::size::Size;
use corten_core::{Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// How the windows of [`MaxPool2d`] and its like move.
///
/// ```
/// assert!(corten::nn::MaxPoolOptions::<2>::default().stride.is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MaxPoolOptions<const N: usize> {
    /// Steps between windows; the size of the window if absent.
    pub stride: Option<Size<N>>,
    /// Elements added at both ends, less than all others.
    pub padding: Size<N>,
    /// Steps between the elements of a window.
    pub dilation: Size<N>,
    /// Whether windows may reach over the end.
    pub ceil_mode: bool,
}

impl<const N: usize> Default for MaxPoolOptions<N> {
    fn default() -> Self {
        Self { stride: None, padding: 0.into(), dilation: 1.into(), ceil_mode: false }
    }
}

/// How the windows of [`AvgPool2d`] and its like move.
///
/// ```
/// assert!(corten::nn::AvgPoolOptions::<1>::default().count_include_pad);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AvgPoolOptions<const N: usize> {
    /// Steps between windows; the size of the window if absent.
    pub stride: Option<Size<N>>,
    /// Zeros added at both ends.
    pub padding: Size<N>,
    /// Whether windows may reach over the end.
    pub ceil_mode: bool,
    /// Whether the zeros count in the means.
    pub count_include_pad: bool,
    /// What sums are divided by instead of the size of the window; not in one dimension.
    pub divisor_override: Option<i64>,
}

impl<const N: usize> Default for AvgPoolOptions<N> {
    fn default() -> Self {
        Self {
            stride: None,
            padding: 0.into(),
            ceil_mode: false,
            count_include_pad: true,
            divisor_override: None,
        }
    }
}

/// How the windows of [`LpPool2d`] and its like move.
///
/// ```
/// assert!(!corten::nn::LpPoolOptions::<1>::default().ceil_mode);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LpPoolOptions<const N: usize> {
    /// Steps between windows; the size of the window if absent.
    pub stride: Option<Size<N>>,
    /// Whether windows may reach over the end.
    pub ceil_mode: bool,
}

/// A module of a window and options.
macro_rules! windowed {
    ($(#[$attribute:meta])* $name:ident, $options:ident, $n:literal) => {
        #[derive(Clone, Copy, Module)]
        $(#[$attribute])*
        #[module(repr)]
        pub struct $name {
            #[module(skip)]
            kernel_size: Size<$n>,
            #[module(skip)]
            options: $options<$n>,
        }

        impl $name {
            /// Windows beside each other.
            pub fn new(kernel_size: impl Into<Size<$n>>) -> Self {
                Self::with(kernel_size, $options::default())
            }

            /// Windows with options.
            pub fn with(kernel_size: impl Into<Size<$n>>, options: $options<$n>) -> Self {
                Self { kernel_size: kernel_size.into(), options }
            }

            fn stride(&self) -> Size<$n> {
                self.options.stride.unwrap_or(self.kernel_size)
            }
        }
    };
}

macro_rules! max_pool {
    ($name:ident, $n:literal, $op:ident, $with_indices:ident, $what:literal, $input:literal) => {
        windowed!(
            #[doc = concat!("Maxima over windows of ", $what, ".")]
            #[doc = example!(
                "let pool = ", stringify!($name), "::new(2);\n",
                "let y = pool.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                "assert_eq!(y.size(-1)?, 2);"
            )]
            $name, MaxPoolOptions, $n
        );

        impl $name {
            /// The maxima and their flat positions, as the module of unpooling takes them.
            ///
            /// # Errors
            /// Those of the operator.
            pub fn forward_with_indices(&self, input: &Tensor) -> Result<(Tensor, Tensor)> {
                let MaxPoolOptions { padding, dilation, ceil_mode, .. } = &self.options;
                let (kernel, stride) = (&*self.kernel_size, &*self.stride());
                op::$with_indices(input, kernel, stride, &**padding, &**dilation, *ceil_mode)
            }

            fn repr(&self) -> String {
                let MaxPoolOptions { padding, dilation, ceil_mode, .. } = &self.options;
                format!(
                    "kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                    self.kernel_size.repr(),
                    self.stride().repr(),
                    padding.repr(),
                    dilation.repr(),
                    ceil_mode.repr()
                )
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let MaxPoolOptions { padding, dilation, ceil_mode, .. } = &self.options;
                let (kernel, stride) = (&*self.kernel_size, &*self.stride());
                op::$op(input, kernel, stride, &**padding, &**dilation, *ceil_mode)
            }
        }
    };
}

max_pool!(MaxPool1d, 1, max_pool1d, max_pool1d_with_indices, "signals", "[1, 2, 4]");
max_pool!(MaxPool2d, 2, max_pool2d, max_pool2d_with_indices, "images", "[1, 2, 4, 4]");
max_pool!(MaxPool3d, 3, max_pool3d, max_pool3d_with_indices, "volumes", "[1, 2, 4, 4, 4]");

macro_rules! avg_pool {
    ($name:ident, $n:literal, $what:literal, $input:literal, |$pool:ident, $x:ident, $stride:ident| $call:expr) => {
        windowed!(
            #[doc = concat!("Means over windows of ", $what, ".")]
            #[doc = example!(
                "let pool = ", stringify!($name), "::new(2);\n",
                "let y = pool.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                "assert_eq!(y.size(-1)?, 2);"
            )]
            $name, AvgPoolOptions, $n
        );

        impl Forward for $name {
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let ($pool, $stride) = (self, &*self.stride());
                $call
            }
        }
    };
}

/// The settings of a pool of means, of which one dimension prints tuples.
fn avg_repr(sizes: [String; 3]) -> String {
    let [kernel, stride, padding] = sizes;
    format!("kernel_size={kernel}, stride={stride}, padding={padding}")
}

avg_pool!(AvgPool1d, 1, "signals", "[1, 2, 4]", |pool, x, stride| {
    let AvgPoolOptions { padding, ceil_mode, count_include_pad, .. } = &pool.options;
    op::avg_pool1d(x, &*pool.kernel_size, stride, &**padding, *ceil_mode, *count_include_pad)
});

impl AvgPool1d {
    fn repr(&self) -> String {
        let (stride, padding) = (self.stride(), self.options.padding);
        avg_repr([&self.kernel_size, &stride, &padding].map(|size| (**size).repr()))
    }
}

macro_rules! avg_pool_nd {
    ($name:ident, $n:literal, $op:ident, $what:literal, $input:literal) => {
        avg_pool!($name, $n, $what, $input, |pool, x, stride| {
            let AvgPoolOptions { padding, ceil_mode, count_include_pad, divisor_override, .. } =
                &pool.options;
            let (kernel, padding) = (&*pool.kernel_size, &**padding);
            let counted = *count_include_pad;
            op::$op(x, kernel, stride, padding, *ceil_mode, counted, *divisor_override)
        });

        impl $name {
            fn repr(&self) -> String {
                let (stride, padding) = (self.stride(), self.options.padding);
                avg_repr([&self.kernel_size, &stride, &padding].map(|size| size.repr()))
            }
        }
    };
}

avg_pool_nd!(AvgPool2d, 2, avg_pool2d, "images", "[1, 2, 4, 4]");
avg_pool_nd!(AvgPool3d, 3, avg_pool3d, "volumes", "[1, 2, 4, 4, 4]");

macro_rules! lp_pool {
    ($name:ident, $printed:literal, $n:literal, $what:literal, $input:literal, |$x:ident, $kernel:ident, $stride:ident, $ceil:ident| $mean:expr) => {
        #[doc = concat!("The norm of each window of ", $what, ".")]
        #[doc = example!(
                    "let pool = ", stringify!($name), "::new(2.0, 2);\n",
                    "let y = pool.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                    "assert_eq!(y.size(-1)?, 2);"
                )]
        #[derive(Clone, Copy, Module)]
        #[module(name = $printed, repr)]
        pub struct $name {
            norm_type: f64,
            #[module(skip)]
            kernel_size: Size<$n>,
            #[module(skip)]
            options: LpPoolOptions<$n>,
        }

        impl $name {
            /// Windows beside each other.
            pub fn new(norm_type: f64, kernel_size: impl Into<Size<$n>>) -> Self {
                Self::with(norm_type, kernel_size, LpPoolOptions::default())
            }

            /// Windows with options.
            pub fn with(
                norm_type: f64,
                kernel_size: impl Into<Size<$n>>,
                options: LpPoolOptions<$n>,
            ) -> Self {
                Self { norm_type, kernel_size: kernel_size.into(), options }
            }

            fn repr(&self) -> String {
                let LpPoolOptions { stride, ceil_mode } = &self.options;
                // PyTorch prints the number as it was given: mostly an integer.
                let norm = self.norm_type;
                let norm = if norm.fract() == 0.0 { format!("{norm:.0}") } else { norm.repr() };
                format!(
                    "norm_type={norm}, kernel_size={}, stride={}, ceil_mode={}",
                    self.kernel_size.repr(),
                    stride.repr(),
                    ceil_mode.repr()
                )
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let $x = &op::pow_tensor_scalar(input, self.norm_type.into())?;
                let ($kernel, $ceil) = (&*self.kernel_size, self.options.ceil_mode);
                let $stride = &*self.options.stride.unwrap_or(self.kernel_size);
                let mean: Tensor = $mean?;
                let total = op::mul_tensor(&op::sign(&mean)?, &op::relu(&op::abs(&mean)?)?)?;
                let count: i64 = $kernel.iter().product();
                let total = op::mul_scalar(&total, Scalar::Int(count))?;
                op::pow_tensor_scalar(&total, (1.0 / self.norm_type).into())
            }
        }
    };
}

lp_pool!(LpPool1d, "LPPool1d", 1, "signals", "[1, 2, 4]", |x, kernel, stride, ceil| {
    op::avg_pool1d(x, kernel, stride, &[0], ceil, true)
});
lp_pool!(LpPool2d, "LPPool2d", 2, "images", "[1, 2, 4, 4]", |x, kernel, stride, ceil| {
    op::avg_pool2d(x, kernel, stride, &[0, 0], ceil, true, None)
});
lp_pool!(LpPool3d, "LPPool3d", 3, "volumes", "[1, 2, 4, 4, 4]", |x, kernel, stride, ceil| {
    op::avg_pool3d(x, kernel, stride, &[0, 0, 0], ceil, true, None)
});

/// Options of [`MaxUnpool2d`] and its like: those of the pool that they undo.
///
/// ```
/// assert_eq!(*corten::nn::MaxUnpoolOptions::<2>::default().padding, [0, 0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MaxUnpoolOptions<const N: usize> {
    /// Steps between windows; the size of the window if absent.
    pub stride: Option<Size<N>>,
    /// Elements that the pool added at both ends.
    pub padding: Size<N>,
}

impl<const N: usize> Default for MaxUnpoolOptions<N> {
    fn default() -> Self {
        Self { stride: None, padding: 0.into() }
    }
}

impl<const N: usize> MaxUnpoolOptions<N> {
    /// The spatial size that pooled to the input's; a wished one must lie within one stride of it.
    fn size(&self, x: &Tensor, kernel: &[i64; N], wanted: Option<&[i64]>) -> Result<Vec<i64>> {
        let stride = *self.stride.unwrap_or(Size::from(*kernel));
        // Bounded: a length for each dimension.
        let mut size = Vec::with_capacity(N);
        for d in 0..N {
            let pooled = x.size(d as i64 - N as i64)?;
            size.push((pooled - 1) * stride[d] + kernel[d] - 2 * self.padding[d]);
        }
        if let Some(wanted) = wanted {
            let fitting = if wanted.len() == N + 2 { &wanted[2..] } else { wanted };
            ensure!(
                fitting.len() == N,
                Value,
                "output_size should be a sequence containing {N} or {} elements, but it has a length of '{}'",
                N + 2,
                wanted.len()
            );
            for d in 0..N {
                let (low, high) = (size[d] - stride[d], size[d] + stride[d]);
                ensure!(
                    low < fitting[d] && fitting[d] < high,
                    Value,
                    "invalid output_size \"{fitting:?}\" (dim {d} must be between {low} and {high})"
                );
            }
            size = fitting.to_vec();
        }
        for (d, length) in size.iter().enumerate() {
            ensure!(
                *length >= 0,
                Value,
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{d}]={length}"
            );
        }
        Ok(size)
    }
}

macro_rules! max_unpool {
    ($name:ident, $of:ident, $n:literal, $input:literal, |$x:ident, $indices:ident, $size:ident, $stride:ident, $padding:ident| $call:expr) => {
        windowed!(
            #[doc = concat!("Puts maxima back where [`", stringify!($of), "`] found them.")]
            #[doc = example!(
                "let x = op::randn(&", $input, ", None, None, None, None)?;\n",
                "let (y, indices) = ", stringify!($of), "::new(2).forward_with_indices(&x)?;\n",
                "let back = ", stringify!($name), "::new(2).forward(&y, &indices, None)?;\n",
                "assert_eq!(back.sizes(), x.sizes());"
            )]
            $name, MaxUnpoolOptions, $n
        );

        impl $name {
            /// The maxima at their places in an image of `output_size`, zeros elsewhere.
            ///
            /// # Errors
            /// `Value` for a size that would not have been pooled to that of the input.
            pub fn forward(
                &self,
                $x: &Tensor,
                $indices: &Tensor,
                output_size: Option<&[i64]>,
            ) -> Result<Tensor> {
                let $size = self.options.size($x, &self.kernel_size, output_size)?;
                let ($stride, $padding) = (&*self.stride(), &*self.options.padding);
                $call
            }

            fn repr(&self) -> String {
                let (stride, padding) = (self.stride(), self.options.padding);
                avg_repr([&self.kernel_size, &stride, &padding].map(|size| (**size).repr()))
            }
        }
    };
}

max_unpool!(MaxUnpool1d, MaxPool1d, 1, "[1, 2, 4]", |x, indices, size, _stride, _padding| {
    let (x, indices) = (op::unsqueeze(x, -1)?, op::unsqueeze(indices, -1)?);
    op::squeeze_dim(&op::max_unpool2d(&x, &indices, &[size[0], 1])?, -1)
});
max_unpool!(MaxUnpool2d, MaxPool2d, 2, "[1, 2, 4, 4]", |x, indices, size, _stride, _padding| {
    op::max_unpool2d(x, indices, &size)
});
max_unpool!(MaxUnpool3d, MaxPool3d, 3, "[1, 2, 4, 4, 4]", |x, indices, size, stride, padding| {
    op::max_unpool3d(x, indices, &size, stride, padding)
});
