//! Convolutions whose taps are moved by offsets.

use super::deformable::{Call, Numbers};
use crate::operands::on_meta;
use corten_core::Result;
use corten_ops::{Tensor, op};

/// The convolution of images whose taps are moved by offsets.
///
/// # Errors
/// Those of the CPU's checks, `NotImplemented` for other than floating point.
pub fn deform_conv2d(
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
) -> Result<Tensor> {
    let planned = op::deform_conv2d(
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
    let call =
        Call::of(input, weight, offset, use_mask.then_some(mask), &planned.sizes(), numbers)?;
    op::to_dtype(&call.forward(bias)?, input.dtype(), false, false, None)
}
