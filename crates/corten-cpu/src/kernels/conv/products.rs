//! Two of the three products of a convolution, output = weight · patches and patches = weightᵀ ·
//! output, each a product of matrices over patches. The third one is in [`weight`](super::weight).

use super::geometry::Geometry;
use super::implicit_gemm;
use super::patches::{Patches, TurnedKernel};
use super::window::{Layout, Window};
use crate::gemm::{
    Base, Factor, Factors, Mat, MatElement, MatMut, Plan, SideBySide, for_each_block, gemm,
    gemm_from, gemm_of_factors,
};
use crate::parallel::chunks::{for_each_chunk, for_each_run, grain_of};
use crate::parallel::scratch::{Buffered, with_buffer};
use crate::rows::loops::MOST_LANES;
use corten_core::{Result, unwinding};
use corten_gemm::{ImplicitOperand, PACK_PADDING};
use corten_ops::parallel::{in_parallel_region, num_threads};
use std::ops::{AddAssign, Range};

/// Elements of a block of patches: of `f32` a part of a second-level cache, and few enough pages
/// that the product reads them as they lie.
const PATCHES: usize = 56 * 1024;

/// Output positions at a time where patches are not unfolded. Those of small images are taken
/// together, since a product reads the whole weight for them.
pub(super) const WIDE: usize = 1024;

/// Elements of the copied rows of images at a time: they stay in the last cache.
pub(super) const WINDOW: usize = 1 << 20;

/// The columns of the widest tile of a product.
const TILE: usize = 64;

/// With so many rows a part of a product takes many times longer than to bring its second factor near.
const LONG: usize = 1024;

/// Parts for every thread at the most, so that one that is slowed down does less of them.
const PARTS_PER_THREAD: usize = 4;

/// Making an element of a patch takes this many times less than bringing one of the weight.
const READING: usize = 3;

/// Up to so many positions in all the patches are turned around for the product, and not the weight.
const FEW_POSITIONS: usize = 64;

/// An element that convolutions are computed in.
pub(super) trait Product: MatElement + Buffered + AddAssign {}

impl<T: MatElement + Buffered + AddAssign> Product for T {}

/// The weight of a convolution.
#[derive(Clone, Copy)]
enum Kernel<'a, T> {
    /// As it lies.
    Plain(&'a [T]),
    /// That of the convolution of which this one is the [`adjoint`](Geometry::adjoint).
    Turned(&'a [T]),
}

/// `output = weight * image (+ bias)`, for every sample.
pub(super) fn correlate<T: Product>(
    geometry: &Geometry,
    output: &mut [T],
    image: &[T],
    weight: &[T],
    bias: Option<&[T]>,
) -> Result<()> {
    correlate_with(geometry, output, image, Kernel::Plain(weight), bias)
}

fn correlate_with<T: Product>(
    geometry: &Geometry,
    output: &mut [T],
    image: &[T],
    kernel: Kernel<'_, T>,
    bias: Option<&[T]>,
) -> Result<()> {
    match kernel {
        _ if geometry.is_pointwise() => correlate_pixels(geometry, output, image, kernel, bias),
        _ if implicit_gemm::fits(geometry, size_of::<T>()) => {
            let weight = by_lines(geometry, kernel);
            implicit_gemm::correlate(geometry, output, image, &weight, bias)
        }
        _ if geometry.channels_last => correlate_lines(geometry, output, image, kernel, bias),
        Kernel::Plain(weight) => correlate_windows(geometry, output, image, weight, bias),
        Kernel::Turned(weight) => {
            let weight = turned(geometry, weight);
            correlate_windows(geometry, output, image, &weight, bias)
        }
    }
}

/// Where patches are pixels. With channels last one product serves all samples.
fn correlate_pixels<T: Product>(
    geometry: &Geometry,
    output: &mut [T],
    image: &[T],
    kernel: Kernel<'_, T>,
    bias: Option<&[T]>,
) -> Result<()> {
    let (features, channels) = (geometry.group_features(), geometry.group_channels());
    let weight = |group: usize| match kernel {
        Kernel::Plain(weight) => weight_of(geometry, weight, group),
        // That of the adjoint has channels for features.
        Kernel::Turned(weight) => {
            Ok(Mat::row_major(&weight[group * features * channels..], channels, features)?.t())
        }
    };
    let bias = |group: usize| bias.map(|bias| &bias[group * features..][..features]);
    if geometry.channels_last {
        let rows = output.len() / geometry.features.max(1);
        for group in 0..geometry.groups {
            let [to, from] = [features, channels].map(|count| group * count);
            let strides = [1, geometry.features];
            let c = MatMut::strided(&mut output[to..], [features, rows], strides)?;
            let strides = [1, geometry.channels];
            let b = Mat::strided(&image[from..], [channels, rows], strides)?;
            gemm_from(None, c, weight(group)?, b, Base::rows(bias(group)))?;
        }
        return Ok(());
    }
    let positions = geometry.positions();
    let sample_size = geometry.channels * geometry.pixels();
    let samples = output.len() / (geometry.features * positions).max(1);
    let width = wide(geometry, samples);
    let shape = [geometry.features, positions];
    let grain = grain_of(geometry.features * geometry.patch() * width / 8);
    for_each_block(output, samples, shape, [positions, 1], width, grain, |sample, range, mut c| {
        let image = &image[sample * sample_size..][..sample_size];
        for group in 0..geometry.groups {
            let block = c.row_range(group * features..(group + 1) * features);
            let image = &image[group * channels * positions..];
            let b = Mat::row_major(image, channels, positions)?.cols(range.clone());
            gemm_from(Some(Plan::BLOCKED), block, weight(group)?, b, Base::rows(bias(group)))?;
        }
        Ok(())
    })
}

/// Where channels come last: positions are the rows of a product, whatever sample they are of.
fn correlate_lines<T: Product>(
    geometry: &Geometry,
    output: &mut [T],
    images: &[T],
    kernel: Kernel<'_, T>,
    bias: Option<&[T]>,
) -> Result<()> {
    let (features, all, depth) = (geometry.group_features(), geometry.features, geometry.patch());
    let bias = |group: usize| bias.map(|bias| &bias[group * features..][..features]);
    let rows = output.len() / all.max(1);
    if let Kernel::Plain(weight) = kernel
        && rows <= FEW_POSITIONS
    {
        return with_buffer(rows * depth + PACK_PADDING, |buffer| {
            for group in 0..geometry.groups {
                let patches = Patches { geometry, images, group, first: [0, 0] };
                patches.pack(0..rows, 0..depth, buffer, depth);
                let b = Mat::row_major(buffer, rows, depth)?.t();
                let c = &mut output[group * features..];
                let c = MatMut::strided(c, [features, rows], [1, all])?;
                gemm_from(
                    None,
                    c,
                    weight_of(geometry, weight, group)?,
                    b,
                    Base::rows(bias(group)),
                )?;
            }
            Ok(())
        });
    }
    if let Kernel::Plain(weight) = kernel
        && shares_patches(geometry, rows)
    {
        let (shape, part) = ([rows, all], feature_part(geometry));
        let grain = grain_of(rows * depth * part / 8);
        return for_each_block(output, 1, shape, [all, 1], part, grain, |_, range, c| {
            let patches = Patches { geometry, images, group: 0, first: [0, 0] };
            let b = weight_of(geometry, weight, 0)?.t().cols(range.clone());
            let base = bias(0).map_or(Base::Nothing, |bias| Base::PerColumn(&bias[range]));
            gemm_of_factors(c.into(), depth, [Factor::Made(&patches), Factor::Matrix(b)], base)
        });
    }
    let (shape, part) = ([all, rows], rows_of_part(rows, all * depth));
    for_each_block(output, 1, shape, [1, all], part, 1, |_, range, mut block| {
        for group in 0..geometry.groups {
            let patches = Patches { geometry, images, group, first: [range.start, 0] };
            let c = block.row_range(group * features..(group + 1) * features).t();
            let base = bias(group).map_or(Base::Nothing, Base::PerColumn);
            let turned;
            let b = match kernel {
                Kernel::Plain(weight) => Factor::Matrix(weight_of(geometry, weight, group)?.t()),
                Kernel::Turned(weight) => {
                    turned = TurnedKernel { geometry, weight, group };
                    Factor::Made(&turned)
                }
            };
            gemm_of_factors(c.into(), depth, [Factor::Made(&patches), b], base)?;
        }
        Ok(())
    })
}

/// The rows of a part of a product whose second factor every part brings near anew: on several
/// threads as few parts as keep them busy, and more only where they are long.
fn rows_of_part(rows: usize, work: usize) -> usize {
    let threads = num_threads();
    if threads < 2 || in_parallel_region() || rows <= grain_of(work / 8) {
        return rows.max(1);
    }
    let parts = (rows / LONG).clamp(threads, PARTS_PER_THREAD * threads);
    rows.div_ceil(parts).next_multiple_of(MOST_LANES)
}

/// Where they do not: positions are columns.
fn correlate_windows<T: Product>(
    geometry: &Geometry,
    output: &mut [T],
    images: &[T],
    weight: &[T],
    bias: Option<&[T]>,
) -> Result<()> {
    let positions = geometry.positions();
    let sample_size = geometry.channels * geometry.pixels();
    let size = geometry.features * positions;
    let samples = output.len() / size.max(1);
    let shape = [geometry.features, positions];
    let work = geometry.features * geometry.patch();
    let together = if geometry.is_unfolded() { 1 } else { samples_together(geometry, samples) };
    if together > 1 {
        return for_each_run(output, size, grain_of(work * positions / 8), |range, output| {
            let parts = range.len().div_ceil(together).max(1);
            let part = range.len().div_ceil(parts);
            for (start, output) in range.step_by(part).zip(output.chunks_mut(part * size)) {
                let images = &images[start * sample_size..];
                let c = SideBySide::new(output, shape, [positions, 1])?;
                let range = 0..c.shape()[1];
                correlate_window(geometry, c, images, weight, bias, range)?;
            }
            Ok(())
        });
    }
    let unfolded = geometry.is_unfolded();
    if !unfolded && samples == 1 && shares_patches(geometry, positions) {
        let (part, work) = (feature_part(geometry), geometry.patch() * positions);
        return for_each_run(output, positions, grain_of(work / 8).max(part), |rows, output| {
            let c = MatMut::row_major(output, rows.len(), positions)?;
            let bias = bias.map(|bias| &bias[rows.clone()]);
            correlate_rows(geometry, c.into(), images, (weight, rows), bias, 0..positions)
        });
    }
    let width = if unfolded { block_width(geometry) } else { wide(geometry, samples) };
    let grain = grain_of(work * width / 8);
    for_each_block(output, samples, shape, [positions, 1], width, grain, |sample, range, block| {
        let image = &images[sample * sample_size..][..sample_size];
        match unfolded {
            true => correlate_unfolded(geometry, block, image, weight, bias, range),
            false => correlate_window(geometry, block.into(), image, weight, bias, range),
        }
    })
}

/// Some output positions, counted through the samples.
fn correlate_window<T: Product>(
    geometry: &Geometry,
    mut c: SideBySide<'_, T>,
    images: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    range: Range<usize>,
) -> Result<()> {
    let features = geometry.group_features();
    for group in 0..geometry.groups {
        let rows = group * features..(group + 1) * features;
        let bias = bias.map(|bias| &bias[rows.clone()]);
        let c = c.row_range(rows.clone());
        correlate_rows(geometry, c, images, (weight, rows), bias, range.clone())?;
    }
    Ok(())
}

/// Some output positions, counted through the samples, of some features of a group.
fn correlate_rows<T: Product>(
    geometry: &Geometry,
    c: SideBySide<'_, T>,
    images: &[T],
    (weight, features): (&[T], Range<usize>),
    bias: Option<&[T]>,
    range: Range<usize>,
) -> Result<()> {
    let (channels, patch) = (geometry.group_channels(), geometry.patch());
    let group = features.start / geometry.group_features().max(1);
    let weight = Mat::row_major(&weight[features.start * patch..], features.len(), patch)?;
    let layout = Layout::of(geometry, range, channels);
    with_buffer(layout.buffer_len(), |buffer| {
        let window = Window::new(geometry, layout, images, group * channels, buffer);
        let factors = [Factor::Matrix(weight), Factor::Made(&window)];
        gemm_of_factors(c, patch, factors, Base::rows(bias))
    })
}

/// Some output positions of one sample.
fn correlate_unfolded<T: Product>(
    geometry: &Geometry,
    mut c: MatMut<'_, T>,
    image: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    range: Range<usize>,
) -> Result<()> {
    let features = geometry.group_features();
    with_buffer(geometry.patch() * range.len(), |buffer| {
        for group in 0..geometry.groups {
            let rows = group * features..(group + 1) * features;
            let bias = bias.map(|bias| &bias[rows.clone()]);
            let patches = unfolded(geometry, image, group, range.clone(), buffer)?;
            let weight = weight_of(geometry, weight, group)?;
            gemm_from(Some(Plan::BLOCKED), c.row_range(rows), weight, patches, Base::rows(bias))?;
        }
        Ok(())
    })
}

/// The gradient of `correlate` with respect to the image, for every sample.
pub(super) fn adjoint<T: Product>(
    geometry: &Geometry,
    image: &mut [T],
    output: &[T],
    weight: &[T],
) -> Result<()> {
    if let Some(adjoint) = geometry.adjoint() {
        return correlate_with(&adjoint, image, output, Kernel::Turned(weight), None);
    }
    let positions = geometry.positions();
    let output_size = geometry.features * positions;
    let sample_size = geometry.channels * geometry.pixels();
    let work = geometry.features * geometry.patch() * positions;
    for_each_chunk(image, sample_size, grain_of(work / 8), |sample, image| {
        image.fill(T::default());
        let output = &output[sample * output_size..][..output_size];
        let width = block_width(geometry);
        with_buffer(geometry.patch() * width.min(positions), |buffer| {
            for group in 0..geometry.groups {
                let weight = weight_of(geometry, weight, group)?;
                for range in blocks(positions, width) {
                    let output = output_of(geometry, output, group)?.cols(range.clone());
                    let buffer = &mut buffer[..geometry.patch() * range.len()];
                    let strides = geometry.patch_strides(range.len());
                    let shape = [geometry.patch(), range.len()];
                    let patches = MatMut::strided(buffer, shape, strides)?;
                    gemm(patches, weight.t(), output, Factors::PRODUCT)?;
                    geometry.fold_add(buffer, group, range, image);
                }
            }
            Ok(())
        })
    })
}

/// The weight of a convolution from that of the one of which it is the adjoint: channels and features
/// change places in every group, and the kernel is turned around.
pub(super) fn turned<T: Product>(geometry: &Geometry, weight: &[T]) -> Vec<T> {
    let (channels, features) = (geometry.group_features(), geometry.group_channels());
    let kernel = geometry.kernel_size();
    let mut turned = unwinding::with_capacity(weight.len());
    for group in weight.chunks_exact((features * channels * kernel).max(1)) {
        for channel in 0..channels {
            for feature in 0..features {
                let taps = &group[(feature * channels + channel) * kernel..][..kernel];
                turned.extend(taps.iter().rev());
            }
        }
    }
    turned
}

/// The weight of one group as the second factor of a product: a line per (kernel position, channel).
fn by_lines<T: Product>(geometry: &Geometry, kernel: Kernel<'_, T>) -> Vec<T> {
    let (depth, features) = (geometry.patch(), geometry.features);
    let mut lines = unwinding::vec(T::default(), depth * features + PACK_PADDING);
    match kernel {
        Kernel::Plain(weight) => fill_lines(geometry, weight, &mut lines),
        Kernel::Turned(weight) if geometry.channels_last => {
            let turned = TurnedKernel { geometry, weight, group: 0 };
            turned.pack(0..depth, 0..features, &mut lines, features);
        }
        Kernel::Turned(weight) => fill_lines(geometry, &turned(geometry, weight), &mut lines),
    }
    lines.truncate(depth * features);
    lines
}

fn fill_lines<T: Product>(geometry: &Geometry, weight: &[T], lines: &mut [T]) {
    let (depth, features) = (geometry.patch(), geometry.features);
    let (channels, size) = (geometry.channels, geometry.kernel_size());
    let place = |line: usize| match geometry.channels_last {
        true => line,
        false => line % channels * size + line / channels,
    };
    // Some features at a time, so that what is written lies side by side.
    for (block, taps) in weight.chunks(MOST_LANES * depth).enumerate() {
        for (at, line) in lines.chunks_exact_mut(features).take(depth).enumerate() {
            let (line, place) = (&mut line[block * MOST_LANES..], place(at));
            for (to, taps) in line.iter_mut().zip(taps.chunks_exact(depth)) {
                *to = taps[place];
            }
        }
    }
}

/// Positions at a time where patches are made as a product asks for them: few enough that the rows
/// of the image stay near, and as many parts for every thread.
fn wide(geometry: &Geometry, samples: usize) -> usize {
    let (positions, row) = (geometry.positions(), geometry.output[2].max(1));
    let most = if row < WIDE { WIDE / row * row } else { WIDE };
    let parts = even_parts(positions.div_ceil(most), samples);
    // Whole tiles where that leaves no thread with less to do.
    let unit = if num_threads() < 2 || in_parallel_region() { TILE } else { MOST_LANES };
    positions.div_ceil(parts).next_multiple_of(unit).max(1)
}

/// Parts of every sample, a few more than asked for where all threads then have as many of them.
pub(super) fn even_parts(least: usize, samples: usize) -> usize {
    let (threads, least) = (num_threads(), least.max(1));
    let even = |parts: &usize| (samples * parts).is_multiple_of(threads);
    (least..least + threads).find(even).unwrap_or(least)
}

/// Whether every thread makes all patches for some of the features, rather than reading the whole
/// weight for some of the positions.
fn shares_patches(geometry: &Geometry, positions: usize) -> bool {
    num_threads() > 1 && geometry.groups == 1 && positions < READING * geometry.features
}

/// Features for every thread, in whole registers.
fn feature_part(geometry: &Geometry) -> usize {
    geometry.features.div_ceil(num_threads()).next_multiple_of(MOST_LANES)
}

/// Samples whose positions are done at a time, and not fewer of them.
fn samples_together(geometry: &Geometry, samples: usize) -> usize {
    let positions = geometry.positions().max(1);
    let rows = Layout::of(geometry, 0..positions, geometry.group_channels()).buffer_len();
    (WIDE / positions).min(WINDOW / rows).min(samples.div_ceil(num_threads()))
}

/// Positions per block of unfolded patches.
pub(super) fn block_width(geometry: &Geometry) -> usize {
    let positions = geometry.positions();
    let width = (PATCHES / geometry.patch().max(1)).max(32).next_multiple_of(32);
    // Blocks of equal size, rather than a small last one.
    positions.div_ceil(positions.div_ceil(width).max(1)).next_multiple_of(16).max(1)
}

pub(super) fn blocks(length: usize, width: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(width.max(1)).map(move |start| start..(start + width).min(length))
}

/// The patches of some positions in a buffer.
pub(super) fn unfolded<'a, T: Product>(
    geometry: &Geometry,
    image: &[T],
    group: usize,
    range: Range<usize>,
    buffer: &'a mut [T],
) -> Result<Mat<'a, T>> {
    let (patch, width) = (geometry.patch(), range.len());
    let buffer = &mut buffer[..patch * width];
    geometry.unfold(image, group, range, buffer);
    Mat::strided(buffer, [patch, width], geometry.patch_strides(width))
}

fn weight_of<'a, T>(geometry: &Geometry, weight: &'a [T], group: usize) -> Result<Mat<'a, T>> {
    let (features, patch) = (geometry.group_features(), geometry.patch());
    Mat::row_major(&weight[group * features * patch..], features, patch)
}

/// The features of a group of an output sample, as a matrix over positions.
pub(super) fn output_of<'a, T>(
    geometry: &Geometry,
    output: &'a [T],
    group: usize,
) -> Result<Mat<'a, T>> {
    let strides = geometry.output_strides();
    let first = group * geometry.group_features() * strides[0];
    Mat::strided(&output[first..], [geometry.group_features(), geometry.positions()], strides)
}
