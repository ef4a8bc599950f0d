//! Convolutions with a 3x3 kernel in fewer multiplications: F(2x2, 3x3) of Lavin and Gray, "Fast
//! Algorithms for Convolutional Neural Networks" (2016).
//!
//! Tiles of 4x4 pixels, the kernel, and tiles of 2x2 outputs are transformed, so that 16 products of
//! matrices over the channels take the place of 36. Vectors run over the channels, which therefore
//! come last; rows of images in another layout are turned, and those of outputs, while they are near.
//!
//! Errors are relative to the largest pixels of a tile, and not to those that an output looks at; for
//! pixels of [like size](dynamic_range_guard) they are those of sums in order. Where they are not, and
//! where a sum is not finite, so that differences of infinities may have made a NaN of it, the
//! convolution is refused and computed as it is defined.
//!
//! Gradients of weights ([`weight`]) are the adjoint of all that: tiles of pixels and of the output's
//! gradient are transformed and multiplied, and then the sums over tiles are.

#![allow(clippy::needless_range_loop, reason = "columns of rows of vectors")]

mod dynamic_range_guard;
mod images;
mod tiles;
pub(super) mod weight;

use super::super::support::{contiguous, empty, flat};
use super::geometry::Geometry;
use super::samples_of;
use crate::gemm::{Base, Factor, Mat, MatMut, for_each_block, gemm_of_factors};
use crate::parallel::chunks::{RunsBlock, for_each_block_of_runs};
use crate::parallel::scratch::with_buffer;
use crate::rows::loops::{MOST_LANES, RowKernel, Vectorised, load, store};
use crate::vec::{Lanes, MaskBits};
use corten_core::{Access, AccessSet, DType, Result, unwinding};
use corten_ops::parallel::num_threads;
use corten_ops::{Tensor, op};
use dynamic_range_guard::Magnitudes;
use images::Images;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use tiles::{Strip, TileIndices, TileRows, Tiles};

/// The least multiplications of a position per channel and feature for which the transforms of tiles
/// cost less than they save. That of the kernel does with as many positions as there are channels.
const WORTH: usize = 20;

/// Elements of a transformed tile.
const PLANES: usize = 16;

/// Tiles of a block: the more there are, the less often the kernel is read, and the fewer, the nearer
/// are the transformed elements.
const TILES: usize = 128;

/// The most elements of pixels and sums of an element of their tiles, so that threads keep the room.
const ELEMENTS: usize = 48 << 10;

/// Elements of a transformed kernel that a thread makes at a time.
const WIDTH: usize = 4096;

/// The output of a convolution, or with `turned` that of the one that `geometry` is the
/// [`adjoint`](Geometry::adjoint) of. Returns whether it has been computed.
///
/// # Errors
/// Those of operators.
pub(super) fn run(
    out: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    geometry: &Geometry,
    turned: bool,
) -> Result<bool> {
    let samples = samples_of(out, geometry);
    if !fits(geometry, out, samples) {
        return Ok(false);
    }
    let (order, steps) = taps_order(geometry, turned, weight.is_contiguous());
    let taps = flat(&contiguous(&op::permute(weight, &order)?)?)?;
    let (to, from) = (flat(out)?, flat(input)?);
    let absent = Tensor::undefined();
    let access = AccessSet::acquire(&[
        (&to, Access::Write),
        (&from, Access::Read),
        (&taps, Access::Read),
        (bias.unwrap_or(&absent), Access::Read),
    ])?;
    let bias = bias.map(|_| access.read::<f32>(3)).transpose()?;
    let tiles = Tiles { geometry, samples };
    let images = images_of(geometry, access.read::<f32>(1)?);
    if !Magnitudes::of(&images)?.are_even(tiles)? {
        return Ok(false);
    }
    // A tensor's memory comes from the last call: so many new pages would take as long as a product.
    let planes = empty(&[(PLANES * geometry.channels * geometry.features) as i64], out)?;
    let room = AccessSet::acquire(&[(&planes, Access::Write)])?;
    let kernel = room.write::<f32>(0)?;
    let taps = Taps { data: access.read::<f32>(2)?, steps, turned };
    transform(taps, geometry, kernel)?;
    Whole { tiles, images, kernel, bias }.run(access.write::<f32>(0)?)
}

/// The images of a convolution.
fn images_of<'a>(geometry: &Geometry, elements: &'a [f32]) -> Images<'a> {
    let Geometry { channels, image: [_, height, width], channels_last, .. } = *geometry;
    Images { elements, channels, height, width, channels_last }
}

/// Whether a convolution is computed here, given one of its tensors.
fn fits(geometry: &Geometry, tensor: &Tensor, samples: usize) -> bool {
    let Geometry { channels, features, image, output, padding, .. } = *geometry;
    (tensor.dtype(), tensor.dim()) == (DType::Float32, 4)
        && geometry.groups == 1
        && geometry.kernel == [1, 3, 3]
        && geometry.stride == [1; 3]
        && geometry.dilation == [1; 3]
        && (image[0], output[0], padding[0]) == (1, 1, 0)
        && padding[1].max(padding[2]) <= 2
        && channels * features >= WORTH * (channels + features)
        && channels.is_multiple_of(MOST_LANES)
        && features.is_multiple_of(MOST_LANES)
        && samples * geometry.positions() >= channels.min(features)
}

/// The dimensions of the weight with the features last, as it takes least to copy it, and the steps
/// from tap to tap and from channel to channel then.
fn taps_order(geometry: &Geometry, turned: bool, row_major: bool) -> ([i64; 4], [usize; 2]) {
    let Geometry { channels, features, .. } = *geometry;
    match (turned, row_major) {
        (true, _) => ([0, 2, 3, 1], [features, 9 * features]),
        (false, true) => ([1, 2, 3, 0], [features, 9 * features]),
        (false, false) => ([2, 3, 1, 0], [channels * features, features]),
    }
}

/// The taps of the kernel, with the features last.
#[derive(Clone, Copy)]
struct Taps<'a> {
    data: &'a [f32],
    /// From tap to tap, and from channel to channel.
    steps: [usize; 2],
    /// Whether the last tap is the first.
    turned: bool,
}

/// The kernel as a matrix (channels, features) for every element of a tile.
fn transform(taps: Taps<'_>, geometry: &Geometry, planes: &mut [f32]) -> Result<()> {
    let features = geometry.features;
    let len = geometry.channels * features;
    for_each_block_of_runs([planes], [PLANES, len], WIDTH, 1, |columns, [mut block]| {
        f32::run(OfKernel { taps, features, columns, block: &mut block });
        Ok(())
    })
}

struct OfKernel<'a, 'b> {
    taps: Taps<'a>,
    features: usize,
    columns: Range<usize>,
    block: &'a mut RunsBlock<'b, f32>,
}

impl RowKernel<f32> for OfKernel<'_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { taps, features, columns, block } = self;
        let [step, far] = taps.steps;
        for at in (0..columns.len()).step_by(V::LANES) {
            let place = columns.start + at;
            let (channel, feature) = (place / features, place % features);
            let mut g = [[V::lit(0.0); 3]; 3];
            for (i, tap) in g.as_flattened_mut().iter_mut().enumerate() {
                let i = if taps.turned { 8 - i } else { i };
                *tap = load::<V>(&taps.data[channel * far + i * step..], feature, V::LANES);
            }
            let rows = [of_taps(g[0]), of_taps(g[1]), of_taps(g[2])];
            for j in 0..4 {
                let column = of_taps([rows[0][j], rows[1][j], rows[2][j]]);
                for (i, value) in column.into_iter().enumerate() {
                    store(value, block.part(4 * i + j, 0), at, V::LANES);
                }
            }
        }
    }
}

#[inline(always)]
fn of_taps<V: Lanes>([a, b, c]: [V; 3]) -> [V; 4] {
    let (half, sum) = (V::lit(0.5), a + c);
    [a, half * (sum + b), half * (sum - b), c]
}

#[inline(always)]
fn of_pixels<V: Lanes>([a, b, c, d]: [V; 4]) -> [V; 4] {
    [a - c, b + c, c - b, b - d]
}

#[inline(always)]
fn of_sums<V: Lanes>([a, b, c, d]: [V; 4]) -> [V; 2] {
    [a + b + c, b - c - d]
}

/// A whole convolution.
struct Whole<'a> {
    tiles: Tiles<'a>,
    images: Images<'a>,
    kernel: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl Whole<'_> {
    /// Fills the output, and returns whether all of it is finite.
    fn run(&self, output: &mut [f32]) -> Result<bool> {
        let geometry = self.tiles.geometry;
        let (positions, line) = (geometry.positions(), 2 * geometry.output[2]);
        let (len, sample) = (output.len(), geometry.features * positions);
        let [samples, rows] = self.cut();
        let whole = rows == self.tiles.of_sample()[0];
        let (count, shape, strides, width) = match whole {
            true => (1, [1, len], [len, 1], samples * sample),
            false => {
                let shape = [geometry.features, positions];
                (self.tiles.samples, shape, geometry.output_strides(), rows * line)
            }
        };
        let finite = AtomicBool::new(true);
        for_each_block(output, count, shape, strides, width, 1, |matrix, columns, to| {
            let part = |unit: usize| columns.start / unit..columns.end.div_ceil(unit);
            let block = match whole {
                true => TileRows { samples: part(sample), rows: 0..rows },
                false => TileRows { samples: matrix..matrix + 1, rows: part(line) },
            };
            if !self.fill(&block, to)? {
                finite.store(false, Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(finite.into_inner())
    }

    /// Samples, and rows of tiles of each, of a block: fewer than fit where there are few, so that
    /// every thread has some.
    fn cut(&self) -> [usize; 2] {
        let all = self.tiles.count(&self.tiles.all());
        self.tiles.cut(at_once(self.tiles.geometry).min(all.div_ceil(num_threads())))
    }

    /// The outputs of a block: the positions of a sample, or all elements of some samples. Returns
    /// whether they are finite.
    fn fill(&self, block: &TileRows, to: MatMut<'_, f32>) -> Result<bool> {
        let Geometry { channels, features, channels_last, .. } = *self.tiles.geometry;
        let rows = self.tiles.image_rows(block);
        let planes = Planes::of(self.tiles.count(block), [channels, features]);
        let images = self.images.room(block.samples.len(), rows.len(), channels);
        let outputs = if channels_last { 0 } else { to.shape().iter().product() };
        with_buffer(planes.room() + images + outputs, |buffer| {
            let (room, buffer) = buffer.split_at_mut(planes.room());
            let (images, outputs) = buffer.split_at_mut(images);
            let images = self.images.strip(block.samples.clone(), rows, 0..channels, images)?;
            if channels_last {
                return self.compute(block, images, planes.split(room), to.t().into_elements()?);
            }
            let finite = self.compute(block, images, planes.split(room), outputs)?;
            self.put(block, outputs, to)?;
            Ok(finite)
        })
    }

    /// Puts outputs with the features last in a place where they come first.
    fn put(&self, block: &TileRows, outputs: &[f32], to: MatMut<'_, f32>) -> Result<()> {
        let features = self.tiles.geometry.features;
        let positions = outputs.len() / features / block.samples.len();
        if to.shape()[0] == features {
            return to.copy_of(Mat::row_major(outputs, positions, features)?.t());
        }
        let size = features * positions;
        let samples = to.into_elements()?.chunks_exact_mut(size);
        samples.zip(outputs.chunks_exact(size)).try_for_each(|(to, from)| {
            let to = MatMut::row_major(to, features, positions)?;
            to.copy_of(Mat::row_major(from, positions, features)?.t())
        })
    }

    /// The outputs of a block, with the features last. Returns whether they are finite.
    fn compute(
        &self,
        block: &TileRows,
        images: Strip<'_>,
        [pixels, sums]: [&mut [f32]; 2],
        outputs: &mut [f32],
    ) -> Result<bool> {
        let Geometry { channels, features, .. } = *self.tiles.geometry;
        let [of_pixels, of_sums] = [&*pixels, &*sums].map(|planes| planes.len() / PLANES);
        let count = self.tiles.count(block);
        f32::run(OfPixels { tiles: self.tiles.places(block), images, to: &mut *pixels });
        let kernels = self.kernel.chunks_exact(channels * features);
        let (from, to) = (pixels.chunks_exact(of_pixels), sums.chunks_exact_mut(of_sums));
        for ((from, to), kernel) in from.zip(to).zip(kernels) {
            let a = Factor::Matrix(Mat::row_major(from, count, channels)?);
            let b = Factor::Matrix(Mat::row_major(kernel, channels, features)?);
            let c = MatMut::row_major(to, count, features)?;
            gemm_of_factors(c.into(), channels, [a, b], Base::Nothing)?;
        }
        Ok(f32::run(OfSums { whole: self, sums, block, outputs }))
    }
}

/// How many tiles a block has at the most.
fn at_once(geometry: &Geometry) -> usize {
    TILES.min(ELEMENTS / (geometry.channels + geometry.features)).max(1)
}

/// Matrices over the tiles of a block: of their pixels and of their outputs, for every element of a
/// tile.
struct Planes([usize; 2]);

impl Planes {
    /// Those of so many tiles, of so many elements of both.
    fn of(tiles: usize, lens: [usize; 2]) -> Self {
        // They do not begin at the same place of a cache.
        Self(lens.map(|len| tiles * len + MOST_LANES))
    }

    fn room(&self) -> usize {
        PLANES * (self.0[0] + self.0[1])
    }

    fn split<'a>(&self, room: &'a mut [f32]) -> [&'a mut [f32]; 2] {
        room.split_at_mut(PLANES * self.0[0]).into()
    }
}

/// Transforms tiles of pixels.
struct OfPixels<'a> {
    tiles: TileIndices<'a>,
    images: Strip<'a>,
    to: &'a mut [f32],
}

impl RowKernel<f32> for OfPixels<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { tiles, images, to } = self;
        let channels = images.channels[1];
        let (border, plane) = (unwinding::vec(0.0, channels), to.len() / PLANES);
        for (line, tile) in tiles.enumerate() {
            let rows = tile.pixels(images, &border);
            for at in (0..channels).step_by(V::LANES) {
                let mut d = [[V::lit(0.0); 4]; 4];
                for (pixel, row) in d.as_flattened_mut().iter_mut().zip(&rows) {
                    *pixel = load::<V>(row, at, V::LANES);
                }
                for row in &mut d {
                    *row = of_pixels(*row);
                }
                for j in 0..4 {
                    let column = of_pixels([d[0][j], d[1][j], d[2][j], d[3][j]]);
                    for (i, value) in column.into_iter().enumerate() {
                        let place = (4 * i + j) * plane + line * channels + at;
                        store(value, to, place, V::LANES);
                    }
                }
            }
        }
    }
}

/// Transforms sums to outputs.
struct OfSums<'a> {
    whole: &'a Whole<'a>,
    sums: &'a [f32],
    block: &'a TileRows,
    outputs: &'a mut [f32],
}

impl RowKernel<f32> for OfSums<'_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> bool {
        let Self { whole, sums, block, outputs } = self;
        let Geometry { features, output: [_, height, width], .. } = *whole.tiles.geometry;
        let (plane, rows) = (sums.len() / PLANES, whole.tiles.output_rows(block));
        // Zero times every output: NaN if one of them is not finite.
        let mut trace = V::lit(0.0);
        for (line, tile) in whole.tiles.places(block).enumerate() {
            let first = (tile.sample - block.samples.start) * rows.len() + tile.y - rows.start;
            for at in (0..features).step_by(V::LANES) {
                let mut m = [[V::lit(0.0); 4]; 4];
                for (i, sum) in m.as_flattened_mut().iter_mut().enumerate() {
                    *sum = load::<V>(sums, i * plane + line * features + at, V::LANES);
                }
                // No closure, which would be compiled for another processor than the rest.
                let mut halves = [[V::lit(0.0); 2]; 4];
                for (half, &row) in halves.iter_mut().zip(&m) {
                    *half = of_sums(row);
                }
                let m = halves;
                let bias = match whole.bias {
                    Some(bias) => load::<V>(bias, at, V::LANES),
                    None => V::lit(0.0),
                };
                for j in 0..(width - tile.x).min(2) {
                    let column = of_sums([m[0][j], m[1][j], m[2][j], m[3][j]]);
                    for (i, value) in column.into_iter().enumerate().take(height - tile.y) {
                        let value = value + bias;
                        trace = value.mul_add(V::lit(0.0), trace);
                        let place = ((first + i) * width + tile.x + j) * features + at;
                        store(value, outputs, place, V::LANES);
                    }
                }
            }
        }
        !trace.is_nan().any()
    }
}
