//! Maxima of the pixels of regions.

use super::regions::{Regions, shape_of, wide};
use crate::kernel::{Argument, Template};
use crate::operands::{contiguous, empty, on_meta, zeros};
use crate::text;
use corten_core::{Access, DType, Result};
use corten_ops::{Tensor, op};

static POOL: Template = Template { name: "pool_regions", text: &[text::INDEX, text::REGIONS] };
static GRADIENT: Template =
    Template { name: "pool_regions_gradient", text: &[text::INDEX, text::REGIONS] };

/// The maxima of regions of images over a grid of bins, and their places.
///
/// # Errors
/// Those of the CPU's checks, `NotImplemented` for other than floating point; regions of images that do not exist
/// are reported later.
pub fn roi_pool(
    input: &Tensor,
    rois: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
) -> Result<(Tensor, Tensor)> {
    let (scale, bins) = (spatial_scale, [pooled_height, pooled_width]);
    let planned = op::roi_pool(&on_meta(input)?, &on_meta(rois)?, scale, bins[0], bins[1])?;
    let dtype = input.dtype();
    wide(dtype, "roi_pool_forward_kernel")?;
    let out = empty(&planned.0.sizes(), dtype, input)?;
    let places = empty(&planned.1.sizes(), DType::Int32, input)?;
    let (images, rois) = (contiguous(input)?, contiguous(rois)?);
    let tensors = [
        (&out, Access::Write),
        (&places, Access::Write),
        (&images, Access::Read),
        (&rois, Access::Read),
    ];
    let of = [Argument::Storage(dtype), Argument::Value(dtype)];
    Regions::of(shape_of(input), bins, scale).launch(&POOL, &of, out.numel(), &tensors)?;
    Ok((out, places))
}

/// The gradient of the images.
///
/// # Errors
/// As for [`roi_pool`].
pub fn roi_pool_backward(
    grad: &Tensor,
    rois: &Tensor,
    argmax: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
    batch_size: i64,
    channels: i64,
    height: i64,
    width: i64,
) -> Result<Tensor> {
    let (scale, bins) = (spatial_scale, [pooled_height, pooled_width]);
    let shape = [batch_size, channels, height, width];
    op::_roi_pool_backward(
        &on_meta(grad)?,
        &on_meta(rois)?,
        &on_meta(argmax)?,
        scale,
        bins[0],
        bins[1],
        shape[0],
        shape[1],
        shape[2],
        shape[3],
    )?;
    let dtype = grad.dtype();
    let sums = wide(dtype, "roi_pool_backward_kernel")?;
    let out = zeros(&shape, sums, grad)?;
    let (grad, rois, argmax) = (contiguous(grad)?, contiguous(rois)?, contiguous(argmax)?);
    let tensors = [
        (&out, Access::Write),
        (&grad, Access::Read),
        (&rois, Access::Read),
        (&argmax, Access::Read),
    ];
    let of = [Argument::Storage(dtype), Argument::Value(sums)];
    Regions::of(shape, bins, scale).launch(&GRADIENT, &of, grad.numel(), &tensors)?;
    op::to_dtype(&out, dtype, false, false, None)
}
