//! What the operators on regions share: their arguments, and the pixels that bins are made of.

use crate::rows::{Float, Wide};
use corten_core::{Result, ensure, try_reserve, try_with_capacity};
use corten_ops::Tensor;

/// Pixels along one dimension, with their shares.
pub(super) type Shares<'a, C> = &'a [(usize, C)];

/// A number that coordinates are computed in.
pub(super) trait Real: Wide {
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round(self) -> Self;
    fn is_finite(self) -> bool;

    /// The larger number; the first one where the other is NaN.
    #[inline(always)]
    fn at_least(self, least: Self) -> Self {
        if self > least { self } else { least }
    }
}

macro_rules! real {
    ($t:ident) => {
        impl Real for $t {
            #[inline(always)]
            fn floor(self) -> Self {
                self.floor()
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                self.ceil()
            }
            #[inline(always)]
            fn round(self) -> Self {
                self.round()
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
        }
    };
}

real!(f32);
real!(f64);

/// One region: the image that it is of, and the corners `x1, y1, x2, y2`.
pub(super) struct Region<C> {
    pub(super) image: usize,
    pub(super) corners: [C; 4],
}

/// The regions that the rows of a `[K, 5]` tensor describe.
///
/// # Errors
/// `Runtime` for a region of an image that does not exist.
pub(super) fn regions<T: Float>(
    rois: &[T],
    images: usize,
    name: &str,
) -> Result<Vec<Region<T::Wide>>> {
    let mut found = try_with_capacity(rois.len() / 5)?;
    for (nr, row) in rois.chunks_exact(5).enumerate() {
        let image = row[0].widen().as_f64();
        // The index is cut to a whole number, so that -0.5 is 0 as well.
        let inside = image > -1.0 && image < images as f64;
        ensure!(
            inside,
            Runtime,
            "{name}: region {nr} is of image {image}, but there are {images} images"
        );
        let corners = std::array::from_fn(|i| row[i + 1].widen());
        found.push(Region { image: image as usize, corners });
    }
    Ok(found)
}

/// The sizes of a call on regions.
#[derive(Clone, Copy)]
pub(super) struct RegionShape {
    pub(super) images: usize,
    pub(super) channels: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    /// Bins per column and per row of a region.
    pub(super) bins: [usize; 2],
}

impl RegionShape {
    /// The sizes of a forward call.
    ///
    /// # Errors
    /// `Runtime` for shapes and dtypes that do not fit.
    pub(super) fn of(input: &Tensor, rois: &Tensor, pooled: [i64; 2], name: &str) -> Result<Self> {
        check_rois(rois, name)?;
        let sizes = input.sizes();
        ensure!(
            sizes.len() == 4,
            Runtime,
            "{name}: input should have 4 dimensions [N, C, H, W], got {:?}",
            sizes.as_slice()
        );
        ensure!(
            input.dtype() == rois.dtype(),
            Runtime,
            "{name}: input should have the same type as rois, got {} and {}",
            input.dtype(),
            rois.dtype()
        );
        Self::checked([sizes[0], sizes[1], sizes[2], sizes[3]], pooled, name)
    }

    /// The sizes of a backward call, whose gradient is of regions in `channels / per` channels.
    ///
    /// # Errors
    /// `Runtime` for shapes and dtypes that do not fit.
    pub(super) fn of_gradient(
        grad: &Tensor,
        rois: &Tensor,
        shape: [i64; 4],
        pooled: [i64; 2],
        per: i64,
        name: &str,
    ) -> Result<Self> {
        check_rois(rois, name)?;
        ensure!(
            grad.dtype() == rois.dtype(),
            Runtime,
            "{name}: grad should have the same type as rois, got {} and {}",
            grad.dtype(),
            rois.dtype()
        );
        let found = Self::checked(shape, pooled, name)?;
        let wanted = [rois.sizes()[0], shape[1] / per.max(1), pooled[0], pooled[1]];
        ensure!(
            grad.sizes().as_slice() == wanted,
            Runtime,
            "{name}: grad should have the shape {wanted:?}, got {:?}",
            grad.sizes().as_slice()
        );
        Ok(found)
    }

    fn checked(shape: [i64; 4], pooled: [i64; 2], name: &str) -> Result<Self> {
        let whole = shape.iter().chain(&pooled).all(|&size| size >= 0);
        ensure!(
            whole,
            Runtime,
            "{name}: sizes should not be negative, got images of {shape:?} and {pooled:?} bins"
        );
        let [images, channels, height, width] = shape.map(|size| size as usize);
        Ok(Self { images, channels, height, width, bins: pooled.map(|bins| bins as usize) })
    }

    /// The pixels of one channel.
    pub(super) fn plane(&self) -> usize {
        self.height.saturating_mul(self.width)
    }

    /// The bins of one channel of a region.
    pub(super) fn count(&self) -> usize {
        self.bins[0].saturating_mul(self.bins[1])
    }

    /// The sizes of the images.
    pub(super) fn shape(&self) -> [i64; 4] {
        [self.images, self.channels, self.height, self.width].map(|size| size as i64)
    }

    /// The channels of a region whose bins have channels of their own.
    ///
    /// # Errors
    /// `Runtime` when the channels cannot be divided so.
    pub(super) fn channels_out(&self) -> Result<usize> {
        let count = self.count();
        ensure!(
            count > 0 && self.channels.is_multiple_of(count),
            Runtime,
            "input channels must be a multiple of pooling height * pooling width"
        );
        Ok(self.channels / count)
    }
}

fn check_rois(rois: &Tensor, name: &str) -> Result<()> {
    let sizes = rois.sizes();
    ensure!(
        sizes.len() == 2 && sizes[1] == 5,
        Runtime,
        "{name}: rois must have shape as Tensor[K, 5], got {:?}",
        sizes.as_slice()
    );
    Ok(())
}

/// The most samples of a bin along one axis.
const SAMPLES: i64 = 1 << 16;

/// That a bin has no more samples than can be computed soon.
///
/// # Errors
/// `Runtime` for more.
pub(super) fn check_ratio(ratio: i64, name: &str) -> Result<()> {
    ensure!(
        ratio <= SAMPLES,
        Runtime,
        "{name}: sampling_ratio should be at most {SAMPLES}, got {ratio}"
    );
    Ok(())
}

/// The bins of one axis of a region: where they begin, how long each is and of how many samples.
#[derive(Clone, Copy)]
pub(super) struct Bins<C> {
    pub(super) start: C,
    pub(super) length: C,
    pub(super) samples: i64,
}

impl<C: Real> Bins<C> {
    /// The bins of an axis of `extent` pixels; as many samples as each is long where the ratio is
    /// not positive.
    pub(super) fn of(start: C, extent: C, bins: usize, ratio: i64) -> Self {
        let length = extent / C::of(bins as f64);
        let samples = if ratio > 0 { ratio } else { length.ceil().as_f64() as i64 };
        Self { start, length, samples }
    }

    /// The samples of a bin that may lie inside of an axis of `size` pixels: all others are far
    /// outside, and a region may be much larger than its image.
    fn near(&self, bin: usize, size: usize) -> std::ops::Range<i64> {
        let all = 0..self.samples.max(0);
        let (length, samples) = (self.length.as_f64(), self.samples as f64);
        let step = length / samples;
        if !self.start.is_finite() || !self.length.is_finite() {
            return 0..0;
        }
        if step <= 0.0 {
            return all;
        }
        let first = self.start.as_f64() + bin as f64 * length;
        let place = |at: f64| (at - first) / step - 0.5;
        let (low, high) = (place(-1.0).floor() - 2.0, place(size as f64).ceil() + 2.0);
        (low as i64).clamp(0, all.end)..(high as i64).clamp(0, all.end)
    }
}

/// The pixels of one axis that take part in the bins of a region, with their weights.
pub(super) struct Taps<C> {
    /// Where the pixels of each bin begin.
    starts: Vec<usize>,
    pixels: Vec<(usize, C)>,
}

impl<C: Real> Taps<C> {
    /// The pixels of the bins of an axis of `size` pixels: every sample is a mean of its two
    /// neighbours, and samples outside are zero.
    ///
    /// # Errors
    /// `Runtime` where there is not as much memory.
    pub(super) fn of(bins: Bins<C>, count: usize, size: usize) -> Result<Self> {
        let mut starts = try_with_capacity(count + 1)?;
        let mut pixels = Vec::new();
        let samples = C::of(bins.samples as f64);
        for bin in 0..count {
            starts.push(pixels.len());
            let first = bins.start + C::of(bin as f64) * bins.length;
            for sample in bins.near(bin, size) {
                let place = (C::of(sample as f64) + C::of(0.5)) * bins.length / samples;
                if let Some(taps) = neighbours(first + place, size) {
                    try_reserve(&mut pixels, 2)?;
                    let begin = starts[bin];
                    taps.iter().flatten().for_each(|&tap| add_to(&mut pixels, begin, tap));
                }
            }
        }
        starts.push(pixels.len());
        Ok(Self { starts, pixels })
    }

    /// The pixels of a bin.
    #[inline(always)]
    pub(super) fn bin(&self, bin: usize) -> &[(usize, C)] {
        &self.pixels[self.starts[bin]..self.starts[bin + 1]]
    }
}

/// The pixels beside a place and their weights; nothing for a place outside.
#[inline(always)]
fn neighbours<C: Real>(at: C, size: usize) -> Option<[Option<(usize, C)>; 2]> {
    let inside = at >= -C::ONE && at <= C::of(size as f64);
    if !inside || size == 0 {
        return None;
    }
    let at = if at <= C::ZERO { C::ZERO } else { at };
    let low = at.as_f64() as usize;
    if low + 1 >= size {
        return Some([Some((size - 1, C::ONE)), None]);
    }
    let rest = at - C::of(low as f64);
    Some([Some((low, C::ONE - rest)), Some((low + 1, rest))])
}

/// Adds a weight to that of the same pixel, which is among the last two of the bin if it is there.
#[inline(always)]
fn add_to<C: Real>(pixels: &mut Vec<(usize, C)>, begin: usize, (pixel, weight): (usize, C)) {
    let recent = pixels.len().saturating_sub(2).max(begin);
    match pixels[recent..].iter_mut().find(|(at, _)| *at == pixel) {
        Some((_, sum)) => *sum += weight,
        None => pixels.push((pixel, weight)),
    }
}

/// The mean of a bin: the sum over its pixels, divided by the samples.
#[inline(always)]
pub(super) fn mean<T: Float>(
    plane: &[T],
    width: usize,
    rows: &[(usize, T::Wide)],
    columns: &[(usize, T::Wide)],
    count: T::Wide,
) -> T::Wide {
    let mut sum = T::Wide::ZERO;
    for &(row, share) in rows {
        let pixels = &plane[row * width..][..width];
        let mut line = T::Wide::ZERO;
        for &(column, weight) in columns {
            line += pixels[column].widen() * weight;
        }
        sum += line * share;
    }
    sum / count
}

/// Adds the gradient of a bin's mean to those of its pixels.
#[inline(always)]
pub(super) fn spread<C: Real>(
    plane: &mut [C],
    width: usize,
    rows: &[(usize, C)],
    columns: &[(usize, C)],
    grad: C,
) {
    for &(row, share) in rows {
        let pixels = &mut plane[row * width..][..width];
        for &(column, weight) in columns {
            pixels[column] += grad * share * weight;
        }
    }
}
