//! The gradient of a convolution with respect to its weight: output · patchesᵀ, summed over samples.

use super::geometry::Geometry;
use super::patches::Patches;
use super::products::{Product, WIDE, WINDOW, block_width, blocks, output_of, unfolded};
use super::window::{Layout, Window};
use crate::gemm::{Base, Factor, Factors, Mat, MatMut, for_each_block, gemm, gemm_of_factors};
use crate::parallel::chunks::for_each_chunk;
use crate::parallel::scratch::with_buffer;
use corten_core::{Result, try_vec};
use corten_ops::parallel::num_threads;
use std::ops::Range;

/// Sums over unfolded patches are taken in at most this many parts, whatever the number of threads,
/// so that results do not depend on it.
const PARTS: usize = 8;

/// Elements that the parts may have in all.
const PART_ELEMENTS: usize = 16 * 1024 * 1024;

/// Parts of the weight's columns are at least as many, where they are cut for threads.
const LEAST_COLUMNS: usize = 64;

/// The gradient of [`correlate`](super::products::correlate) with respect to the weight.
pub(super) fn gradient<T: Product>(
    geometry: &Geometry,
    weight: &mut [T],
    images: &[T],
    output: &[T],
) -> Result<()> {
    let samples = output.len() / (geometry.features * geometry.positions()).max(1);
    if weight.is_empty() || samples == 0 {
        weight.fill(T::default());
        return Ok(());
    }
    if geometry.channels_last {
        return match geometry.is_pointwise() {
            true => of_pixels(geometry, weight, images, output),
            false => of_lines(geometry, weight, images, output),
        };
    }
    match geometry.is_unfolded() {
        true => of_unfolded(geometry, weight, images, output),
        false => of_windows(geometry, weight, images, output, samples),
    }
}

/// The output of all samples, of which channels come last, as a matrix (features, positions).
fn lines_of<'a, T>(geometry: &Geometry, output: &'a [T], group: usize) -> Result<Mat<'a, T>> {
    let (features, all) = (geometry.group_features(), geometry.features);
    Mat::strided(&output[group * features..], [features, output.len() / all], [1, all])
}

/// Where patches are pixels whose channels come last.
fn of_pixels<T: Product>(
    geometry: &Geometry,
    weight: &mut [T],
    images: &[T],
    output: &[T],
) -> Result<()> {
    let (features, channels) = (geometry.group_features(), geometry.group_channels());
    for (group, weight) in weight.chunks_exact_mut(features * channels).enumerate() {
        let output = lines_of(geometry, output, group)?;
        let shape = [output.shape()[1], channels];
        let pixels = Mat::strided(&images[group * channels..], shape, [geometry.channels, 1])?;
        let c = MatMut::row_major(weight, features, channels)?;
        gemm(c, output, pixels, Factors::PRODUCT)?;
    }
    Ok(())
}

/// Where channels come last: a patch is a line of the second factor.
fn of_lines<T: Product>(
    geometry: &Geometry,
    weight: &mut [T],
    images: &[T],
    output: &[T],
) -> Result<()> {
    let (features, patch) = (geometry.group_features(), geometry.patch());
    let width = patch.div_ceil(num_threads()).next_multiple_of(LEAST_COLUMNS);
    let shape = [features, patch];
    for_each_block(weight, geometry.groups, shape, [patch, 1], width, 1, |group, cols, block| {
        let output = lines_of(geometry, output, group)?;
        let patches = Patches { geometry, images, group, first: [0, cols.start] };
        let factors = [Factor::Matrix(output), Factor::Made(&patches)];
        gemm_of_factors(block.into(), output.shape()[1], factors, Base::Nothing)
    })
}

/// Where they do not: rows of patches are lines of the first factor, and the product is turned.
fn of_windows<T: Product>(
    geometry: &Geometry,
    weight: &mut [T],
    images: &[T],
    output: &[T],
    samples: usize,
) -> Result<()> {
    let (positions, patch) = (geometry.positions(), geometry.patch());
    let (features, channels) = (geometry.group_features(), geometry.group_channels());
    // Whole samples or parts of one, so that the output is a matrix or few of them.
    let together = (WIDE / positions).max(1);
    let width = positions.min(WIDE);
    let rows = Layout::of(geometry, 0..width * together, 1).buffer_len();
    let at_once = channels.div_ceil(num_threads()).min(WINDOW / rows).max(1);
    let (shape, columns) = ([features, patch], at_once * geometry.kernel_size());
    for_each_block(weight, geometry.groups, shape, [patch, 1], columns, 1, |group, cols, block| {
        let taps = geometry.kernel_size();
        let channels = cols.start / taps..cols.end / taps;
        let part = ChannelRange { geometry, images, output, group, channels };
        let (mut c, mut base) = (block.t(), Base::Nothing);
        for samples in blocks(samples, together) {
            let first = samples.start * positions;
            for range in blocks(positions * samples.len(), width * together) {
                let range = first + range.start..first + range.end;
                part.add(c.row_range(0..cols.len()), range, base)?;
                base = Base::Result;
            }
        }
        Ok(())
    })
}

/// Some of the weight's channels.
struct ChannelRange<'a, T> {
    geometry: &'a Geometry,
    images: &'a [T],
    output: &'a [T],
    group: usize,
    channels: Range<usize>,
}

impl<T: Product> ChannelRange<'_, T> {
    /// Adds the products of some positions, counted through the samples: part of one, or whole ones.
    fn add(&self, c: MatMut<'_, T>, range: Range<usize>, base: Base<'_, T>) -> Result<()> {
        let Self { geometry, images, output, group, ref channels } = *self;
        let (positions, width) = (geometry.positions(), range.len());
        let features = geometry.group_features();
        let layout = Layout::of(geometry, range.clone(), channels.len());
        let (first, last) = (range.start / positions, (range.end - 1) / positions);
        let room = if first == last { 0 } else { features * width };
        with_buffer(room + layout.buffer_len(), |buffer| {
            let (gathered, buffer) = buffer.split_at_mut(room);
            let first_channel = group * geometry.group_channels() + channels.start;
            let window = Window::new(geometry, layout, images, first_channel, buffer);
            let output = |sample: usize| &output[sample * geometry.features * positions..];
            let b = if first == last {
                let start = range.start - first * positions;
                output_of(geometry, output(first), group)?.cols(start..start + width)
            } else {
                // The samples of a feature side by side.
                for (feature, line) in gathered.chunks_exact_mut(width).enumerate() {
                    let from = (group * features + feature) * positions;
                    for (sample, to) in (first..).zip(line.chunks_exact_mut(positions)) {
                        to.copy_from_slice(&output(sample)[from..][..positions]);
                    }
                }
                Mat::row_major(gathered, features, width)?
            };
            let factors = [Factor::Made(&window), Factor::Matrix(b.t())];
            gemm_of_factors(c.into(), width, factors, base)
        })
    }
}

/// Over patches that are unfolded.
fn of_unfolded<T: Product>(
    geometry: &Geometry,
    weight: &mut [T],
    image: &[T],
    output: &[T],
) -> Result<()> {
    weight.fill(T::default());
    let (positions, patch) = (geometry.positions(), geometry.patch());
    let output_size = geometry.features * positions;
    let sample_size = geometry.channels * geometry.pixels();
    let samples = output.len() / output_size;
    let parts = samples.min(PARTS).min((PART_ELEMENTS / weight.len()).max(1));
    let mut sums = try_vec(T::default(), weight.len() * parts)?;
    for_each_chunk(&mut sums, weight.len(), 1, |part, sums| {
        let width = block_width(geometry);
        with_buffer(patch * width, |buffer| {
            for sample in (part..samples).step_by(parts) {
                let image = &image[sample * sample_size..][..sample_size];
                let output = &output[sample * output_size..][..output_size];
                add_unfolded(geometry, sums, image, output, buffer)?;
            }
            Ok(())
        })
    })?;
    for part in sums.chunks_exact(weight.len()) {
        weight.iter_mut().zip(part).for_each(|(sum, &value)| *sum += value);
    }
    Ok(())
}

fn add_unfolded<T: Product>(
    geometry: &Geometry,
    weight: &mut [T],
    image: &[T],
    output: &[T],
    buffer: &mut [T],
) -> Result<()> {
    let (features, patch) = (geometry.group_features(), geometry.patch());
    for (group, weight) in weight.chunks_exact_mut(features * patch).enumerate() {
        for range in blocks(geometry.positions(), block_width(geometry)) {
            let output = output_of(geometry, output, group)?.cols(range.clone());
            let patches = unfolded(geometry, image, group, range, buffer)?;
            let weight = MatMut::row_major(weight, features, patch)?;
            gemm(weight, output, patches.t(), Factors::ADD)?;
        }
    }
    Ok(())
}
