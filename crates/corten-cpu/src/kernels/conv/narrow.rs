//! Convolutions with few features, without patches: to make patches for a product would take longer
//! than to multiply them.
//!
//! The rows of the image with their border are copied once, as for every [`Window`]. Vectors of
//! neighbouring positions, for a few features at a time, are then summed in registers, in the order
//! of the channels and of the kernel's elements.

use super::geometry::Geometry;
use super::products::{WIDE, blocks};
use super::window::{Layout, Run, Window};
use crate::chunks::{for_each_chunk, grain_of};
use crate::row_loops::{Job, Vectorised, load, store};
use crate::scratch::with_buffer;
use crate::vec::Lanes;
use corten_core::{DType, Result};

/// The most features: with more of them, patches are used often enough.
const FEATURES: usize = 32;

/// The least samples: threads do different ones.
const SAMPLES: usize = 8;

/// Features at a time, the more the fewer reads of the image.
const TILES: [usize; 3] = [8, 6, 4];

/// Whether the convolution of so many samples is done here.
pub(super) fn fits(geometry: &Geometry, dtype: DType, samples: usize) -> bool {
    dtype == DType::Float32
        && geometry.groups == 1
        && !geometry.channels_last
        && geometry.features <= FEATURES
        && geometry.stride[2] == 1
        && !geometry.is_pointwise()
        && !geometry.is_unfolded()
        && samples >= SAMPLES
}

/// `output = weight * image (+ bias)`, for every sample; with `turned`, the weight is that of the
/// convolution that `geometry` is the [`adjoint`](Geometry::adjoint) of.
///
/// # Errors
/// None of its own.
pub(super) fn correlate(
    geometry: &Geometry,
    output: &mut [f32],
    images: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    turned: bool,
) -> Result<()> {
    let positions = geometry.positions();
    let image_size = geometry.channels * geometry.pixels();
    let size = geometry.features * positions;
    let packed = Packed::of(geometry, weight, bias, turned);
    let row = geometry.output[2].max(1);
    let width = (WIDE / row).max(1) * row;
    let grain = grain_of(size * geometry.patch() / 8);
    for_each_chunk(output, size, grain, |sample, output| {
        let image = &images[sample * image_size..][..image_size];
        for range in blocks(positions, width) {
            let layout = Layout::of(geometry, range.clone(), geometry.channels);
            with_buffer(layout.buffer_len(), |buffer| {
                let window = Window::new(geometry, layout, image, 0, buffer);
                let runs = window.runs(0..range.len());
                let output = &mut output[range.start..];
                f32::run(Sums { window: &window, runs: &runs, packed: &packed, output, positions });
            });
        }
        Ok(())
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
    fn of(geometry: &Geometry, weight: &[f32], bias: Option<&[f32]>, turned: bool) -> Self {
        let (features, channels) = (geometry.features, geometry.channels);
        let (kernel, depth) = (geometry.kernel_size(), geometry.patch());
        let padded = |tile: &usize| features.next_multiple_of(*tile);
        let tile = TILES.into_iter().min_by_key(padded).unwrap_or(TILES[0]);
        let mut packed = vec![0.0; padded(&tile) * depth];
        for feature in 0..features {
            for line in 0..depth {
                let (channel, tap) = (line / kernel, line % kernel);
                let from = match turned {
                    false => (feature * channels + channel) * kernel + tap,
                    true => (channel * features + feature) * kernel + kernel - 1 - tap,
                };
                let first = feature / tile * tile * depth;
                packed[first + line * tile + feature % tile] = weight[from];
            }
        }
        let mut shifts = vec![0.0; padded(&tile)];
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
    /// The positions of the first feature, from the first one asked for; those of the next follow
    /// `positions` later.
    output: &'a mut [f32],
    positions: usize,
}

/// Neighbouring positions of one row, as many as a vector has at most.
#[derive(Clone, Copy)]
struct Piece {
    from: usize,
    to: usize,
    count: usize,
}

impl Job<f32> for Sums<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(mut self) {
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
            (8, false) => self.tiles::<V, 8, 1>(&pieces),
            (6, false) => self.tiles::<V, 6, 2>(&pieces),
            (_, false) => self.tiles::<V, 4, 3>(&pieces),
        }
    }
}

impl Sums<'_> {
    #[inline(always)]
    fn tiles<V: Lanes<Elem = f32>, const F: usize, const P: usize>(&mut self, pieces: &[Piece]) {
        for group in pieces.chunks(P) {
            // The last one again where there are fewer.
            let last = group.len() - 1;
            let mut from = [0; P];
            for (p, from) in from.iter_mut().enumerate() {
                *from = group[p.min(last)].from;
            }
            for first in (0..self.packed.features).step_by(F) {
                let sums = self.sums::<V, F, P>(first, from);
                for (f, sums) in sums.iter().enumerate() {
                    if first + f < self.packed.features {
                        let row = &mut self.output[(first + f) * self.positions..];
                        for (piece, &sum) in group.iter().zip(sums) {
                            store(sum, row, piece.to, piece.count);
                        }
                    }
                }
            }
        }
    }

    /// The sums of a tile of features at pieces that begin at some places.
    #[inline(always)]
    fn sums<V: Lanes<Elem = f32>, const F: usize, const P: usize>(
        &self,
        first: usize,
        from: [usize; P],
    ) -> [[V; P]; F] {
        let (data, taps, channel_size) = self.window.parts();
        let weight = &self.packed.weight[first * self.packed.depth..];
        let mut sums = [[V::lit(0.0); P]; F];
        for (f, sums) in sums.iter_mut().enumerate() {
            *sums = [V::splat(self.packed.bias[first + f]); P];
        }
        let mut weights = weight.chunks_exact(F);
        let mut channel = 0;
        for _ in 0..self.packed.depth / taps.len() {
            for (&tap, weights) in taps.iter().zip(&mut weights) {
                let mut elements = [V::lit(0.0); P];
                for p in 0..P {
                    elements[p] = load(data, from[p] + channel + tap, V::LANES);
                }
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
