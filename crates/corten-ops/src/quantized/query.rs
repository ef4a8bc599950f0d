//! What is asked of a quantised tensor.

use super::{integers, of_tensor};
use crate::{Tensor, op};
use corten_core::{Quantizer, Result, TensorBase, bail};
use std::sync::Arc;

/// The integers, as a tensor of its own; elements of fewer than 8 bits as bytes that hold several.
///
/// # Errors
/// `Runtime` where the tensor is not quantised.
pub fn int_repr(self_: &Tensor) -> Result<Tensor> {
    op::clone(&integers(self_)?, None)
}

/// The scale.
///
/// # Errors
/// `Runtime` where there are several.
pub fn q_scale(self_: &Tensor) -> Result<f64> {
    Ok(of_tensor(self_)?.0)
}

/// The integer that stands for 0.
///
/// # Errors
/// `Runtime` where there are several.
pub fn q_zero_point(self_: &Tensor) -> Result<i64> {
    Ok(of_tensor(self_)?.1)
}

/// What `part` takes of the lists of a quantizer.
fn of_channels<T>(
    self_: &Tensor,
    part: impl FnOnce((&TensorBase, &TensorBase, i64)) -> T,
) -> Result<T> {
    let quantizer: Arc<Quantizer> = self_.known_quantizer()?;
    match quantizer.of_channels() {
        Some(channels) => Ok(part(channels)),
        None => bail!(
            Runtime,
            "Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == \
             kPerChannelAffineFloatQParams to be true, but got false."
        ),
    }
}

/// The scales of the channels.
///
/// # Errors
/// `Runtime` where there is one.
pub fn q_per_channel_scales(self_: &Tensor) -> Result<Tensor> {
    of_channels(self_, |(scales, ..)| scales.clone().into())
}

/// The zero points of the channels.
///
/// # Errors
/// `Runtime` where there is one.
pub fn q_per_channel_zero_points(self_: &Tensor) -> Result<Tensor> {
    of_channels(self_, |(_, zero_points, _)| zero_points.clone().into())
}

/// The dimension of the channels.
///
/// # Errors
/// `Runtime` where there is one scale.
pub fn q_per_channel_axis(self_: &Tensor) -> Result<i64> {
    of_channels(self_, |(.., axis)| axis)
}
