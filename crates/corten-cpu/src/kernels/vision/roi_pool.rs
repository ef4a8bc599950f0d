//! Maxima of regions.

use super::region::{Real, Region, RegionShape, regions};
use crate::kernels::support::{contiguous, empty, empty_as, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{Access, AccessSet, DType, Result, ensure, match_dtype};
use corten_ops::Tensor;
use std::ops::Range;

/// The maxima of regions of images over a grid of bins, and their places.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit, `NotImplemented` for other than floating point.
pub fn roi_pool(
    input: &Tensor,
    rois: &Tensor,
    spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
) -> Result<(Tensor, Tensor)> {
    let name = "roi_pool";
    let sizes = RegionShape::of(input, rois, [pooled_height, pooled_width], name)?;
    ensure!(
        sizes.plane() <= i32::MAX as usize,
        Runtime,
        "{name}: places in images of {} x {} pixels have no 32 bits",
        sizes.height,
        sizes.width
    );
    let shape = [rois.sizes()[0], sizes.channels as i64, pooled_height, pooled_width];
    let (out, places) = (empty(&shape, input)?, empty_as(&shape, input, DType::Int32)?);
    if is_shape_only(&out) || (out.numel() == 0 && input.dtype().is_floating_point()) {
        return Ok((out, places));
    }
    let (input, rois) = (contiguous(input)?, contiguous(rois)?);
    match_dtype!(input.dtype(), "roi_pool_forward_kernel", Float, T => {
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

/// The pixels of each bin of an axis.
struct Edges<C> {
    start: i64,
    length: C,
    size: usize,
}

impl<C: Real> Edges<C> {
    fn of(first: C, last: C, scale: C, bins: usize, size: usize) -> Self {
        let whole = |corner: C| (corner * scale).round().as_f64() as i64;
        let (start, end) = (whole(first), whole(last));
        let extent = end.saturating_sub(start).saturating_add(1).max(1);
        Self { start, length: C::of(extent as f64) / C::of(bins as f64), size }
    }

    fn bin(&self, bin: usize) -> Range<usize> {
        let edge = |at: C| {
            let at = self.start.saturating_add(at.as_f64() as i64);
            at.clamp(0, self.size as i64) as usize
        };
        let low = edge((C::of(bin as f64) * self.length).floor());
        let high = edge((C::of(bin as f64 + 1.0) * self.length).ceil());
        low..high
    }
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
    let (plane, count) = (sizes.plane(), sizes.count());
    let scale = T::Wide::of(scale);
    let grain = grain_of(count * 16);
    for_each_chunk2((out, count), (places, count), grain, |place, out, places| {
        let (region, channel) = (&regions[place / sizes.channels], place % sizes.channels);
        let [x1, y1, x2, y2] = region.corners;
        let rows = Edges::of(y1, y2, scale, sizes.bins[0], sizes.height);
        let columns = Edges::of(x1, x2, scale, sizes.bins[1], sizes.width);
        let input = &input[(region.image * sizes.channels + channel) * plane..][..plane];
        for (bin, (out, place)) in out.iter_mut().zip(places).enumerate() {
            let (rows, columns) = (rows.bin(bin / sizes.bins[1]), columns.bin(bin % sizes.bins[1]));
            (*out, *place) = largest(input, sizes.width, rows, columns);
        }
        Ok(())
    })
}

/// The largest pixel of a bin and its place; zero and -1 for a bin without pixels.
fn largest<T: Float>(
    plane: &[T],
    width: usize,
    rows: Range<usize>,
    columns: Range<usize>,
) -> (T, i32) {
    if rows.is_empty() || columns.is_empty() {
        return (T::narrow(T::Wide::ZERO), -1);
    }
    // Bins of NaN alone have the least number.
    let (mut best, mut place) = (T::Wide::of(f64::from(f32::MIN)), -1);
    for row in rows {
        for column in columns.clone() {
            let value = plane[row * width + column].widen();
            if value > best {
                (best, place) = (value, (row * width + column) as i32);
            }
        }
    }
    (T::narrow(best), place)
}

/// The gradient of the images: that of every bin, where its maximum was.
///
/// # Errors
/// `Runtime` for shapes, dtypes and places that do not fit.
pub fn roi_pool_backward(
    grad: &Tensor,
    rois: &Tensor,
    argmax: &Tensor,
    _spatial_scale: f64,
    pooled_height: i64,
    pooled_width: i64,
    batch_size: i64,
    channels: i64,
    height: i64,
    width: i64,
) -> Result<Tensor> {
    let (name, pooled) = ("_roi_pool_backward", [pooled_height, pooled_width]);
    let shape = [batch_size, channels, height, width];
    let sizes = RegionShape::of_gradient(grad, rois, shape, pooled, 1, name)?;
    ensure!(
        argmax.sizes() == grad.sizes() && argmax.dtype() == DType::Int32,
        Runtime,
        "{name}: argmax should be an int32 tensor of the shape of grad"
    );
    let out = empty(&sizes.shape(), grad)?;
    if is_shape_only(&out) || (out.numel() == 0 && grad.dtype().is_floating_point()) {
        return Ok(out);
    }
    let (grad, rois, argmax) = (contiguous(grad)?, contiguous(rois)?, contiguous(argmax)?);
    match_dtype!(grad.dtype(), "roi_pool_backward_kernel", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write), (&grad, Access::Read), (&rois, Access::Read),
            (&argmax, Access::Read),
        ])?;
        let regions = regions(access.read::<T>(2)?, sizes.images, name)?;
        let places = access.read::<i32>(3)?;
        let known = |&place: &i32| place == -1 || (0 <= place && (place as usize) < sizes.plane());
        ensure!(places.iter().all(known), Runtime, "{name}: argmax is outside of the images");
        backward(access.read::<T>(1)?, places, access.write::<T>(0)?, &regions, &sizes)
    })?;
    Ok(out)
}

fn backward<T: Float>(
    grad: &[T],
    places: &[i32],
    out: &mut [T],
    regions: &[Region<T::Wide>],
    sizes: &RegionShape,
) -> Result<()>
where
    T::Wide: Real,
{
    let (plane, count) = (sizes.plane(), sizes.count());
    let work = plane + regions.len().div_ceil(sizes.images.max(1)) * count;
    for_each_chunk(out, plane, grain_of(work), |place, out| {
        let (image, channel) = (place / sizes.channels, place % sizes.channels);
        T::fill(out, &mut Vec::new(), |sums| {
            sums.fill(T::Wide::ZERO);
            for (nr, _) in regions.iter().enumerate().filter(|(_, region)| region.image == image) {
                let first = (nr * sizes.channels + channel) * count;
                let bins = grad[first..][..count].iter().zip(&places[first..][..count]);
                for (grad, &place) in bins {
                    if let Some(sum) = sums.get_mut(place as usize) {
                        *sum += grad.widen();
                    }
                }
            }
        });
        Ok(())
    })
}
