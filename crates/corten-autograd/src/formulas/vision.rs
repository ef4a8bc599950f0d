//! Gradients of the operators on regions of images.

use corten_core::{DType, Result, Scalar, bail};
use corten_ops::{Tensor, op};

/// The gradient of `roi_align`.
///
/// # Errors
/// Those of the operators.
pub fn roi_align_grad(
    grad: &Tensor,
    rois: &Tensor,
    sizes: &[i64],
    spatial_scale: f64,
    sampling_ratio: i64,
    aligned: bool,
) -> Result<Tensor> {
    let ([n, c, h, w], [ph, pw]) = shapes(sizes, grad);
    op::_roi_align_backward(grad, rois, spatial_scale, ph, pw, n, c, h, w, sampling_ratio, aligned)
}

/// The gradient of `roi_pool`.
///
/// # Errors
/// Those of the operators.
pub fn roi_pool_grad(
    grad: &Tensor,
    rois: &Tensor,
    argmax: &Tensor,
    sizes: &[i64],
    spatial_scale: f64,
) -> Result<Tensor> {
    let ([n, c, h, w], [ph, pw]) = shapes(sizes, grad);
    op::_roi_pool_backward(grad, rois, argmax, spatial_scale, ph, pw, n, c, h, w)
}

/// The gradient of `ps_roi_align`.
///
/// # Errors
/// Those of the operators.
pub fn ps_roi_align_grad(
    grad: &Tensor,
    rois: &Tensor,
    channels: &Tensor,
    sizes: &[i64],
    spatial_scale: f64,
    sampling_ratio: i64,
) -> Result<Tensor> {
    let ([n, c, h, w], [ph, pw]) = shapes(sizes, grad);
    let (scale, ratio) = (spatial_scale, sampling_ratio);
    op::_ps_roi_align_backward(grad, rois, channels, scale, ph, pw, ratio, n, c, h, w)
}

/// The gradient of `ps_roi_pool`.
///
/// # Errors
/// Those of the operators.
pub fn ps_roi_pool_grad(
    grad: &Tensor,
    rois: &Tensor,
    channels: &Tensor,
    sizes: &[i64],
    spatial_scale: f64,
) -> Result<Tensor> {
    let ([n, c, h, w], [ph, pw]) = shapes(sizes, grad);
    op::_ps_roi_pool_backward(grad, rois, channels, spatial_scale, ph, pw, n, c, h, w)
}

/// The sizes of the images, and the bins of a region.
fn shapes(sizes: &[i64], grad: &Tensor) -> ([i64; 4], [i64; 2]) {
    let bins = grad.sizes();
    ([sizes[0], sizes[1], sizes[2], sizes[3]], [bins[2], bins[3]])
}

/// The gradient of `_roi_pool_backward`: what is at the places of the maxima; zero for bins without.
///
/// # Errors
/// Those of the operators.
pub fn roi_pool_grad_again(grad: &Tensor, rois: &Tensor, argmax: &Tensor) -> Result<Tensor> {
    let image = op::to_dtype(&op::select_int(rois, 1, 0)?, DType::Int64, false, false, None)?;
    let planes = op::flatten_using_ints(&op::index_select(grad, 0, &image)?, 2, 3)?;
    let places =
        op::to_dtype(&op::flatten_using_ints(argmax, 2, 3)?, DType::Int64, false, false, None)?;
    let found = op::gather(&planes, 2, &op::clamp_min(&places, Scalar::Int(0))?, false)?;
    let empty = op::lt_scalar(&places, Scalar::Int(0))?;
    op::view(&op::masked_fill_scalar(&found, &empty, Scalar::Int(0))?, &argmax.sizes())
}

/// The gradient of `_ps_roi_align_backward`.
///
/// # Errors
/// Those of the operators.
pub fn ps_roi_align_grad_again(
    grad: &Tensor,
    rois: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
    sampling_ratio: i64,
) -> Result<Tensor> {
    let (bins, ratio) = ([pooled_height, pooled_width], sampling_ratio);
    Ok(op::ps_roi_align(grad, rois, spatial_scale, bins[0], bins[1], ratio)?.0)
}

/// The gradient of `_ps_roi_pool_backward`.
///
/// # Errors
/// Those of the operators.
pub fn ps_roi_pool_grad_again(
    grad: &Tensor,
    rois: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
) -> Result<Tensor> {
    Ok(op::ps_roi_pool(grad, rois, spatial_scale, pooled_height, pooled_width)?.0)
}

/// The gradients of `deform_conv2d`.
///
/// # Errors
/// Those of the operators.
pub fn deform_conv2d_grads(
    needs: &[bool],
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
) -> Result<Vec<Tensor>> {
    let (a, b, c, d, e) = op::_deform_conv2d_backward(
        grad,
        input,
        weight,
        offset,
        mask,
        bias,
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
    let wanted = |(tensor, &need): (Tensor, &bool)| if need { tensor } else { Tensor::undefined() };
    Ok([a, b, c, d, e].into_iter().zip(needs).map(wanted).collect())
}

/// The gradient of a gradient that nobody has derived.
///
/// # Errors
/// Always.
pub fn no_double_backward(_needs: &[bool], what: &str) -> Result<Vec<Tensor>> {
    bail!(Runtime, "double backwards on {what} not supported")
}
