//! Convolutions with a 3x3 kernel in fewer multiplications: F(2x2, 3x3) of Lavin and Gray, "Fast
//! Algorithms for Convolutional Neural Networks" (2016).
//!
//! Tiles of 4x4 pixels, the kernel, and tiles of 2x2 outputs are transformed, so that 16 products of
//! matrices over the channels take the place of 36. Vectors run over the channels, which therefore
//! come last; other layouts are converted, which costs little beside the products.
//!
//! Errors are relative to the largest pixels of a tile, and not to those that an output looks at; for
//! pixels of [like size](super::evenness) they are those of sums in order. Where they are not, and
//! where a sum is not finite, so that differences of infinities may have made a NaN of it, the
//! convolution is refused and computed as it is defined.

#![allow(clippy::needless_range_loop, reason = "columns of rows of vectors")]

use super::super::support::{contiguous, contiguous_in, empty, empty_in};
use super::evenness::is_even;
use super::flat;
use super::geometry::Geometry;
use crate::chunks::{RunsBlock, for_each_block_of_runs, for_each_run};
use crate::gemm::{Base, Factor, Mat, MatMut, gemm_of_factors};
use crate::row_loops::{Job, MOST_LANES, Vectorised, load, store};
use crate::scratch::with_buffer;
use crate::vec::{Lanes, MaskBits};
use corten_core::{Access, AccessSet, DType, MemoryFormat, Result};
use corten_ops::{Tensor, op};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The least multiplications of a position per channel and feature for which the transforms of tiles
/// cost less than they save. That of the kernel does with as many positions as there are channels.
const WORTH: usize = 20;

/// The least samples where outputs of odd height do not split into rows of tiles, so that threads do
/// different samples.
const SAMPLES: usize = 8;

/// Elements of a transformed tile.
const PLANES: usize = 16;

/// Tiles at the most at a time: the more there are, the less often the kernel is read, and the fewer,
/// the nearer are the transformed elements.
const TILES: usize = 128;

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
    let plane = geometry.positions() * geometry.features;
    let samples = out.numel() as usize / plane.max(1);
    if !fits(geometry, samples) || out.dtype() != DType::Float32 || weight.dim() != 4 {
        return Ok(false);
    }
    let last = MemoryFormat::ChannelsLast;
    let result = match geometry.channels_last {
        true => out.clone(),
        false => empty_in(&out.sizes(), out, out.dtype(), last)?,
    };
    let (order, steps) = taps_order(geometry, turned, weight.is_contiguous());
    let taps = flat(&contiguous(&op::permute(weight, &order)?)?)?;
    let (to, from) = (flat(&result)?, flat(&contiguous_in(input, last)?)?);
    let absent = Tensor::undefined();
    let access = AccessSet::acquire(&[
        (&to, Access::Write),
        (&from, Access::Read),
        (&taps, Access::Read),
        (bias.unwrap_or(&absent), Access::Read),
    ])?;
    let bias = bias.map(|_| access.read::<f32>(3)).transpose()?;
    let images = access.read::<f32>(1)?;
    if !is_even(images, geometry)? {
        return Ok(false);
    }
    // A tensor's memory comes from the last call: so many new pages would take as long as a product.
    let planes = empty(&[(PLANES * geometry.channels * geometry.features) as i64], out)?;
    let room = AccessSet::acquire(&[(&planes, Access::Write)])?;
    let kernel = room.write::<f32>(0)?;
    let taps = Taps { data: access.read::<f32>(2)?, steps, turned };
    transform(taps, geometry, kernel)?;
    let whole = Whole { geometry, images, kernel, bias };
    let finite = whole.run(access.write::<f32>(0)?)?;
    drop(access);
    if finite && !geometry.channels_last {
        op::copy_(out, &result, false)?;
    }
    Ok(finite)
}

fn fits(geometry: &Geometry, samples: usize) -> bool {
    let Geometry { channels, features, image, output, padding, .. } = *geometry;
    geometry.groups == 1
        && geometry.kernel == [1, 3, 3]
        && geometry.stride == [1; 3]
        && geometry.dilation == [1; 3]
        && (image[0], output[0], padding[0]) == (1, 1, 0)
        && padding[1].max(padding[2]) <= 2
        && channels * features >= WORTH * (channels + features)
        && channels.is_multiple_of(MOST_LANES)
        && features.is_multiple_of(MOST_LANES)
        && (samples >= SAMPLES || output[1].is_multiple_of(2))
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

impl Job<f32> for OfKernel<'_, '_> {
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
    geometry: &'a Geometry,
    images: &'a [f32],
    kernel: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl Whole<'_> {
    /// Fills the output, and returns whether all of it is finite.
    fn run(&self, output: &mut [f32]) -> Result<bool> {
        let Geometry { channels, features, .. } = *self.geometry;
        let (unit, elements) = self.unit();
        let finite = AtomicBool::new(true);
        for_each_run(output, elements, TILES.div_ceil(2 * unit), |units, output| {
            let tiles = units.start * unit..units.end * unit;
            let count = TILES.min(tiles.len());
            // Planes do not begin at the same place of a cache.
            let [pixels, sums] = [channels, features].map(|len| count * len + MOST_LANES);
            let mut part = Part { first: units.start * elements, output };
            with_buffer(PLANES * (pixels + sums), |buffer| {
                let (pixels, sums) = buffer.split_at_mut(PLANES * pixels);
                for start in tiles.clone().step_by(count) {
                    let tiles = start..(start + count).min(tiles.end);
                    if !self.some(tiles, [pixels, sums], &mut part)? {
                        finite.store(false, Ordering::Relaxed);
                    }
                }
                Ok(())
            })
        })?;
        Ok(finite.into_inner())
    }

    /// Tiles whose outputs lie side by side and are whole, and these outputs' elements: a row of
    /// them, or a sample where the last row is cut.
    fn unit(&self) -> (usize, usize) {
        let Geometry { features, output: [_, height, width], .. } = *self.geometry;
        let [rows, cols] = self.tiles();
        match height.is_multiple_of(2) {
            true => (cols, 2 * width * features),
            false => (rows * cols, height * width * features),
        }
    }

    /// Rows and columns of tiles of a sample.
    fn tiles(&self) -> [usize; 2] {
        [self.geometry.output[1].div_ceil(2), self.geometry.output[2].div_ceil(2)]
    }

    /// The sample of a tile, and its first output row and column.
    #[inline(always)]
    fn place(&self, tile: usize) -> [usize; 3] {
        let [rows, cols] = self.tiles();
        [tile / (rows * cols), tile / cols % rows * 2, tile % cols * 2]
    }

    /// Some tiles, counted through the samples.
    fn some(
        &self,
        tiles: Range<usize>,
        [pixels, sums]: [&mut [f32]; 2],
        part: &mut Part<'_>,
    ) -> Result<bool> {
        let Geometry { channels, features, .. } = *self.geometry;
        let planes = [pixels.len() / PLANES, sums.len() / PLANES];
        f32::run(OfPixels { whole: self, tiles: tiles.clone(), to: pixels });
        let kernels = self.kernel.chunks_exact(channels * features);
        let (from, to) = (pixels.chunks_exact(planes[0]), sums.chunks_exact_mut(planes[1]));
        for ((from, to), kernel) in from.zip(to).zip(kernels) {
            let a = Factor::Matrix(Mat::row_major(from, tiles.len(), channels)?);
            let b = Factor::Matrix(Mat::row_major(kernel, channels, features)?);
            let c = MatMut::row_major(to, tiles.len(), features)?;
            gemm_of_factors(c.into(), channels, [a, b], Base::Nothing)?;
        }
        Ok(f32::run(OfSums { whole: self, sums, tiles, part }))
    }
}

/// The elements of the output from the `first` on.
struct Part<'a> {
    first: usize,
    output: &'a mut [f32],
}

/// Transforms tiles of pixels.
struct OfPixels<'a> {
    whole: &'a Whole<'a>,
    tiles: Range<usize>,
    to: &'a mut [f32],
}

impl Job<f32> for OfPixels<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { whole, tiles, to } = self;
        let Geometry { channels, image: [_, height, width], padding, .. } = *whole.geometry;
        let border = vec![0.0; channels];
        let plane = to.len() / PLANES;
        for (line, tile) in tiles.enumerate() {
            let [sample, y, x] = whole.place(tile);
            let mut rows = [border.as_slice(); PLANES];
            for (i, row) in rows.iter_mut().enumerate() {
                let y = (y + i / 4).wrapping_sub(padding[1]);
                let x = (x + i % 4).wrapping_sub(padding[2]);
                if y < height && x < width {
                    *row =
                        &whole.images[((sample * height + y) * width + x) * channels..][..channels];
                }
            }
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
struct OfSums<'a, 'b> {
    whole: &'a Whole<'a>,
    sums: &'a [f32],
    tiles: Range<usize>,
    part: &'a mut Part<'b>,
}

impl Job<f32> for OfSums<'_, '_> {
    type Out = bool;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> bool {
        let Self { whole, sums, tiles, part } = self;
        let Geometry { features, output: [_, height, width], .. } = *whole.geometry;
        let plane = sums.len() / PLANES;
        // Zero times every output: NaN if one of them is not finite.
        let mut trace = V::lit(0.0);
        for (line, tile) in tiles.enumerate() {
            let [sample, y, x] = whole.place(tile);
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
                for j in 0..(width - x).min(2) {
                    let column = of_sums([m[0][j], m[1][j], m[2][j], m[3][j]]);
                    for (i, value) in column.into_iter().enumerate().take(height - y) {
                        let value = value + bias;
                        trace = value.mul_add(V::lit(0.0), trace);
                        let place = ((sample * height + y + i) * width + x + j) * features + at;
                        store(value, part.output, place - part.first, V::LANES);
                    }
                }
            }
        }
        !trace.is_nan().any()
    }
}
