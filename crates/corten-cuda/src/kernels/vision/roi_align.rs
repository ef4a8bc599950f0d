//! Means of regions, from values between pixels.

use super::regions::{Regions, shape_of, wide};
use crate::kernel::{Argument, Template};
use crate::operands::{contiguous, empty, on_meta, zeros};
use crate::text;
use corten_core::{Access, Result};
use corten_ops::{Tensor, op};

static ALIGN: Template = Template { name: "align_regions", text: &[text::INDEX, text::REGIONS] };
static GRADIENT: Template =
    Template { name: "align_regions_gradient", text: &[text::INDEX, text::REGIONS] };

/// The means of regions of images over a grid of bins.
///
/// # Errors
/// Those of the CPU's checks, `NotImplemented` for other than floating point; regions of images that do not exist
/// are reported later.
pub fn roi_align(
    input: &Tensor,
    rois: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
    sampling_ratio: i64,
    aligned: bool,
) -> Result<Tensor> {
    let (scale, bins, ratio) = (spatial_scale, [pooled_height, pooled_width], sampling_ratio);
    let on = (on_meta(input)?, on_meta(rois)?);
    let planned = op::roi_align(&on.0, &on.1, scale, bins[0], bins[1], ratio, aligned)?;
    let dtype = input.dtype();
    wide(dtype, "roi_align_forward_kernel")?;
    let out = empty(&planned.sizes(), dtype, input)?;
    let channels = Tensor::default();
    let (images, rois) = (contiguous(input)?, contiguous(rois)?);
    let tensors = [
        (&out, Access::Write),
        (&channels, Access::Write),
        (&images, Access::Read),
        (&rois, Access::Read),
    ];
    let of = [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(0)];
    let regions =
        Regions { ratio, aligned: aligned.into(), ..Regions::of(shape_of(input), bins, scale) };
    regions.launch(&ALIGN, &of, out.numel(), &tensors)?;
    Ok(out)
}

/// The gradient of the images.
///
/// # Errors
/// As for [`roi_align`].
pub fn roi_align_backward(
    grad: &Tensor,
    rois: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
    batch_size: i64,
    channels: i64,
    height: i64,
    width: i64,
    sampling_ratio: i64,
    aligned: bool,
) -> Result<Tensor> {
    let (scale, bins, ratio) = (spatial_scale, [pooled_height, pooled_width], sampling_ratio);
    let shape = [batch_size, channels, height, width];
    op::_roi_align_backward(
        &on_meta(grad)?,
        &on_meta(rois)?,
        scale,
        bins[0],
        bins[1],
        shape[0],
        shape[1],
        shape[2],
        shape[3],
        ratio,
        aligned,
    )?;
    let dtype = grad.dtype();
    let sums = wide(dtype, "roi_align_backward_kernel")?;
    let out = zeros(&shape, sums, grad)?;
    let (grad, rois) = (contiguous(grad)?, contiguous(rois)?);
    let tensors = [(&out, Access::Write), (&grad, Access::Read), (&rois, Access::Read)];
    let of = [Argument::Storage(dtype), Argument::Value(sums), Argument::Number(0)];
    let regions = Regions { ratio, aligned: aligned.into(), ..Regions::of(shape, bins, scale) };
    regions.launch(&GRADIENT, &of, grad.numel(), &tensors)?;
    op::to_dtype(&out, dtype, false, false, None)
}
