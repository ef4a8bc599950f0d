//! The gradient of fake quantisation whose numbers are arguments.

use corten_core::Result;
use corten_ops::{Tensor, any::decomposed};

/// The gradient where nothing was clamped.
///
/// # Errors
/// Those of the operator.
pub fn fake_quant_per_channel_grad(
    grad: &Tensor,
    input: &Tensor,
    scales: &Tensor,
    zero_points: &Tensor,
    axis: i64,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    decomposed::fake_quant_per_channel_backward(
        grad,
        input,
        scales,
        zero_points,
        axis,
        quant_min,
        quant_max,
    )
}
