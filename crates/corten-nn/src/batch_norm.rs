//! Normalisation of channels, with statistics that are kept over batches.

use crate::hooks::Hooks;
use crate::lazy::{Lazy, lazy_module};
use crate::module::{Buffer, Forward, Mode, Module, Parameter};
use crate::norm::{EPS, check_count, scale_and_shift};
use crate::print::Repr;
use crate::{ones, zeros};
use corten_autograd::no_grad;
use corten_core::{DType, Result, ensure, warn};
use corten_ops::{Tensor, op};

/// Options of [`BatchNorm2d`] and its like.
///
/// ```
/// assert_eq!(corten::nn::BatchNormOptions::default().momentum, Some(0.1));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BatchNormOptions {
    /// Added to variances.
    pub eps: f64,
    /// How much a batch moves the running statistics; if absent they are plain averages.
    pub momentum: Option<f64>,
    /// Whether there are a scale and a shift.
    pub affine: bool,
    /// Whether running statistics are kept.
    pub track_running_stats: bool,
    /// Whether there is a shift.
    pub bias: bool,
}

impl Default for BatchNormOptions {
    fn default() -> Self {
        Self { eps: EPS, momentum: Some(0.1), affine: true, track_running_stats: true, bias: true }
    }
}

/// Options of [`InstanceNorm2d`] and its like.
///
/// ```
/// assert!(!corten::nn::InstanceNormOptions::default().affine);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct InstanceNormOptions {
    /// Added to variances.
    pub eps: f64,
    /// How much a batch moves the running statistics.
    pub momentum: f64,
    /// Whether there are a scale and a shift.
    pub affine: bool,
    /// Whether running statistics are kept.
    pub track_running_stats: bool,
    /// Whether there is a shift.
    pub bias: bool,
}

impl Default for InstanceNormOptions {
    fn default() -> Self {
        Self { eps: EPS, momentum: 0.1, affine: false, track_running_stats: false, bias: true }
    }
}

impl From<InstanceNormOptions> for BatchNormOptions {
    fn from(options: InstanceNormOptions) -> Self {
        let InstanceNormOptions { eps, momentum, affine, track_running_stats, bias } = options;
        Self { eps, momentum: Some(momentum), affine, track_running_stats, bias }
    }
}

/// The running statistics of channels.
struct Running {
    mean: Option<Buffer>,
    var: Option<Buffer>,
    count: Option<Buffer>,
}

impl Running {
    fn new(channels: i64, is_tracked: bool) -> Result<Self> {
        if !is_tracked {
            return Ok(Self { mean: None, var: None, count: None });
        }
        let count = op::zeros(&[], Some(DType::Int64), None, None, None)?;
        Ok(Self {
            mean: Some(Buffer::new(zeros(&[channels])?)),
            var: Some(Buffer::new(ones(&[channels])?)),
            count: Some(Buffer::new(count)),
        })
    }
}

fn text(channels: i64, options: &BatchNormOptions) -> String {
    let BatchNormOptions { eps, momentum, affine, track_running_stats, bias } = options;
    format!(
        "{channels}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}",
        eps.repr(),
        momentum.repr(),
        affine.repr(),
        (*affine && *bias).repr(),
        track_running_stats.repr()
    )
}

/// The fields and constructors that both families share.
macro_rules! channel_norm {
    ($(#[$attribute:meta])* $name:ident, $options:ident) => {
        #[derive(Module)]
        $(#[$attribute])*
        #[module(repr)]
        pub struct $name {
            /// Scale of each channel.
            pub weight: Option<Parameter>,
            /// Shift of each channel.
            pub bias: Option<Parameter>,
            /// Running mean of each channel.
            pub running_mean: Option<Buffer>,
            /// Running variance of each channel.
            pub running_var: Option<Buffer>,
            /// How many batches were seen.
            pub num_batches_tracked: Option<Buffer>,
            num_features: i64,
            #[module(skip)]
            options: BatchNormOptions,
            training: Mode,
            hooks: Hooks,
        }

        impl $name {
            /// Normalisation of `num_features` channels.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn new(num_features: i64) -> Result<Self> {
                Self::with(num_features, $options::default())
            }

            /// Normalisation with options.
            ///
            /// # Errors
            /// `Runtime` for negative sizes.
            pub fn with(num_features: i64, options: $options) -> Result<Self> {
                let options = BatchNormOptions::from(options);
                let (weight, bias) =
                    scale_and_shift(&[num_features], options.affine, options.bias)?;
                let Running { mean, var, count } =
                    Running::new(num_features, options.track_running_stats)?;
                Ok(Self {
                    weight,
                    bias,
                    running_mean: mean,
                    running_var: var,
                    num_batches_tracked: count,
                    num_features,
                    options,
                    training: Mode::default(),
                    hooks: Hooks::default(),
                })
            }

            /// Forgets the running statistics.
            ///
            /// # Errors
            /// Those of the operators.
            pub fn reset_running_stats(&self) -> Result<()> {
                no_grad(|| {
                    for zero in [&self.running_mean, &self.num_batches_tracked].into_iter().flatten() {
                        op::zero_(zero)?;
                    }
                    if let Some(variance) = &self.running_var {
                        op::fill__scalar(variance, 1.into())?;
                    }
                    Ok(())
                })
            }

            fn repr(&self) -> String {
                text(self.num_features, &self.options)
            }
        }
    };
}

macro_rules! batch_norm {
    ($name:ident, $lazy:ident, $ranks:expr, $expected:literal, $what:literal, $input:literal) => {
        channel_norm!(
            #[doc = concat!("Batch normalisation of ", $what, ".")]
            #[doc = example!(
                "let norm = ", stringify!($name), "::new(3)?;\n",
                "norm.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                "assert_eq!(norm.num_batches_tracked.as_ref().unwrap().to_element::<i64>()?, 1);"
            )]
            $name, BatchNormOptions
        );

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let rank = input.dim();
                ensure!(
                    $ranks.contains(&rank),
                    Value,
                    concat!("expected ", $expected, " input (got {}D input)"),
                    rank
                );
                let training = self.training.training();
                let mut momentum = self.options.momentum.unwrap_or(0.0);
                if let Some(count) = self.num_batches_tracked.as_ref().filter(|_| training) {
                    no_grad(|| op::add__scalar(count, 1.into(), 1.into()))?;
                    if self.options.momentum.is_none() {
                        momentum = 1.0 / count.to_element::<i64>()? as f64;
                    }
                }
                let by_batch = training || self.running_mean.is_none();
                if by_batch {
                    let sizes = input.sizes();
                    check_count(sizes[0] * sizes[2..].iter().product::<i64>(), &sizes)?;
                    ensure!(
                        self.options.eps > 0.0,
                        Value,
                        "batch_norm eps must be positive during training, but got {}",
                        self.options.eps.repr()
                    );
                }
                op::batch_norm(
                    input,
                    self.weight.as_deref(),
                    self.bias.as_deref(),
                    self.running_mean.as_deref(),
                    self.running_var.as_deref(),
                    by_batch,
                    momentum,
                    self.options.eps,
                    true,
                )
            }
        }

        lazy_norm!($name, $lazy, BatchNormOptions, $input, |input| input.size(1));
    };
}

macro_rules! lazy_norm {
    ($name:ident, $lazy:ident, $options:ident, $input:literal, |$x:ident| $channels:expr) => {
        lazy_module!(
            #[doc = concat!("A [`", stringify!($name), "`] that takes `num_features` from its first input.")]
            #[doc = example!(
                "let norm = ", stringify!($lazy), "::new();\n",
                "norm.forward(&op::randn(&", $input, ", None, None, None, None)?)?;\n",
                "assert!(norm.to_string().starts_with(\"", stringify!($name), "(3, eps=1e-05\"));"
            )]
            $lazy => $name
        );

        impl $lazy {
            /// Normalisation with a scale and a shift and with running statistics.
            pub fn new() -> Self {
                let affine = true;
                let track_running_stats = true;
                Self::with($options { affine, track_running_stats, ..Default::default() })
            }

            /// Normalisation with options.
            pub fn with(options: $options) -> Self {
                let repr = text(0, &options.into());
                let build = move |channels| $name::with(channels, options);
                Self(Lazy::new(repr, build, |$x| $channels, |shapes| {
                    let shape = shapes("weight").or_else(|| shapes("running_mean"));
                    shape.and_then(|shape| shape.first().copied())
                }))
            }
        }

        impl Default for $lazy {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

batch_norm!(
    BatchNorm1d,
    LazyBatchNorm1d,
    [2, 3],
    "2D or 3D",
    "(N, C) or (N, C, L) inputs",
    "[4, 3, 5]"
);
batch_norm!(BatchNorm2d, LazyBatchNorm2d, [4], "4D", "(N, C, H, W) inputs", "[4, 3, 5, 5]");
batch_norm!(BatchNorm3d, LazyBatchNorm3d, [5], "5D", "(N, C, D, H, W) inputs", "[2, 3, 4, 4, 4]");

macro_rules! instance_norm {
    ($name:ident, $lazy:ident, $n:literal, $what:literal, $input:literal) => {
        channel_norm!(
            #[doc = concat!("Instance normalisation of ", $what, ": of each channel of each sample.")]
            #[doc = example!(
                "let norm = ", stringify!($name), "::new(3)?;\n",
                "let x = op::randn(&", $input, ", None, None, None, None)?;\n",
                "assert!(norm.forward(&x)?.mean()?.to_element::<f32>()?.abs() < 1e-4);"
            )]
            $name, InstanceNormOptions
        );

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let rank = input.dim();
                ensure!(
                    rank == $n + 1 || rank == $n + 2,
                    Value,
                    "expected {}D or {}D input (got {rank}D input)",
                    $n + 1,
                    $n + 2
                );
                let is_batched = rank == $n + 2;
                self.check_channels(input, i64::from(is_batched))?;
                let batch = if is_batched { input.clone() } else { op::unsqueeze(input, 0)? };
                let by_sample = self.training.training() || self.running_mean.is_none();
                if by_sample {
                    let sizes = batch.sizes();
                    ensure!(
                        sizes[2..].iter().product::<i64>() != 1,
                        Value,
                        "Expected more than 1 spatial element when training, got input size torch.Size({:?})",
                        sizes.as_slice()
                    );
                }
                let output = op::instance_norm(
                    &batch,
                    self.weight.as_deref(),
                    self.bias.as_deref(),
                    self.running_mean.as_deref(),
                    self.running_var.as_deref(),
                    by_sample,
                    self.options.momentum.unwrap_or(0.0),
                    self.options.eps,
                    true,
                )?;
                if is_batched { Ok(output) } else { op::squeeze_dim(&output, 0) }
            }
        }

        impl $name {
            fn check_channels(&self, input: &Tensor, dim: i64) -> Result<()> {
                let (channels, expected) = (input.size(dim)?, self.num_features);
                if channels == expected {
                    return Ok(());
                }
                ensure!(
                    !self.options.affine,
                    Value,
                    "expected input's size at dim={dim} to match num_features ({expected}), but got: {channels}."
                );
                warn(format!(
                    "input's size at dim={dim} does not match num_features. You can silence this warning by not passing in num_features, which is not used because affine=False"
                ));
                Ok(())
            }
        }

        lazy_norm!($name, $lazy, InstanceNormOptions, $input, |input| input.size(-$n - 1));
    };
}

instance_norm!(InstanceNorm1d, LazyInstanceNorm1d, 1, "(C, L) or (N, C, L) inputs", "[4, 3, 5]");
instance_norm!(
    InstanceNorm2d,
    LazyInstanceNorm2d,
    2,
    "(C, H, W) or (N, C, H, W) inputs",
    "[4, 3, 5, 5]"
);
instance_norm!(
    InstanceNorm3d,
    LazyInstanceNorm3d,
    3,
    "(C, D, H, W) or (N, C, D, H, W) inputs",
    "[2, 3, 4, 4, 4]"
);
