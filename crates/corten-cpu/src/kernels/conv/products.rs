//! The three products of a convolution, each a product of matrices over unfolded patches:
//! output = weight · patches, patches = weightᵀ · output, weight = output · patchesᵀ.

use super::geometry::Geometry;
use super::window::{Layout, Window};
use crate::chunks::{for_each_chunk, grain_of};
use crate::gemm::{
    Factors, Mat, MatElement, MatMut, for_each_block, gemm, gemm_with_bias, gemm_with_columns,
};
use crate::scratch::{Buffered, with_buffer};
use corten_core::Result;
use corten_gemm::{Columns, SLACK};
use corten_ops::parallel::num_threads;
use std::ops::{AddAssign, Range};

/// Elements of a block of patches: of `f32` a part of a second-level cache, and few enough pages
/// that the product reads them as they lie.
const PATCHES: usize = 56 * 1024;

/// Output positions at a time where patches are not unfolded.
const WIDE: usize = 1024;

/// Parts of positions start at multiples of this many: whole tiles.
const PART_ALIGNMENT: usize = 64;

/// Weight gradients are summed in at most this many parts, whatever the number of threads, so that
/// results do not depend on it.
const PARTS: usize = 8;

/// Elements that the parts may have in all.
const PART_ELEMENTS: usize = 16 * 1024 * 1024;

/// An element that convolutions are computed in.
pub(super) trait Product: MatElement + Buffered + AddAssign {}

impl<T: MatElement + Buffered + AddAssign> Product for T {}

/// `output = weight * image (+ bias)`, for every sample.
pub(super) fn correlate<T: Product>(
    geometry: &Geometry,
    output: &mut [T],
    image: &[T],
    weight: &[T],
    bias: Option<&[T]>,
) -> Result<()> {
    let positions = geometry.positions();
    let sample_size = geometry.channels * geometry.pixels();
    let samples = output.len() / (geometry.features * positions).max(1);
    let width =
        if geometry.is_unfolded() { block_width(geometry) } else { wide(geometry, samples) };
    let shape = [geometry.features, positions];
    let strides = geometry.output_strides();
    let work = geometry.features * geometry.patch() * width;
    let grain = grain_of(work / 8);
    for_each_block(output, samples, shape, strides, width, grain, |sample, range, mut block| {
        let image = &image[sample * sample_size..][..sample_size];
        for group in 0..geometry.groups {
            let features = geometry.group_features();
            let rows = group * features..(group + 1) * features;
            let bias = bias.map(|bias| &bias[rows.clone()]);
            let weight = weight_of(geometry, weight, group)?;
            let block = block.row_range(rows);
            correlate_block(geometry, block, image, weight, bias, group, range.clone())?;
        }
        Ok(())
    })
}

/// Some output positions of one sample and group.
fn correlate_block<T: Product>(
    geometry: &Geometry,
    mut block: MatMut<'_, T>,
    image: &[T],
    weight: Mat<'_, T>,
    bias: Option<&[T]>,
    group: usize,
    range: Range<usize>,
) -> Result<()> {
    if !geometry.is_unfolded() && !geometry.is_pointwise() {
        let layout = Layout::of(geometry, range);
        return with_buffer(layout.buffer_len(), |buffer| {
            let window = Window::new(geometry, layout, image, group, buffer);
            gemm_with_columns(block, weight, &window, bias)
        });
    }
    with_buffer(buffer_len(geometry, range.len()), |buffer| {
        let patches = patches_of(geometry, image, group, range, buffer)?;
        if !geometry.is_unfolded() {
            return gemm_with_bias(block, weight, patches, bias);
        }
        let Some(bias) = bias else { return gemm(block, weight, patches, Factors::PRODUCT) };
        bias.iter().enumerate().for_each(|(row, &value)| block.fill_row(row, value));
        gemm(block, weight, patches, Factors::ADD)
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
        return correlate(&adjoint, image, output, &adjoint_weight(geometry, weight), None);
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

/// The weight of [`Geometry::adjoint`]: channels and features change places in every group, and the
/// kernel is turned around.
fn adjoint_weight<T: Product>(geometry: &Geometry, weight: &[T]) -> Vec<T> {
    let (features, channels) = (geometry.group_features(), geometry.group_channels());
    let kernel = geometry.kernel_size();
    let mut turned = Vec::with_capacity(weight.len());
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

/// The gradient of `correlate` with respect to the weight, summed over the samples.
pub(super) fn weight_gradient<T: Product>(
    geometry: &Geometry,
    weight: &mut [T],
    image: &[T],
    output: &[T],
) -> Result<()> {
    weight.fill(T::default());
    let positions = geometry.positions();
    let output_size = geometry.features * positions;
    let sample_size = geometry.channels * geometry.pixels();
    let samples = output.len() / output_size.max(1);
    if weight.is_empty() || samples == 0 {
        return Ok(());
    }
    let parts = samples.min(PARTS).min((PART_ELEMENTS / weight.len()).max(1));
    let mut sums = vec![T::default(); weight.len() * parts];
    for_each_chunk(&mut sums, weight.len(), 1, |part, sums| {
        let width = block_width(geometry);
        let room = gradient_buffer_len(geometry, width);
        with_buffer(room, |buffer| {
            for sample in (part..samples).step_by(parts) {
                let image = &image[sample * sample_size..][..sample_size];
                let output = &output[sample * output_size..][..output_size];
                add_weight_gradient(geometry, sums, image, output, buffer)?;
            }
            Ok(())
        })
    })?;
    for part in sums.chunks_exact(weight.len()) {
        weight.iter_mut().zip(part).for_each(|(sum, &value)| *sum += value);
    }
    Ok(())
}

fn add_weight_gradient<T: Product>(
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
            let patches = patches_of(geometry, image, group, range, buffer)?;
            let weight = MatMut::row_major(weight, features, patch)?;
            gemm(weight, output, patches.t(), Factors::ADD)?;
        }
    }
    Ok(())
}

/// Elements of the patches of so many positions, where they are not the image itself.
fn buffer_len(geometry: &Geometry, width: usize) -> usize {
    if geometry.is_pointwise() { 0 } else { geometry.patch() * width }
}

/// Elements that [`add_weight_gradient`] needs: patches, and the rows that they are taken from.
fn gradient_buffer_len(geometry: &Geometry, width: usize) -> usize {
    let patches = buffer_len(geometry, width);
    if geometry.is_unfolded() || geometry.is_pointwise() {
        return patches;
    }
    let rows = |range| Layout::of(geometry, range).buffer_len();
    patches + SLACK + blocks(geometry.positions(), width).map(rows).max().unwrap_or(0)
}

/// Positions at a time where patches are made as a product asks for them: few enough that the rows
/// of the image stay near, and a part for every thread.
fn wide(geometry: &Geometry, samples: usize) -> usize {
    let (positions, row) = (geometry.positions(), geometry.output[2].max(1));
    let threads = num_threads();
    let width = if row < WIDE { WIDE / row * row } else { WIDE };
    match samples < threads {
        true => width.min(positions.div_ceil(threads).next_multiple_of(PART_ALIGNMENT)),
        false => width,
    }
}

/// Positions per block of patches.
fn block_width(geometry: &Geometry) -> usize {
    let positions = geometry.positions();
    let width = (PATCHES / geometry.patch().max(1)).max(32).next_multiple_of(32);
    // Blocks of equal size, rather than a small last one.
    positions.div_ceil(positions.div_ceil(width).max(1)).next_multiple_of(16).max(1)
}

fn blocks(length: usize, width: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(width.max(1)).map(move |start| start..(start + width).min(length))
}

fn patches_of<'a, T: Product>(
    geometry: &Geometry,
    image: &'a [T],
    group: usize,
    range: Range<usize>,
    buffer: &'a mut [T],
) -> Result<Mat<'a, T>> {
    if geometry.is_pointwise() {
        let (start, strides) = geometry.image_matrix(group);
        let shape = [geometry.group_channels(), geometry.pixels()];
        return Ok(Mat::strided(&image[start..], shape, strides)?.cols(range));
    }
    let width = range.len();
    if !geometry.is_unfolded() {
        let (patches, rows) = buffer.split_at_mut(geometry.patch() * width + SLACK);
        let window = Window::new(geometry, Layout::of(geometry, range), image, group, rows);
        window.fill(0..geometry.patch(), 0..width, patches, width);
        return Mat::row_major(patches, geometry.patch(), width);
    }
    let buffer = &mut buffer[..geometry.patch() * width];
    geometry.unfold(image, group, range, buffer);
    Mat::strided(buffer, [geometry.patch(), width], geometry.patch_strides(width))
}

fn weight_of<'a, T>(geometry: &Geometry, weight: &'a [T], group: usize) -> Result<Mat<'a, T>> {
    let (features, patch) = (geometry.group_features(), geometry.patch());
    Mat::row_major(&weight[group * features * patch..], features, patch)
}

/// The features of a group of an output sample, as a matrix over positions.
fn output_of<'a, T>(geometry: &Geometry, output: &'a [T], group: usize) -> Result<Mat<'a, T>> {
    let strides = geometry.output_strides();
    let first = group * geometry.group_features() * strides[0];
    Mat::strided(&output[first..], [geometry.group_features(), geometry.positions()], strides)
}
