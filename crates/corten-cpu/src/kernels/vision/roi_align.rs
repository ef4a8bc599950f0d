//! Means of regions, from values between pixels.

use super::region::{
    Bins, Real, Region, RegionShape, Shares, Taps, check_ratio, mean, regions, spread,
};
use crate::kernels::support::{contiguous, empty, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, for_each_run, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{Access, AccessSet, Result, match_dtype, try_collect};
use corten_ops::Tensor;

/// What a call says beside its tensors.
struct Settings {
    scale: f64,
    ratio: i64,
    aligned: bool,
}

impl Settings {
    fn of(scale: f64, ratio: i64, aligned: bool, name: &str) -> Result<Self> {
        check_ratio(ratio, name)?;
        Ok(Self { scale, ratio, aligned })
    }
}

/// The pixels of a region's bins, and the number of samples in each.
struct Grid<C> {
    rows: Taps<C>,
    columns: Taps<C>,
    count: C,
}

impl<C: Real> Grid<C> {
    fn of(region: &Region<C>, sizes: &RegionShape, settings: &Settings) -> Result<Self> {
        let (scale, half) = (C::of(settings.scale), C::of(0.5));
        let offset = if settings.aligned { half } else { C::ZERO };
        let [x1, y1, x2, y2] = region.corners.map(|corner| corner * scale - offset);
        let extent = |first: C, last: C| match settings.aligned {
            true => last - first,
            false => (last - first).at_least(C::ONE),
        };
        let rows = Bins::of(y1, extent(y1, y2), sizes.bins[0], settings.ratio);
        let columns = Bins::of(x1, extent(x1, x2), sizes.bins[1], settings.ratio);
        let count = C::of((rows.samples as f64 * columns.samples as f64).max(1.0));
        let rows = Taps::of(rows, sizes.bins[0], sizes.height)?;
        let columns = Taps::of(columns, sizes.bins[1], sizes.width)?;
        Ok(Self { rows, columns, count })
    }
}

/// The means of regions of images over a grid of bins.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit, `NotImplemented` for other than floating point.
pub fn roi_align(
    input: &Tensor,
    rois: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
    sampling_ratio: i64,
    aligned: bool,
) -> Result<Tensor> {
    let name = "roi_align";
    let sizes = RegionShape::of(input, rois, [pooled_height, pooled_width], name)?;
    let settings = Settings::of(spatial_scale, sampling_ratio, aligned, name)?;
    let shape = [rois.sizes()[0], sizes.channels as i64, pooled_height, pooled_width];
    let out = empty(&shape, input)?;
    if is_shape_only(&out) || (out.numel() == 0 && input.dtype().is_floating_point()) {
        return Ok(out);
    }
    let (input, rois) = (contiguous(input)?, contiguous(rois)?);
    match_dtype!(input.dtype(), "roi_align_forward_kernel", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write), (&input, Access::Read), (&rois, Access::Read),
        ])?;
        let regions = regions(access.read::<T>(2)?, sizes.images, name)?;
        forward(access.read::<T>(1)?, access.write::<T>(0)?, &regions, &sizes, &settings)
    })?;
    Ok(out)
}

fn forward<T: Float>(
    input: &[T],
    out: &mut [T],
    regions: &[Region<T::Wide>],
    sizes: &RegionShape,
    settings: &Settings,
) -> Result<()>
where
    T::Wide: Real,
{
    let (plane, count) = (sizes.plane(), sizes.count());
    for_each_run(out, count, grain_of(count * 16), |range, run| {
        let mut grid: Option<(usize, Grid<T::Wide>)> = None;
        for (place, out) in range.zip(run.chunks_exact_mut(count)) {
            let (nr, channel) = (place / sizes.channels, place % sizes.channels);
            let region = &regions[nr];
            let known = match grid.take() {
                Some((of, known)) if of == nr => known,
                _ => Grid::of(region, sizes, settings)?,
            };
            let input = &input[(region.image * sizes.channels + channel) * plane..][..plane];
            for (bin, out) in out.iter_mut().enumerate() {
                let (rows, columns) = bins_at(&known, bin, sizes);
                *out = T::narrow(mean(input, sizes.width, rows, columns, known.count));
            }
            grid = Some((nr, known));
        }
        Ok(())
    })
}

/// The pixels of a bin, by rows and by columns.
#[inline(always)]
fn bins_at<'a, C: Real>(
    grid: &'a Grid<C>,
    bin: usize,
    sizes: &RegionShape,
) -> (Shares<'a, C>, Shares<'a, C>) {
    (grid.rows.bin(bin / sizes.bins[1]), grid.columns.bin(bin % sizes.bins[1]))
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
    let (name, pooled) = ("_roi_align_backward", [pooled_height, pooled_width]);
    let shape = [batch_size, channels, height, width];
    let sizes = RegionShape::of_gradient(grad, rois, shape, pooled, 1, name)?;
    let settings = Settings::of(spatial_scale, sampling_ratio, aligned, name)?;
    let out = empty(&sizes.shape(), grad)?;
    if is_shape_only(&out) || (out.numel() == 0 && grad.dtype().is_floating_point()) {
        return Ok(out);
    }
    let (grad, rois) = (contiguous(grad)?, contiguous(rois)?);
    match_dtype!(grad.dtype(), "roi_align_backward_kernel", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write), (&grad, Access::Read), (&rois, Access::Read),
        ])?;
        let regions = regions(access.read::<T>(2)?, sizes.images, name)?;
        backward(access.read::<T>(1)?, access.write::<T>(0)?, &regions, &sizes, &settings)
    })?;
    Ok(out)
}

fn backward<T: Float>(
    grad: &[T],
    out: &mut [T],
    regions: &[Region<T::Wide>],
    sizes: &RegionShape,
    settings: &Settings,
) -> Result<()>
where
    T::Wide: Real,
{
    let grids = regions.iter().map(|region| Grid::of(region, sizes, settings));
    let grids = try_collect(grids)?.into_iter().collect::<Result<Vec<_>>>()?;
    let (plane, count) = (sizes.plane(), sizes.count());
    let work = plane + regions.len().div_ceil(sizes.images.max(1)) * count * 16;
    for_each_chunk(out, plane, grain_of(work), |place, out| {
        let (image, channel) = (place / sizes.channels, place % sizes.channels);
        T::fill(out, &mut Vec::new(), |sums| {
            sums.fill(T::Wide::ZERO);
            for (nr, (region, grid)) in regions.iter().zip(&grids).enumerate() {
                if region.image != image {
                    continue;
                }
                let grad = &grad[(nr * sizes.channels + channel) * count..][..count];
                for (bin, grad) in grad.iter().enumerate() {
                    let (rows, columns) = bins_at(grid, bin, sizes);
                    spread(sums, sizes.width, rows, columns, grad.widen() / grid.count);
                }
            }
        });
        Ok(())
    })
}
