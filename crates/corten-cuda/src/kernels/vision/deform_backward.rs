//! Gradients of convolutions whose taps are moved by offsets.

use super::deformable::{Call, Numbers};
use crate::operands::{on_meta, zeros};
use corten_core::Result;
use corten_ops::{Tensor, op};

/// The gradients of input, weight, offset, mask and bias.
///
/// # Errors
/// As for the convolution itself.
pub fn deform_conv2d_backward(
    grad: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    offset: &Tensor,
    mask: &Tensor,
    bias: &Tensor,
    stride_h: i64,
    stride_w: i64,
    pad_h: i64,
    pad_w: i64,
    dilation_h: i64,
    dilation_w: i64,
    groups: i64,
    offset_groups: i64,
    use_mask: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor, Tensor)> {
    op::_deform_conv2d_backward(
        &on_meta(grad)?,
        &on_meta(input)?,
        &on_meta(weight)?,
        &on_meta(offset)?,
        &on_meta(mask)?,
        &on_meta(bias)?,
        stride_h,
        stride_w,
        pad_h,
        pad_w,
        dilation_h,
        dilation_w,
        groups,
        offset_groups,
        use_mask,
    )?;
    let numbers = Numbers {
        stride: [stride_h, stride_w],
        padding: [pad_h, pad_w],
        dilation: [dilation_h, dilation_w],
        groups,
        offset_groups,
    };
    let given = use_mask.then_some(mask);
    let call = Call::of(input, weight, offset, given, &grad.sizes(), numbers)?;
    let found = call.gradients(grad)?;
    let like = |own: &Tensor, like: &Tensor| op::to_dtype(own, like.dtype(), false, false, None);
    let of_mask = match &found.mask {
        Some(own) => like(own, mask)?,
        None => zeros(&mask.sizes(), mask.dtype(), mask)?,
    };
    let bias_of = op::sum_dim_intlist(grad, Some(&[0, 2, 3]), false, None)?;
    Ok((
        like(&found.input, input)?,
        like(&found.weight, weight)?,
        like(&found.offset, offset)?,
        of_mask,
        like(&bias_of, bias)?,
    ))
}
