//! Means of regions from values between pixels, each bin in channels of its own.

use super::channels::{check_channels, write_channels};
use super::region::{
    Bins, Real, Region, RegionShape, Shares, Taps, check_ratio, mean, regions, spread,
};
use crate::kernels::support::{contiguous, empty, empty_as, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{Access, AccessSet, DType, Result, match_dtype, try_collect};
use corten_ops::Tensor;

/// The pixels of a region's bins, and the number of samples in each.
struct Grid<C> {
    rows: Taps<C>,
    columns: Taps<C>,
    count: C,
}

impl<C: Real> Grid<C> {
    fn of(region: &Region<C>, sizes: &RegionShape, scale: f64, ratio: i64) -> Result<Self> {
        let (scale, half) = (C::of(scale), C::of(0.5));
        let [x1, y1, x2, y2] = region.corners.map(|corner| corner * scale - half);
        let rows = Bins::of(y1, y2 - y1, sizes.bins[0], ratio);
        let columns = Bins::of(x1, x2 - x1, sizes.bins[1], ratio);
        let count = C::of(rows.samples as f64 * columns.samples as f64);
        let rows = Taps::of(rows, sizes.bins[0], sizes.height)?;
        let columns = Taps::of(columns, sizes.bins[1], sizes.width)?;
        Ok(Self { rows, columns, count })
    }

    #[inline(always)]
    fn bin(&self, bin: usize, sizes: &RegionShape) -> (Shares<'_, C>, Shares<'_, C>) {
        (self.rows.bin(bin / sizes.bins[1]), self.columns.bin(bin % sizes.bins[1]))
    }
}

/// The means of regions of images over a grid of bins, and the channels that they are of.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit, `NotImplemented` for other than floating point.
pub fn ps_roi_align(
    input: &Tensor,
    rois: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
    sampling_ratio: i64,
) -> Result<(Tensor, Tensor)> {
    let name = "ps_roi_align";
    let sizes = RegionShape::of(input, rois, [pooled_height, pooled_width], name)?;
    check_ratio(sampling_ratio, name)?;
    let channels = sizes.channels_out()?;
    let shape = [rois.sizes()[0], channels as i64, pooled_height, pooled_width];
    let (out, places) = (empty(&shape, input)?, empty_as(&shape, input, DType::Int32)?);
    if is_shape_only(&out) || (out.numel() == 0 && input.dtype().is_floating_point()) {
        return Ok((out, places));
    }
    let (input, rois) = (contiguous(input)?, contiguous(rois)?);
    match_dtype!(input.dtype(), "ps_roi_align_forward_kernel", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write), (&places, Access::Write),
            (&input, Access::Read), (&rois, Access::Read),
        ])?;
        let regions = regions(access.read::<T>(3)?, sizes.images, name)?;
        let results = (access.write::<T>(0)?, access.write::<i32>(1)?);
        let input = access.read::<T>(2)?;
        forward(input, results, &regions, &sizes, |region| {
            Grid::of(region, &sizes, spatial_scale, sampling_ratio)
        })
    })?;
    Ok((out, places))
}

fn forward<T: Float>(
    input: &[T],
    (out, places): (&mut [T], &mut [i32]),
    regions: &[Region<T::Wide>],
    sizes: &RegionShape,
    grid: impl Fn(&Region<T::Wide>) -> Result<Grid<T::Wide>> + Sync,
) -> Result<()>
where
    T::Wide: Real,
{
    let (plane, channels) = (sizes.plane(), sizes.channels);
    let grain = grain_of(channels * 16);
    for_each_chunk2((out, channels), (places, channels), grain, |nr, out, places| {
        write_channels(places);
        let (region, grid) = (&regions[nr], grid(&regions[nr])?);
        for (channel, out) in out.iter_mut().enumerate() {
            let input = &input[(region.image * channels + channel) * plane..][..plane];
            let (rows, columns) = grid.bin(channel % sizes.count(), sizes);
            *out = T::narrow(mean(input, sizes.width, rows, columns, grid.count));
        }
        Ok(())
    })
}

/// The gradient of the images.
///
/// # Errors
/// As for [`ps_roi_align`]; `Runtime` for channels other than those that it returned.
pub fn ps_roi_align_backward(
    grad: &Tensor,
    rois: &Tensor,
    channel_mapping: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
    sampling_ratio: i64,
    batch_size: i64,
    channels: i64,
    height: i64,
    width: i64,
) -> Result<Tensor> {
    let (name, pooled) = ("_ps_roi_align_backward", [pooled_height, pooled_width]);
    let shape = [batch_size, channels, height, width];
    let per = pooled_height.saturating_mul(pooled_width);
    let sizes = RegionShape::of_gradient(grad, rois, shape, pooled, per, name)?;
    check_ratio(sampling_ratio, name)?;
    sizes.channels_out()?;
    let out = empty(&sizes.shape(), grad)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    check_channels(channel_mapping, grad, &sizes)?;
    let (grad, rois) = (contiguous(grad)?, contiguous(rois)?);
    match_dtype!(grad.dtype(), "ps_roi_align_backward_kernel", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write), (&grad, Access::Read), (&rois, Access::Read),
        ])?;
        let regions = regions(access.read::<T>(2)?, sizes.images, name)?;
        let grids = regions.iter().map(|region| {
            Grid::of(region, &sizes, spatial_scale, sampling_ratio)
        });
        let grids = try_collect(grids)?.into_iter().collect::<Result<Vec<_>>>()?;
        backward(access.read::<T>(1)?, access.write::<T>(0)?, &regions, &grids, &sizes)
    })?;
    Ok(out)
}

fn backward<T: Float>(
    grad: &[T],
    out: &mut [T],
    regions: &[Region<T::Wide>],
    grids: &[Grid<T::Wide>],
    sizes: &RegionShape,
) -> Result<()>
where
    T::Wide: Real,
{
    let plane = sizes.plane();
    let work = plane + regions.len().div_ceil(sizes.images.max(1)) * 16;
    for_each_chunk(out, plane, grain_of(work), |place, out| {
        let (image, channel) = (place / sizes.channels, place % sizes.channels);
        T::fill(out, &mut Vec::new(), |sums| {
            sums.fill(T::Wide::ZERO);
            for (nr, (region, grid)) in regions.iter().zip(grids).enumerate() {
                if region.image == image {
                    let grad = grad[nr * sizes.channels + channel].widen() / grid.count;
                    let (rows, columns) = grid.bin(channel % sizes.count(), sizes);
                    spread(sums, sizes.width, rows, columns, grad);
                }
            }
        });
        Ok(())
    })
}
