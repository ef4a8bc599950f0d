//! Gradients of weights: the adjoint of the convolution as a function of its weight, step by step.
//! Every element of a tile is a product of matrices over the tiles, which make its depth.

use super::super::geometry::Geometry;
use super::super::samples_of;
use super::dynamic_range_guard::Magnitudes;
use super::images::Images;
use super::tiles::{Strip, TileIndices, TileRows, Tiles};
use super::{OfPixels, PLANES, Planes, at_once, fits, images_of};
use crate::gemm::{Base, Factor, Mat, MatMut, for_each_block, gemm_of_factors};
use crate::kernels::support::{empty, flat};
use crate::parallel::chunks::{for_each_run, grain_of};
use crate::parallel::scratch::with_buffer;
use crate::rows::loops::{MOST_LANES, RowKernel, Vectorised, load, store};
use crate::vec::{Lanes, MaskBits};
use corten_core::{Access, AccessSet, Result, try_collect, unwinding};
use corten_ops::Tensor;
use corten_ops::parallel::num_threads;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sums over tiles are taken in at most this many parts, whatever the number of threads, so that
/// results do not depend on it, and of so many elements in all.
const PARTS: usize = 8;
const PART_ELEMENTS: usize = 1 << 20;

/// The gradient of a convolution with respect to its weight, given its image and the gradient of its
/// output. Returns whether it has been computed.
///
/// # Errors
/// None of its own.
pub(in super::super) fn run(
    weight: &Tensor,
    images: &Tensor,
    output: &Tensor,
    geometry: &Geometry,
) -> Result<bool> {
    let samples = samples_of(output, geometry);
    if !fits(geometry, weight, samples) {
        return Ok(false);
    }
    let (to, images, output) = (flat(weight)?, flat(images)?, flat(output)?);
    let access = AccessSet::acquire(&[
        (&to, Access::Write),
        (&images, Access::Read),
        (&output, Access::Read),
    ])?;
    let Geometry { channels, features, output: [_, height, width], channels_last, .. } = *geometry;
    let tiles = Tiles { geometry, samples };
    let images = images_of(geometry, access.read::<f32>(1)?);
    let elements = access.read::<f32>(2)?;
    let output = Images { elements, channels: features, height, width, channels_last };
    if !Magnitudes::of(&images)?.are_even_with(&Magnitudes::of(&output)?, tiles)? {
        return Ok(false);
    }
    let len = PLANES * features * channels;
    let blocks: Vec<_> = try_collect(tiles.blocks(tiles.cut(at_once(geometry))))?;
    let parts = (PART_ELEMENTS / len).clamp(1, PARTS.min(blocks.len()));
    let planes = empty(&[(parts * len) as i64], weight)?;
    let room = AccessSet::acquire(&[(&planes, Access::Write)])?;
    let sums = room.write::<f32>(0)?;
    Whole { tiles, images, output }.sum(&blocks, parts, sums)?;
    // From tap to tap, and from channel to channel.
    let steps = if channels_last { [channels, 1] } else { [1, 9] };
    let (sums, finite) = (&*sums, AtomicBool::new(true));
    let weight = access.write::<f32>(0)?;
    for_each_run(weight, 9 * channels, grain_of(len / features), |features, weight| {
        if !f32::run(OfSums { sums, len, channels, features, steps, weight }) {
            finite.store(false, Ordering::Relaxed);
        }
        Ok(())
    })?;
    Ok(finite.into_inner())
}

/// A whole gradient.
struct Whole<'a> {
    tiles: Tiles<'a>,
    images: Images<'a>,
    output: Images<'a>,
}

impl Whole<'_> {
    /// Sums over blocks in so many parts: for every element of a tile a matrix (features, channels).
    /// Threads take parts, or also some of the features where there are few.
    fn sum(&self, blocks: &[TileRows], parts: usize, sums: &mut [f32]) -> Result<()> {
        let (channels, features) = (self.images.channels, self.output.channels);
        let (len, threads) = (features * channels, num_threads().div_ceil(parts));
        let width = features.div_ceil(threads).next_multiple_of(MOST_LANES) * channels;
        for_each_block(sums, parts, [PLANES, len], [len, 1], width, 1, |part, columns, mut sums| {
            let blocks = &blocks[part * blocks.len() / parts..(part + 1) * blocks.len() / parts];
            let features = columns.start / channels..columns.end / channels;
            for (at, block) in blocks.iter().enumerate() {
                let base = if at == 0 { Base::Nothing } else { Base::Result };
                self.add(block, features.clone(), &mut sums, base)?;
            }
            Ok(())
        })
    }

    /// Adds those of a block, or begins with them.
    fn add(
        &self,
        block: &TileRows,
        features: Range<usize>,
        sums: &mut MatMut<'_, f32>,
        base: Base<'_, f32>,
    ) -> Result<()> {
        let (tiles, channels) = (self.tiles, self.images.channels);
        let (samples, count) = (&block.samples, tiles.count(block));
        let (rows, own) = (tiles.image_rows(block), tiles.output_rows(block));
        let planes = Planes::of(count, [channels, features.len()]);
        let images = self.images.room(samples.len(), rows.len(), channels);
        let outputs = self.output.room(samples.len(), own.len(), features.len());
        with_buffer(planes.room() + images + outputs, |buffer| {
            let (room, buffer) = buffer.split_at_mut(planes.room());
            let (images, outputs) = buffer.split_at_mut(images);
            let images = self.images.strip(samples.clone(), rows, 0..channels, images)?;
            let output = self.output.strip(samples.clone(), own, features.clone(), outputs)?;
            let [pixels, outputs] = planes.split(room);
            f32::run(OfPixels { tiles: tiles.places(block), images, to: &mut *pixels });
            f32::run(OfOutputs { tiles: tiles.places(block), output, to: &mut *outputs });
            let [pixels, outputs] =
                [&*pixels, &*outputs].map(|planes| planes.chunks_exact(planes.len() / PLANES));
            for (plane, (pixels, outputs)) in pixels.zip(outputs).enumerate() {
                let a = Factor::Matrix(Mat::row_major(outputs, count, features.len())?.t());
                let b = Factor::Matrix(Mat::row_major(pixels, count, channels)?);
                let sums = sums.row_range(plane..plane + 1).into_elements()?;
                let c = MatMut::row_major(sums, features.len(), channels)?;
                gemm_of_factors(c.into(), count, [a, b], base)?;
            }
            Ok(())
        })
    }
}

/// Transforms tiles of the output's gradient.
struct OfOutputs<'a> {
    tiles: TileIndices<'a>,
    output: Strip<'a>,
    to: &'a mut [f32],
}

impl RowKernel<f32> for OfOutputs<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { tiles, output, to } = self;
        let features = output.channels[1];
        let (border, plane) = (unwinding::vec(0.0, features), to.len() / PLANES);
        for (line, tile) in tiles.enumerate() {
            let [a, b, c, d] = tile.outputs(output, &border);
            for at in (0..features).step_by(V::LANES) {
                let left = of_outputs([load::<V>(a, at, V::LANES), load::<V>(c, at, V::LANES)]);
                let right = of_outputs([load::<V>(b, at, V::LANES), load::<V>(d, at, V::LANES)]);
                for i in 0..4 {
                    let row = of_outputs([left[i], right[i]]);
                    for (j, value) in row.into_iter().enumerate() {
                        let place = (4 * i + j) * plane + line * features + at;
                        store(value, to, place, V::LANES);
                    }
                }
            }
        }
    }
}

/// The adjoint of [`of_sums`](super::of_sums).
#[inline(always)]
fn of_outputs<V: Lanes>([a, b]: [V; 2]) -> [V; 4] {
    [a, a + b, a - b, V::lit(0.0) - b]
}

/// The adjoint of [`of_taps`](super::of_taps).
#[inline(always)]
fn of_products<V: Lanes>([a, b, c, d]: [V; 4]) -> [V; 3] {
    let half = V::lit(0.5);
    [half.mul_add(b + c, a), half * (b - c), half.mul_add(b + c, d)]
}

/// Transforms sums over tiles, in parts of so many elements, to some features of the weight.
struct OfSums<'a> {
    sums: &'a [f32],
    len: usize,
    channels: usize,
    features: Range<usize>,
    steps: [usize; 2],
    weight: &'a mut [f32],
}

impl RowKernel<f32> for OfSums<'_> {
    /// Whether all of it is finite.
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> bool {
        let Self { sums, len, channels, features, steps: [of_taps, of_channels], weight } = self;
        let plane = len / PLANES;
        // Zero times every element: NaN if one of them is not finite.
        let mut trace = V::lit(0.0);
        for place in (features.start * channels..features.end * channels).step_by(V::LANES) {
            let feature = place / channels - features.start;
            let first = feature * 9 * channels + place % channels * of_channels;
            let mut rows = [[V::lit(0.0); 3]; 4];
            for (i, row) in rows.iter_mut().enumerate() {
                let mut own = [V::lit(0.0); 4];
                for (j, own) in own.iter_mut().enumerate() {
                    for part in sums.chunks_exact(len) {
                        *own = *own + load::<V>(part, (4 * i + j) * plane + place, V::LANES);
                    }
                }
                *row = of_products(own);
            }
            for j in 0..3 {
                let column = of_products([rows[0][j], rows[1][j], rows[2][j], rows[3][j]]);
                for (i, value) in column.into_iter().enumerate() {
                    trace = value.mul_add(V::lit(0.0), trace);
                    let to = &mut weight[first + (3 * i + j) * of_taps..];
                    if of_channels == 1 {
                        store(value, to, 0, V::LANES);
                        continue;
                    }
                    let mut lanes = [0.0; MOST_LANES];
                    store(value, &mut lanes, 0, V::LANES);
                    for (lane, value) in lanes[..V::LANES].iter().enumerate() {
                        to[lane * of_channels] = *value;
                    }
                }
            }
        }
        !trace.is_nan().any()
    }
}
