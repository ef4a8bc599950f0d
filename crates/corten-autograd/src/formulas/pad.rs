//! Gradients of padding.

use corten_core::{Dims, Result, Scalar};
use corten_ops::{Tensor, op};

/// Gradient of `constant_pad_nd`: what was added is cut off, what was cut off is zero.
pub fn constant_pad_nd_backward(grad: &Tensor, pad: &[i64]) -> Result<Tensor> {
    let opposite: Dims = pad.iter().map(|size| -size).collect();
    op::constant_pad_nd(grad, &opposite, Scalar::Int(0))
}
