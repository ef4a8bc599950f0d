//! Convolutions without patches: with few features, to make them for a product would take longer than to
//! multiply them, and with more of them still a part of that.
//!
//! The rows of the image with their border are copied once, as for every [`Window`]. Vectors of
//! neighbouring positions, for a few features at a time, are then summed in registers, in the order
//! of the channels and of the kernel's elements.

use super::geometry::Geometry;
use super::products::{WIDE, even_parts};
use super::window::{Layout, Run, Window};
use crate::gemm::{MatMut, for_each_block};
use crate::parallel::chunks::grain_of;
use crate::parallel::scratch::with_buffer;
use crate::rows::loops::{RowKernel, StridedLoads, Vectorised, store};
use crate::vec::{Lanes, Level, level};
use corten_core::{DType, Result, unwinding};

/// The most features: with more of them, patches are used often enough.
const FEATURES: usize = 32;

/// The most elements of the weight with more features than that.
const WEIGHT: usize = 64 * 1024;

/// Elements of the image that stay in a second-level cache next to what else is used.
const NEAR: usize = 64 * 1024;

/// The most elements of the image at a time: products read more of them less often.
const FAR: usize = 192 * 1024;

/// Features at a time, the more the fewer reads of the image; but with 16 registers eight leave room
/// for one vector of positions, and every factor would be brought for a single product.
fn tiles() -> &'static [usize] {
    if level() == Level::Avx512 { &[8, 6, 4] } else { &[4, 6] }
}

/// Whether the convolution is done here.
pub(super) fn fits(geometry: &Geometry, dtype: DType) -> bool {
    dtype == DType::Float32
        && geometry.groups == 1
        && geometry.positions() > 0
        && !geometry.channels_last
        && (geometry.features <= FEATURES || is_regular(geometry))
        && !geometry.is_pointwise()
        && !geometry.is_unfolded()
        && window_len(geometry, rows_at_once(geometry)) <= FAR
}

/// Whether vectors of positions are nearly whole, and the weight stays in the caches next to the
/// processor: it is then read as fast as it is used, with any number of features. Of an image with
/// strides, as many more elements lie beside it.
fn is_regular(geometry: &Geometry) -> bool {
    let (row, lanes) = (geometry.output[2], if level() == Level::Avx512 { 16 } else { 8 });
    geometry.features * geometry.patch() <= WEIGHT / (geometry.stride[1] * geometry.stride[2])
        && 8 * row >= 7 * row.next_multiple_of(lanes)
}

/// Rows of positions at a time: few enough that the rows of the image stay near, and many enough that
/// few of them are copied twice.
fn rows_at_once(geometry: &Geometry) -> usize {
    let reach = (geometry.kernel[1] - 1) * geometry.dilation[1];
    let mut rows = (WIDE / geometry.output[2].max(1)).max(1);
    while rows > 4 * reach.max(1) && window_len(geometry, rows) > NEAR {
        rows = rows.div_ceil(2);
    }
    rows
}

/// Elements of the image that are copied for so many rows of positions.
fn window_len(geometry: &Geometry, rows: usize) -> usize {
    let positions = (rows * geometry.output[2]).min(geometry.positions());
    Layout::of(geometry, 0..positions, geometry.channels).buffer_len()
}

/// `output = weight * image (+ bias)`, for every sample.
///
/// # Errors
/// `Internal` when the output is too short.
pub(super) fn correlate(
    geometry: &Geometry,
    output: &mut [f32],
    images: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
) -> Result<()> {
    let positions = geometry.positions();
    let image_size = geometry.channels * geometry.pixels();
    let size = geometry.features * positions;
    let packed = Packed::of(geometry, weight, bias);
    let (samples, shape) = (output.len() / size.max(1), [geometry.features, positions]);
    let row = geometry.output[2].max(1);
    let rows = positions / row;
    let parts = even_parts(rows.div_ceil(rows_at_once(geometry)), samples);
    let width = rows.div_ceil(parts).max(1) * row;
    let grain = grain_of(geometry.features * geometry.patch() * width / 8);
    for_each_block(output, samples, shape, [positions, 1], width, grain, |sample, range, output| {
        let image = &images[sample * image_size..][..image_size];
        let layout = Layout::of(geometry, range.clone(), geometry.channels);
        with_buffer(layout.buffer_len(), |buffer| {
            let window = Window::new(geometry, layout, image, 0, buffer);
            let runs = window.runs(0..range.len());
            f32::run(Sums { window: &window, runs: &runs, packed: &packed, output })
        })
    })
}

/// The weight as it is read: for every tile of features, for every channel and element of the
/// kernel, those of the features side by side; missing features are zero.
struct Packed {
    features: usize,
    tile: usize,
    depth: usize,
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Packed {
    fn of(geometry: &Geometry, weight: &[f32], bias: Option<&[f32]>) -> Self {
        let (features, depth) = (geometry.features, geometry.patch());
        let padded = |tile: &usize| features.next_multiple_of(*tile);
        let tile = tiles().iter().copied().min_by_key(padded).unwrap_or(4);
        let mut packed = unwinding::vec(0.0, padded(&tile) * depth);
        for feature in 0..features {
            let first = feature / tile * tile * depth;
            let lines = packed[first + feature % tile..].iter_mut().step_by(tile);
            let taps = &weight[feature * depth..][..depth];
            lines.zip(taps).for_each(|(to, &value)| *to = value);
        }
        let mut shifts = unwinding::vec(0.0, padded(&tile));
        if let Some(bias) = bias {
            shifts[..features].copy_from_slice(bias);
        }
        Self { features, tile, depth, weight: packed, bias: shifts }
    }
}

/// The sums for some positions of one sample.
struct Sums<'a> {
    window: &'a Window<'a, f32>,
    runs: &'a [Run],
    packed: &'a Packed,
    /// A row of positions for every feature.
    output: MatMut<'a, f32>,
}

/// Neighbouring positions of one row, as many as a vector has at most.
#[derive(Clone, Copy)]
struct Piece {
    from: usize,
    to: usize,
    count: usize,
}

impl RowKernel<f32> for Sums<'_> {
    type Out = Result<()>;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(mut self) -> Result<()> {
        let mut pieces = Vec::new();
        for run in self.runs {
            for start in (0..run.len).step_by(V::LANES) {
                let count = (run.len - start).min(V::LANES);
                pieces.push(Piece { from: run.from + start, to: run.to + start, count });
            }
        }
        // As many sums as there are registers for, besides the factors.
        match (self.packed.tile, V::LANES >= 16) {
            (8, true) => self.tiles::<V, 8, 3>(&pieces),
            (6, true) => self.tiles::<V, 6, 4>(&pieces),
            (_, true) => self.tiles::<V, 4, 6>(&pieces),
            (6, false) => self.tiles::<V, 6, 2>(&pieces),
            (_, false) => self.tiles::<V, 4, 3>(&pieces),
        }
    }
}

impl Sums<'_> {
    #[inline(always)]
    fn tiles<V: Lanes<Elem = f32>, const F: usize, const P: usize>(
        &mut self,
        pieces: &[Piece],
    ) -> Result<()> {
        for group in pieces.chunks(P) {
            // The last one again where there are fewer.
            let last = group.len() - 1;
            let mut from = [0; P];
            for (p, from) in from.iter_mut().enumerate() {
                *from = group[p.min(last)].from;
            }
            let from = StridedLoads::of(self.window.parts().0, from);
            for first in (0..self.packed.features).step_by(F) {
                let sums: [[V; P]; F] = self.sums(first, &from);
                for (feature, sums) in (first..self.packed.features).zip(&sums) {
                    let row = self.output.row_range(feature..feature + 1).into_elements()?;
                    for (piece, &sum) in group.iter().zip(sums) {
                        store(sum, row, piece.to, piece.count);
                    }
                }
            }
        }
        Ok(())
    }

    /// The sums of a tile of features at pieces that begin at some places.
    #[inline(always)]
    fn sums<V: Lanes<Elem = f32>, const F: usize, const P: usize>(
        &self,
        first: usize,
        from: &StridedLoads<'_, V, P>,
    ) -> [[V; P]; F] {
        let (_, taps, channel_size) = self.window.parts();
        let weight = &self.packed.weight[first * self.packed.depth..];
        let mut sums = [[V::lit(0.0); P]; F];
        for (f, sums) in sums.iter_mut().enumerate() {
            *sums = [V::splat(self.packed.bias[first + f]); P];
        }
        let mut weights = weight.chunks_exact(F);
        let mut channel = 0;
        for _ in 0..self.packed.depth / taps.len() {
            for (&tap, weights) in taps.iter().zip(&mut weights) {
                let elements = from.load(channel + tap);
                for f in 0..F {
                    let weight = V::splat(weights[f]);
                    for p in 0..P {
                        sums[f][p] = weight.mul_add(elements[p], sums[f][p]);
                    }
                }
            }
            channel += channel_size;
        }
        sums
    }
}
