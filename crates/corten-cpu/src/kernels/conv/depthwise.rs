//! Convolutions with one input channel per group, where matrices would have a single row.

use super::geometry::Geometry;
use crate::chunks::{for_each_run, grain_of};
use crate::row_loops::{Job, compiled, load, load_spaced, store};
use crate::rows::Wide;
use crate::vec::Lanes;
use corten_core::Result;

/// Whether this path is for the geometry.
pub(super) fn fits(geometry: &Geometry) -> bool {
    geometry.groups > 1 && geometry.group_channels() == 1
}

/// `output = weight * image (+ bias)`, for every sample.
pub(super) fn correlate<W: Wide>(
    geometry: &Geometry,
    output: &mut [W],
    image: &[W],
    weight: &[W],
    bias: Option<&[W]>,
) -> Result<()> {
    if geometry.channels_last {
        return pixels(geometry, output, image, weight, bias);
    }
    let (positions, pixels) = (geometry.positions(), geometry.pixels());
    let size = geometry.kernel_size();
    let padded = Padded::of(geometry);
    for_each_run(output, positions, grain_of(positions * size), |planes, output| {
        let mut room = vec![W::ZERO; padded.room()];
        for (plane, output) in planes.zip(output.chunks_exact_mut(positions.max(1))) {
            let feature = plane % geometry.features;
            let channel =
                plane / geometry.features * geometry.channels + feature / geometry.group_features();
            W::run(Plane {
                padded: &padded,
                room: &mut room,
                image: &image[channel * pixels..][..pixels],
                output,
                weight: &weight[feature * size..][..size],
                bias: bias.map_or(W::ZERO, |bias| bias[feature]),
            });
        }
        Ok(())
    })
}

/// Elements of the padded rows that are made at a time, about: they stay in the first-level cache.
const ROOM: usize = 6144;

/// Elements of the widest vector, which loads may reach beyond the end.
const SLACK: usize = 16;

/// Output rows that are computed together, so that a weight is loaded once for all of them.
const ROWS: usize = 4;

/// How rows of an image are laid out with their padding, so that the elements that meet a kernel
/// element lie side by side, at the same place for every output row: a row is kept as `stride`
/// segments, each of which has every `stride`th element.
struct Padded<'a> {
    geometry: &'a Geometry,
    /// Elements of a segment and of a row.
    segment: usize,
    row: usize,
    /// Output rows that are computed at a time, and the rows of the image that they look at.
    height: usize,
    rows: usize,
    /// Where each kernel element finds the first output element's partner.
    taps: Vec<usize>,
}

impl<'a> Padded<'a> {
    fn of(geometry: &'a Geometry) -> Self {
        let ([kd, kh, kw], [_, sy, sx]) = (geometry.kernel, geometry.stride);
        let [_, dy, dx] = geometry.dilation;
        let segment = geometry.output[2] + (kw - 1) * dx / sx;
        let row = segment * sx;
        let reach = (kh - 1) * dy + 1;
        let fitting = (ROOM / (row * kd).max(1)).saturating_sub(reach) / sy + 1;
        let height = fitting.next_multiple_of(ROWS).min(geometry.output[1]).max(1);
        let rows = (height - 1) * sy + reach;
        let tap = |kernel: usize| {
            let [z, y, x] = [kernel / (kh * kw), kernel / kw % kh, kernel % kw];
            (z * rows + y * dy) * row + x * dx % sx * segment + x * dx / sx
        };
        let taps = (0..geometry.kernel_size()).map(tap).collect();
        Self { geometry, segment, row, height, rows, taps }
    }

    fn room(&self) -> usize {
        self.geometry.kernel[0] * self.rows * self.row + SLACK
    }

    /// Lays out the rows for the output rows from `first` on.
    #[inline(always)]
    fn fill<W: Wide>(&self, room: &mut [W], image: &[W], depth: usize, first: usize) {
        let geometry = self.geometry;
        let [_, height, width] = geometry.image;
        let mut lines = room.chunks_exact_mut(self.row.max(1));
        for kernel in 0..geometry.kernel[0] {
            let z = source(geometry, 0, depth, kernel * geometry.dilation[0]);
            for j in 0..self.rows {
                let Some(line) = lines.next() else { return };
                match z.zip(source(geometry, 1, first, j)) {
                    Some((z, y)) => {
                        self.fill_row(line, &image[(z * height + y) * width..][..width])
                    }
                    None => line.fill(W::ZERO),
                }
            }
        }
    }

    #[inline(always)]
    fn fill_row<W: Wide>(&self, line: &mut [W], from: &[W]) {
        let (stride, padding) = (self.geometry.stride[2], self.geometry.padding[2]);
        for (phase, segment) in line.chunks_exact_mut(self.segment.max(1)).enumerate() {
            // The first place of the segment that is inside, and what it holds.
            let skip = padding.saturating_sub(phase).div_ceil(stride).min(segment.len());
            let (before, inside) = segment.split_at_mut(skip);
            before.fill(W::ZERO);
            let start = (skip * stride + phase).saturating_sub(padding).min(from.len());
            let count = (from.len() - start).div_ceil(stride).min(inside.len());
            let (inside, after) = inside.split_at_mut(count);
            if stride == 1 {
                inside.copy_from_slice(&from[start..][..count]);
            } else {
                let values = from[start..].iter().step_by(stride);
                inside.iter_mut().zip(values).for_each(|(to, &value)| *to = value);
            }
            after.fill(W::ZERO);
        }
    }
}

/// The coordinate in the image `offset` behind the first one that an output coordinate looks at.
#[inline(always)]
fn source(geometry: &Geometry, axis: usize, output: usize, offset: usize) -> Option<usize> {
    let place = (output * geometry.stride[axis] + offset).checked_sub(geometry.padding[axis])?;
    (place < geometry.image[axis]).then_some(place)
}

/// One plane of the output.
struct Plane<'a, W> {
    padded: &'a Padded<'a>,
    room: &'a mut [W],
    image: &'a [W],
    output: &'a mut [W],
    weight: &'a [W],
    bias: W,
}

impl<W: Wide> Job<W> for Plane<'_, W> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = W>>(self) {
        let Self { padded, room, image, output, weight, bias } = self;
        let [depths, heights, width] = padded.geometry.output;
        for depth in 0..depths {
            for first in (0..heights).step_by(padded.height) {
                padded.fill(room, image, depth, first);
                let height = padded.height.min(heights - first);
                let output = &mut output[(depth * heights + first) * width..][..height * width];
                let tiles = Tiles { room, taps: &padded.taps, weight, bias };
                tiles.rows::<V>(output, width, padded.geometry.stride[1] * padded.row);
            }
        }
    }
}

/// Where tiles of the output are computed from.
struct Tiles<'a, W> {
    room: &'a [W],
    taps: &'a [usize],
    weight: &'a [W],
    bias: W,
}

impl<W: Wide> Tiles<'_, W> {
    /// Rows of the output, for which the padded rows lie `step` apart.
    #[inline(always)]
    fn rows<V: Lanes<Elem = W>>(&self, output: &mut [W], width: usize, step: usize) {
        let height = output.len() / width.max(1);
        let mut y = 0;
        while y + ROWS <= height {
            for x in (0..width).step_by(V::LANES) {
                let output = &mut output[y * width + x..];
                let count = V::LANES.min(width - x);
                self.tile::<V, ROWS>(output, y * step + x, [step, width], count);
            }
            y += ROWS;
        }
        while y < height {
            let mut x = 0;
            while x + ROWS * V::LANES <= width {
                let output = &mut output[y * width + x..];
                self.tile::<V, ROWS>(output, y * step + x, [V::LANES; 2], V::LANES);
                x += ROWS * V::LANES;
            }
            while x < width {
                let output = &mut output[y * width + x..];
                self.tile::<V, 1>(output, y * step + x, [0; 2], V::LANES.min(width - x));
                x += V::LANES;
            }
            y += 1;
        }
    }

    /// `N` vectors, of which `count` elements are wanted, `steps` apart in the room and the output.
    #[inline(always)]
    fn tile<V: Lanes<Elem = W>, const N: usize>(
        &self,
        output: &mut [W],
        place: usize,
        [step, out_step]: [usize; 2],
        count: usize,
    ) {
        let mut sums = [V::splat(self.bias); N];
        for (&tap, &weight) in self.taps.iter().zip(self.weight) {
            let weight = V::splat(weight);
            let values = load_spaced::<V, N>(&self.room[tap + place..], step);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = value.mul_add(weight, *sum);
            }
        }
        for (n, sum) in sums.into_iter().enumerate() {
            store(sum, output, n * out_step, count);
        }
    }
}

/// The same where channels come last: all channels of a pixel at a time.
fn pixels<W: Wide>(
    geometry: &Geometry,
    output: &mut [W],
    image: &[W],
    weight: &[W],
    bias: Option<&[W]>,
) -> Result<()> {
    let (features, size) = (geometry.features, geometry.kernel_size());
    let per_channel = geometry.group_features();
    // One row per kernel element, so that a pixel is done in runs of features.
    let turned: Vec<W> =
        (0..size * features).map(|i| weight[i % features * size + i / features]).collect();
    let bias = bias.map_or_else(|| vec![W::ZERO; features], <[W]>::to_vec);
    let sample_size = geometry.channels * geometry.pixels();
    let positions = geometry.positions();
    for_each_run(output, features, grain_of(features * size), |range, output| {
        let mut taps = Vec::with_capacity(size);
        for (i, output) in range.zip(output.chunks_exact_mut(features)) {
            let image = &image[i / positions * sample_size..][..sample_size];
            taps_of(geometry, i % positions, &mut taps);
            if per_channel == 1 {
                W::run(Pixel { output, image, weight: &turned, bias: &bias, taps: &taps });
                continue;
            }
            compiled(|| {
                output.copy_from_slice(&bias);
                for &(kernel, place) in &taps {
                    let values = &image[place..][..geometry.channels];
                    let weights = &turned[kernel * features..][..features];
                    for (feature, (sum, &weight)) in output.iter_mut().zip(weights).enumerate() {
                        *sum += values[feature / per_channel] * weight;
                    }
                }
            });
        }
        Ok(())
    })
}

/// The kernel elements that meet the image at an output position, and where.
fn taps_of(geometry: &Geometry, position: usize, taps: &mut Vec<(usize, usize)>) {
    let ([_, heights, widths], [kd, kh, kw]) = (geometry.output, geometry.kernel);
    let (row, x) = (position / widths, position % widths);
    let at = |axis: usize, output: usize, kernel: usize| {
        source(geometry, axis, output, kernel * geometry.dilation[axis])
    };
    taps.clear();
    for i in 0..kd * kh {
        let Some((z, y)) = at(0, row / heights, i / kh).zip(at(1, row % heights, i % kh)) else {
            continue;
        };
        let first = (z * geometry.image[1] + y) * geometry.image[2];
        for j in 0..kw {
            let Some(x) = at(2, x, j) else { continue };
            taps.push((i * kw + j, (first + x) * geometry.channels));
        }
    }
}

/// One pixel of the output.
struct Pixel<'a, W> {
    output: &'a mut [W],
    image: &'a [W],
    weight: &'a [W],
    bias: &'a [W],
    taps: &'a [(usize, usize)],
}

impl<W: Wide> Job<W> for Pixel<'_, W> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = W>>(mut self) {
        let features = self.output.len();
        let mut first = 0;
        while first + ROWS * V::LANES <= features {
            self.block::<V, ROWS>(first, V::LANES);
            first += ROWS * V::LANES;
        }
        while first < features {
            self.block::<V, 1>(first, V::LANES.min(features - first));
            first += V::LANES;
        }
    }
}

impl<W: Wide> Pixel<'_, W> {
    /// `N` vectors of features, of the last one `count` elements.
    #[inline(always)]
    fn block<V: Lanes<Elem = W>, const N: usize>(&mut self, first: usize, count: usize) {
        let features = self.output.len();
        let mut sums = [V::lit(0.0); N];
        for (n, sum) in sums.iter_mut().enumerate() {
            *sum = load(&self.bias[first..], n * V::LANES, count);
        }
        for &(kernel, place) in self.taps {
            let (values, weights) =
                (&self.image[place + first..], &self.weight[kernel * features + first..]);
            for (n, sum) in sums.iter_mut().enumerate() {
                let value = load::<V>(values, n * V::LANES, count);
                *sum = value.mul_add(load(weights, n * V::LANES, count), *sum);
            }
        }
        for (n, sum) in sums.into_iter().enumerate() {
            store(sum, &mut self.output[first..], n * V::LANES, count);
        }
    }
}
