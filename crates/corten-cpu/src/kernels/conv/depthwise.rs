//! Convolutions with one input channel per group, where matrices would have a single row.

use super::geometry::Geometry;
use crate::parallel::chunks::{for_each_run, grain_of};
use crate::rows::Wide;
use crate::rows::loops::{MOST_LANES, RowKernel, compiled, load, load_spaced, store};
use crate::vec::Lanes;
use corten_core::{Result, try_collect, try_to_vec, try_vec, unwinding};
use std::ops::Range;

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
        let mut room = try_vec(W::ZERO, padded.room())?;
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

/// Whether every channel has one kernel, so that there are as many features.
pub(super) fn is_one_to_one(geometry: &Geometry) -> bool {
    fits(geometry) && geometry.group_features() == 1
}

/// Whether [`adjoint`] is for the geometry.
pub(super) fn adjoint_fits(geometry: &Geometry) -> bool {
    is_one_to_one(geometry)
        && geometry.stride == [1; 3]
        && (0..3).all(|axis| geometry.padding[axis] <= reach(geometry, axis))
}

/// How far behind its first element a kernel looks.
fn reach(geometry: &Geometry, axis: usize) -> usize {
    (geometry.kernel[axis] - 1) * geometry.dilation[axis]
}

/// The image whose correlation with the kernel is asked about: where steps are of one element, it
/// is itself a correlation, of the output with the kernel turned around.
pub(super) fn adjoint<W: Wide>(
    geometry: &Geometry,
    image: &mut [W],
    output: &[W],
    weight: &[W],
) -> Result<()> {
    let size = geometry.kernel_size();
    let kernels = weight.chunks_exact(size.max(1));
    let turned: Vec<W> = try_collect(kernels.flat_map(|kernel| kernel.iter().rev().copied()))?;
    let back = Geometry {
        image: geometry.output,
        output: geometry.image,
        padding: [0, 1, 2].map(|axis| reach(geometry, axis) - geometry.padding[axis]),
        ..geometry.clone()
    };
    correlate(&back, image, output, &turned, None)
}

/// Whether [`weight_gradient`] is for the geometry.
pub(super) fn weight_fits(geometry: &Geometry) -> bool {
    fits(geometry) && !geometry.channels_last
}

/// Per kernel element the sum of the products of output elements and of what they meet.
pub(super) fn weight_gradient<W: Wide>(
    geometry: &Geometry,
    weight: &mut [W],
    image: &[W],
    output: &[W],
) -> Result<()> {
    let (positions, pixels) = (geometry.positions(), geometry.pixels());
    let (size, features) = (geometry.kernel_size(), geometry.features);
    let samples = output.len() / (positions * features).max(1);
    let padded = Padded::of(geometry);
    for_each_run(weight, size, grain_of(samples * positions * size), |range, weight| {
        let (mut room, mut sums) = (try_vec(W::ZERO, padded.room())?, try_vec(0.0, size)?);
        for (feature, weight) in range.zip(weight.chunks_exact_mut(size.max(1))) {
            sums.fill(0.0);
            for sample in 0..samples {
                let channel = sample * geometry.channels + feature / geometry.group_features();
                W::run(Sums {
                    padded: &padded,
                    room: &mut room,
                    image: &image[channel * pixels..][..pixels],
                    output: &output[(sample * features + feature) * positions..][..positions],
                    sums: &mut sums,
                });
            }
            weight.iter_mut().zip(&sums).for_each(|(weight, &sum)| *weight = W::of(sum));
        }
        Ok(())
    })
}

/// Elements of the padded rows that are made at a time, about: they stay in the first-level cache.
const ROOM: usize = 6144;

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
        let taps = unwinding::collect((0..geometry.kernel_size()).map(tap));
        Self { geometry, segment, row, height, rows, taps }
    }

    fn room(&self) -> usize {
        // Loads may reach beyond the end.
        self.geometry.kernel[0] * self.rows * self.row + MOST_LANES
    }

    /// Lays out the rows for the output rows from `first` on.
    #[inline(always)]
    fn fill<W: Wide>(&self, room: &mut [W], image: &[W], depth: usize, first: usize) {
        let geometry = self.geometry;
        let [_, height, width] = geometry.image;
        let mut lines = room.chunks_exact_mut(self.row.max(1));
        for kernel in 0..geometry.kernel[0] {
            let z = geometry.source(0, depth, kernel);
            for j in 0..self.rows {
                let Some(line) = lines.next() else { return };
                match z.zip(geometry.source_at(1, first, j)) {
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

/// One plane of the output.
struct Plane<'a, W> {
    padded: &'a Padded<'a>,
    room: &'a mut [W],
    image: &'a [W],
    output: &'a mut [W],
    weight: &'a [W],
    bias: W,
}

impl<W: Wide> RowKernel<W> for Plane<'_, W> {
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

/// What one plane of the output adds to the gradient of its kernel.
struct Sums<'a, W> {
    padded: &'a Padded<'a>,
    room: &'a mut [W],
    image: &'a [W],
    output: &'a [W],
    sums: &'a mut [f64],
}

impl<W: Wide> RowKernel<W> for Sums<'_, W> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = W>>(self) {
        let Self { padded, room, image, output, sums } = self;
        let [depths, heights, width] = padded.geometry.output;
        let step = padded.geometry.stride[1] * padded.row;
        for depth in 0..depths {
            for first in (0..heights).step_by(padded.height) {
                padded.fill(room, image, depth, first);
                let height = padded.height.min(heights - first);
                let output = &output[(depth * heights + first) * width..][..height * width];
                for (sums, taps) in sums.chunks_mut(ROWS).zip(padded.taps.chunks(ROWS)) {
                    // What is missing in the last group is done twice and left out.
                    let taps = [0, 1, 2, 3].map(|i: usize| taps[i.min(taps.len() - 1)]);
                    add_products::<V>(sums, taps, room, output, [width, step]);
                }
            }
        }
    }
}

/// Adds to every sum the products of the output rows and the rows that a kernel element meets.
#[inline(always)]
fn add_products<V: Lanes<Elem: Wide>>(
    sums: &mut [f64],
    taps: [usize; ROWS],
    room: &[V::Elem],
    output: &[V::Elem],
    [width, step]: [usize; 2],
) {
    let mut states = [V::lit(0.0); ROWS];
    for (y, row) in output.chunks_exact(width.max(1)).enumerate() {
        for x in (0..width).step_by(V::LANES) {
            let count = V::LANES.min(width - x);
            let grad = load::<V>(row, x, count);
            for (state, tap) in states.iter_mut().zip(taps) {
                *state = grad.mul_add(load(room, tap + y * step + x, count), *state);
            }
        }
    }
    for (sum, state) in sums.iter_mut().zip(states) {
        let mut parts = [<V::Elem as Wide>::ZERO; MOST_LANES];
        store(state, &mut parts, 0, V::LANES);
        *sum += V::Elem::sum_of(&parts).as_f64();
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
        try_collect((0..size * features).map(|i| weight[i % features * size + i / features]))?;
    let bias = bias.map_or_else(|| try_vec(W::ZERO, features), try_to_vec)?;
    let sample_size = geometry.channels * geometry.pixels();
    let (widths, rows) = (geometry.output[2], geometry.output[0] * geometry.output[1]);
    for_each_run(output, widths * features, grain_of(widths * features * size), |range, output| {
        let mut taps = Taps::default();
        for (i, output) in range.zip(output.chunks_exact_mut((widths * features).max(1))) {
            let image = &image[i / rows * sample_size..][..sample_size];
            for (x, output) in output.chunks_exact_mut(features).enumerate() {
                let image = &image[taps.find(geometry, i % rows, x)..];
                if per_channel == 1 {
                    W::run(Pixel { output, image, weight: &turned, bias: &bias, taps: &taps.list });
                    continue;
                }
                compiled(|| {
                    output.copy_from_slice(&bias);
                    for &(kernel, place) in &taps.list {
                        let values = &image[place..][..geometry.channels];
                        let weights = &turned[kernel * features..][..features];
                        for (feature, (sum, &weight)) in output.iter_mut().zip(weights).enumerate()
                        {
                            *sum += values[feature / per_channel] * weight;
                        }
                    }
                });
            }
        }
        Ok(())
    })
}

/// The kernel elements that meet the image at an output position, and where, from a pixel on.
#[derive(Default)]
struct Taps {
    list: Vec<(usize, usize)>,
    /// The row and the kernel's columns that the list was made for.
    made_for: Option<(usize, Range<usize>)>,
}

impl Taps {
    /// Sets the list for a position; returns the place of the pixel that it counts from. Most
    /// positions have the list of the one before.
    fn find(&mut self, geometry: &Geometry, row: usize, x: usize) -> usize {
        let [_, kh, kw] = geometry.kernel;
        let dilation = geometry.dilation[2];
        let (first, padding) = (x * geometry.stride[2], geometry.padding[2]);
        // Those of the kernel's columns that are inside.
        let start = padding.saturating_sub(first).div_ceil(dilation).min(kw);
        let end = (geometry.image[2] + padding).saturating_sub(first).div_ceil(dilation).min(kw);
        let columns = start..end.max(start);
        if columns.is_empty() {
            self.list.clear();
            self.made_for = None;
            return 0;
        }
        if self.made_for.as_ref().is_none_or(|made| made.0 != row || made.1 != columns) {
            self.list.clear();
            let heights = geometry.output[1];
            for i in 0..geometry.kernel[0] * kh {
                let depth = geometry.source(0, row / heights, i / kh);
                let place = depth.zip(geometry.source(1, row % heights, i % kh));
                let Some((z, y)) = place else { continue };
                let line = (z * geometry.image[1] + y) * geometry.image[2];
                for j in columns.clone() {
                    let pixel = line + (j - columns.start) * dilation;
                    self.list.push((i * kw + j, pixel * geometry.channels));
                }
            }
            self.made_for = Some((row, columns.clone()));
        }
        (first + columns.start * dilation - padding) * geometry.channels
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

impl<W: Wide> RowKernel<W> for Pixel<'_, W> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = W>>(mut self) {
        let features = self.output.len();
        let mut first = 0;
        while first + ROWS * V::LANES <= features {
            self.block::<V, ROWS>(first);
            first += ROWS * V::LANES;
        }
        while first + V::LANES <= features {
            self.block::<V, 1>(first);
            first += V::LANES;
        }
        if first < features {
            self.rest::<V>(first);
        }
    }
}

impl<W: Wide> Pixel<'_, W> {
    /// `N` vectors of features.
    #[inline(always)]
    fn block<V: Lanes<Elem = W>, const N: usize>(&mut self, first: usize) {
        let features = self.output.len();
        let mut sums = load_spaced::<V, N>(&self.bias[first..], V::LANES);
        for &(kernel, place) in self.taps {
            let values = load_spaced::<V, N>(&self.image[place + first..], V::LANES);
            let weights = load_spaced::<V, N>(&self.weight[kernel * features + first..], V::LANES);
            for ((sum, value), weight) in sums.iter_mut().zip(values).zip(weights) {
                *sum = value.mul_add(weight, *sum);
            }
        }
        for (n, sum) in sums.into_iter().enumerate() {
            store(sum, &mut self.output[first..], n * V::LANES, V::LANES);
        }
    }

    /// The features that fill no vector.
    #[inline(always)]
    fn rest<V: Lanes<Elem = W>>(&mut self, first: usize) {
        let features = self.output.len();
        let count = features - first;
        let mut sum = load::<V>(self.bias, first, count);
        for &(kernel, place) in self.taps {
            let weight = load(self.weight, kernel * features + first, count);
            sum = load::<V>(self.image, place + first, count).mul_add(weight, sum);
        }
        store(sum, self.output, first, count);
    }
}
