//! Means of regions, each bin in channels of its own.

use super::channels::{check_channels, write_channels};
use super::region::{Real, Region, RegionShape, regions};
use crate::kernels::support::{contiguous, empty, empty_as, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{Access, AccessSet, DType, Result, match_dtype};
use corten_ops::Tensor;
use std::ops::Range;

/// The bins of one axis of a region.
struct Edges<C> {
    start: i64,
    length: C,
    size: usize,
}

impl<C: Real> Edges<C> {
    fn of(first: C, last: C, scale: C, bins: usize, size: usize) -> Self {
        let whole = |corner: C| (corner * scale).round().as_f64() as i64;
        let (start, end) = (whole(first), whole(last));
        // Regions without an extent are one pixel long.
        let extent = end.saturating_sub(start).max(1);
        Self { start, length: C::of(extent as f64) / C::of(bins as f64), size }
    }

    /// The pixels of a bin: never the last of the axis, as in the original.
    fn bin(&self, bin: usize) -> Range<usize> {
        let most = self.size.saturating_sub(1) as i64;
        let edge = |at: C| self.start.saturating_add(at.as_f64() as i64).clamp(0, most) as usize;
        let low = edge((C::of(bin as f64) * self.length).floor());
        let high = edge((C::of(bin as f64 + 1.0) * self.length).ceil());
        low..high
    }
}

/// The pixels of a bin, by rows and by columns.
fn bin_of<C: Real>(
    region: &Region<C>,
    bin: usize,
    sizes: &RegionShape,
    scale: C,
) -> (Range<usize>, Range<usize>) {
    let [x1, y1, x2, y2] = region.corners;
    let rows = Edges::of(y1, y2, scale, sizes.bins[0], sizes.height);
    let columns = Edges::of(x1, x2, scale, sizes.bins[1], sizes.width);
    (rows.bin(bin / sizes.bins[1]), columns.bin(bin % sizes.bins[1]))
}

/// The means of regions of images over a grid of bins, and the channels that they are of.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit, `NotImplemented` for other than floating point.
pub fn ps_roi_pool(
    input: &Tensor,
    rois: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
) -> Result<(Tensor, Tensor)> {
    let name = "ps_roi_pool";
    let sizes = RegionShape::of(input, rois, [pooled_height, pooled_width], name)?;
    let channels = sizes.channels_out()?;
    let shape = [rois.sizes()[0], channels as i64, pooled_height, pooled_width];
    let (out, places) = (empty(&shape, input)?, empty_as(&shape, input, DType::Int32)?);
    if is_shape_only(&out) || (out.numel() == 0 && input.dtype().is_floating_point()) {
        return Ok((out, places));
    }
    let (input, rois) = (contiguous(input)?, contiguous(rois)?);
    match_dtype!(input.dtype(), "ps_roi_pool_forward_kernel", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write), (&places, Access::Write),
            (&input, Access::Read), (&rois, Access::Read),
        ])?;
        let regions = regions(access.read::<T>(3)?, sizes.images, name)?;
        let results = (access.write::<T>(0)?, access.write::<i32>(1)?);
        forward(access.read::<T>(2)?, results, &regions, &sizes, spatial_scale)
    })?;
    Ok((out, places))
}

fn forward<T: Float>(
    input: &[T],
    (out, places): (&mut [T], &mut [i32]),
    regions: &[Region<T::Wide>],
    sizes: &RegionShape,
    scale: f64,
) -> Result<()>
where
    T::Wide: Real,
{
    let (plane, channels, scale) = (sizes.plane(), sizes.channels, T::Wide::of(scale));
    let grain = grain_of(channels * 16);
    for_each_chunk2((out, channels), (places, channels), grain, |nr, out, places| {
        write_channels(places);
        let region = &regions[nr];
        for (channel, out) in out.iter_mut().enumerate() {
            let input = &input[(region.image * channels + channel) * plane..][..plane];
            let (rows, columns) = bin_of(region, channel % sizes.count(), sizes, scale);
            let pixels = rows.len() * columns.len();
            let mut sum = T::Wide::ZERO;
            for row in rows {
                let row = &input[row * sizes.width..][..sizes.width];
                row[columns.clone()].iter().for_each(|pixel| sum += pixel.widen());
            }
            let mean = if pixels == 0 { T::Wide::ZERO } else { sum / T::Wide::of(pixels as f64) };
            *out = T::narrow(mean);
        }
        Ok(())
    })
}

/// The gradient of the images.
///
/// # Errors
/// As for [`ps_roi_pool`]; `Runtime` for channels other than those that it returned.
pub fn ps_roi_pool_backward(
    grad: &Tensor,
    rois: &Tensor,
    channel_mapping: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
    batch_size: i64,
    channels: i64,
    height: i64,
    width: i64,
) -> Result<Tensor> {
    let (name, pooled) = ("_ps_roi_pool_backward", [pooled_height, pooled_width]);
    let shape = [batch_size, channels, height, width];
    let per = pooled_height.saturating_mul(pooled_width);
    let sizes = RegionShape::of_gradient(grad, rois, shape, pooled, per, name)?;
    sizes.channels_out()?;
    let out = empty(&sizes.shape(), grad)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    check_channels(channel_mapping, grad, &sizes)?;
    let (grad, rois) = (contiguous(grad)?, contiguous(rois)?);
    match_dtype!(grad.dtype(), "ps_roi_pool_backward_kernel", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write), (&grad, Access::Read), (&rois, Access::Read),
        ])?;
        let regions = regions(access.read::<T>(2)?, sizes.images, name)?;
        let (grad, out) = (access.read::<T>(1)?, access.write::<T>(0)?);
        backward(grad, out, &regions, &sizes, spatial_scale)
    })?;
    Ok(out)
}

fn backward<T: Float>(
    grad: &[T],
    out: &mut [T],
    regions: &[Region<T::Wide>],
    sizes: &RegionShape,
    scale: f64,
) -> Result<()>
where
    T::Wide: Real,
{
    let (plane, scale) = (sizes.plane(), T::Wide::of(scale));
    let work = plane + regions.len().div_ceil(sizes.images.max(1)) * 16;
    for_each_chunk(out, plane, grain_of(work), |place, out| {
        let (image, channel) = (place / sizes.channels, place % sizes.channels);
        T::fill(out, &mut Vec::new(), |sums| {
            sums.fill(T::Wide::ZERO);
            let own = regions.iter().enumerate().filter(|(_, region)| region.image == image);
            for (nr, region) in own {
                let (rows, columns) = bin_of(region, channel % sizes.count(), sizes, scale);
                let pixels = T::Wide::of((rows.len() * columns.len()) as f64);
                let share = grad[nr * sizes.channels + channel].widen() / pixels;
                for row in rows {
                    let row = &mut sums[row * sizes.width..][..sizes.width];
                    row[columns.clone()].iter_mut().for_each(|pixel| *pixel += share);
                }
            }
        });
        Ok(())
    })
}
