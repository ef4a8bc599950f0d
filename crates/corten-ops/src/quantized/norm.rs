//! Normalisations of quantised tensors.

use super::arith::on_numbers;
use super::of_tensor;
use crate::{Tensor, op};
use corten_core::{MemoryFormat, Result, ensure};

fn normalised(
    x: &Tensor,
    [weight, bias, mean, var]: [Option<&Tensor>; 4],
    eps: f64,
    (scale, zero): (f64, i64),
    relu: bool,
) -> Result<Tensor> {
    of_tensor(x)?;
    let format = match x.dim() {
        4 => MemoryFormat::ChannelsLast,
        5 => MemoryFormat::ChannelsLast3d,
        _ => MemoryFormat::Contiguous,
    };
    on_numbers(x, scale, zero, |numbers| {
        let numbers = op::contiguous(numbers, format)?;
        let out = op::batch_norm(&numbers, weight, bias, mean, var, false, 0.0, eps, false)?;
        if relu { op::relu(&out) } else { Ok(out) }
    })
}

/// Operators with the statistics of a network that has been trained.
macro_rules! batch_norms {
    ($($name:ident of $dims:pat, $relu:literal, $doc:literal;)+) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        /// `Runtime` where there are several scales, or sizes do not fit.
        pub fn $name(
            qx: &Tensor,
            weight: Option<&Tensor>,
            bias: Option<&Tensor>,
            mean: &Tensor,
            var: &Tensor,
            eps: f64,
            output_scale: f64,
            output_zero_point: i64,
        ) -> Result<Tensor> {
            ensure!(
                matches!(qx.dim(), $dims),
                Runtime,
                concat!("quantized::", stringify!($name), ": expected an input of {} dimensions, but got {}"),
                stringify!($dims),
                qx.dim()
            );
            let scale = (output_scale, output_zero_point);
            normalised(qx, [weight, bias, Some(mean), Some(var)], eps, scale, $relu)
        }
    )+};
}

batch_norms! {
    batch_norm of 2..=5, false, "Channels with mean 0 and variance 1, on a scale.";
    batch_norm_relu of 2..=5, true, "[`batch_norm`], or 0 where that is more.";
    batch_norm1d of 2 | 3, false, "[`batch_norm`] of signals.";
    batch_norm1d_relu of 2 | 3, true, "[`batch_norm_relu`] of signals.";
    batch_norm2d of 4, false, "[`batch_norm`] of images.";
    batch_norm2d_relu of 4, true, "[`batch_norm_relu`] of images.";
    batch_norm3d of 5, false, "[`batch_norm`] of volumes.";
    batch_norm3d_relu of 5, true, "[`batch_norm_relu`] of volumes.";
}

/// Trailing dimensions with mean 0 and variance 1, on a scale.
///
/// # Errors
/// Those of `layer_norm`.
pub fn layer_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    output_scale: f64,
    output_zero_point: i64,
) -> Result<Tensor> {
    of_tensor(input)?;
    on_numbers(input, output_scale, output_zero_point, |x| {
        op::layer_norm(x, normalized_shape, weight, bias, eps, false)
    })
}

/// Groups of channels with mean 0 and variance 1, on a scale.
///
/// # Errors
/// Those of `group_norm`.
pub fn group_norm(
    input: &Tensor,
    num_groups: i64,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    output_scale: f64,
    output_zero_point: i64,
) -> Result<Tensor> {
    of_tensor(input)?;
    on_numbers(input, output_scale, output_zero_point, |x| {
        op::group_norm(x, num_groups, weight, bias, eps, false)
    })
}

/// Channels of each sample with mean 0 and variance 1, on a scale.
///
/// # Errors
/// Those of `instance_norm`.
pub fn instance_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    output_scale: f64,
    output_zero_point: i64,
) -> Result<Tensor> {
    of_tensor(input)?;
    on_numbers(input, output_scale, output_zero_point, |x| {
        op::instance_norm(x, weight, bias, None, None, true, 0.0, eps, false)
    })
}
