//! Weight gradients of depthwise convolutions where channels come last: vectors lie along the channels, so
//! that planes of any size are summed at the same speed.

use super::depthwise;
use super::geometry::Geometry;
use crate::parallel::chunks::{for_each_run, grain_of};
use crate::rows::Wide;
use crate::rows::loops::{MOST_LANES, RowKernel, load, store};
use crate::vec::Lanes;
use corten_core::{Result, try_vec};
use std::ops::Range;

/// Products that are summed in the elements' precision before they are added to a sum in double precision.
const RUN: usize = 512;

/// Accumulators of a row: additions to one wait for each other.
const ACCUMULATORS: usize = 4;

/// Output rows shorter than this leave most of a vector along them empty.
const SHORT: usize = 8;

/// Whether this path is for the geometry.
pub(super) fn fits(geometry: &Geometry) -> bool {
    geometry.channels_last && depthwise::is_one_to_one(geometry)
}

/// Whether tensors whose channels do not come last are better copied to that layout first.
pub(super) fn is_worth_copies(geometry: &Geometry) -> bool {
    !geometry.channels_last && geometry.output[2] < SHORT && depthwise::is_one_to_one(geometry)
}

/// Per kernel element the sum of the products of output elements and of what they meet.
pub(super) fn weight_gradient<W: Wide>(
    geometry: &Geometry,
    weight: &mut [W],
    image: &[W],
    output: &[W],
) -> Result<()> {
    let (size, features) = (geometry.kernel_size(), geometry.features);
    let [image_size, output_size] = [geometry.pixels(), geometry.positions()].map(|n| n * features);
    let samples = output.len() / output_size.max(1);
    let work = samples * geometry.positions() * size;
    for_each_run(weight, size, grain_of(work), |channels, weight| {
        let width = channels.len();
        let mut sums = try_vec(0.0, size * width)?;
        for sample in 0..samples {
            W::run(Sums {
                geometry,
                image: &image[sample * image_size..][..image_size],
                output: &output[sample * output_size..][..output_size],
                channels: channels.clone(),
                sums: &mut sums,
            });
        }
        for (channel, weight) in weight.chunks_exact_mut(size.max(1)).enumerate() {
            for (tap, weight) in weight.iter_mut().enumerate() {
                *weight = W::of(sums[tap * width + channel]);
            }
        }
        Ok(())
    })
}

/// The output positions along an axis at which a kernel element meets the image.
fn positions_inside(geometry: &Geometry, axis: usize, tap: usize) -> Range<usize> {
    let (shift, stride) = (tap * geometry.dilation[axis], geometry.stride[axis]);
    let first = geometry.padding[axis].saturating_sub(shift).div_ceil(stride);
    let last = (geometry.image[axis] + geometry.padding[axis]).saturating_sub(shift);
    first..last.div_ceil(stride).min(geometry.output[axis]).max(first)
}

/// What a sample adds to the sums of some channels: a row of channels per kernel element.
struct Sums<'a, W> {
    geometry: &'a Geometry,
    image: &'a [W],
    output: &'a [W],
    channels: Range<usize>,
    sums: &'a mut [f64],
}

impl<W: Wide> RowKernel<W> for Sums<'_, W> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = W>>(self) {
        let Self { geometry, image, output, channels, sums } = self;
        let [_, kernel_height, kernel_width] = geometry.kernel;
        let tap_of = |tap: usize| {
            [
                tap / (kernel_height * kernel_width),
                tap / kernel_width % kernel_height,
                tap % kernel_width,
            ]
        };
        let width = channels.len().max(1);
        for (tap, sums) in sums.chunks_exact_mut(width).enumerate() {
            let tap = Tap::of(geometry, tap_of(tap));
            for first in (0..width).step_by(V::LANES) {
                let count = V::LANES.min(width - first);
                let sums = &mut sums[first..first + count];
                tap.add_products::<V>(sums, image, output, channels.start + first);
            }
        }
    }
}

/// Where a kernel element meets the image.
struct Tap<'a> {
    geometry: &'a Geometry,
    at: [usize; 3],
    inside: [Range<usize>; 3],
}

impl<'a> Tap<'a> {
    fn of(geometry: &'a Geometry, at: [usize; 3]) -> Self {
        let inside = [0, 1, 2].map(|axis| positions_inside(geometry, axis, at[axis]));
        Self { geometry, at, inside }
    }

    /// The image's index along an axis that an output position meets.
    #[inline(always)]
    fn pixel(&self, axis: usize, position: usize) -> usize {
        let geometry = self.geometry;
        position * geometry.stride[axis] + self.at[axis] * geometry.dilation[axis]
            - geometry.padding[axis]
    }

    /// Adds the products of as many channels as there are sums.
    #[inline(always)]
    fn add_products<V: Lanes<Elem: Wide>>(
        &self,
        sums: &mut [f64],
        image: &[V::Elem],
        output: &[V::Elem],
        channel: usize,
    ) {
        let (geometry, columns) = (self.geometry, self.inside[2].clone());
        let (all, step) = (geometry.channels, geometry.stride[2] * geometry.channels);
        let mut states = [V::lit(0.0); ACCUMULATORS];
        let mut held = 0;
        for depth in self.inside[0].clone() {
            for y in self.inside[1].clone() {
                if columns.is_empty() {
                    continue;
                }
                let row = (depth * geometry.output[1] + y) * geometry.output[2] + columns.start;
                let line = self.pixel(0, depth) * geometry.image[1] + self.pixel(1, y);
                let pixel = line * geometry.image[2] + self.pixel(2, columns.start);
                let places = [row * all + channel, pixel * all + channel];
                add_row(
                    &mut states,
                    [output, image],
                    places,
                    [all, step],
                    columns.len(),
                    sums.len(),
                );
                held += columns.len();
                if held >= RUN {
                    flush(&mut states, sums);
                    held = 0;
                }
            }
        }
        flush(&mut states, sums);
    }
}

/// Adds the products of `length` pixels of an output row, and what they meet, to the accumulators in turn.
#[inline(always)]
fn add_row<V: Lanes>(
    states: &mut [V; ACCUMULATORS],
    [output, image]: [&[V::Elem]; 2],
    [mut from_output, mut from_image]: [usize; 2],
    [output_step, image_step]: [usize; 2],
    length: usize,
    count: usize,
) {
    let mut x = 0;
    while x < length {
        for state in states.iter_mut().take(length - x) {
            let gradient = load::<V>(output, from_output, count);
            *state = gradient.mul_add(load(image, from_image, count), *state);
            from_output += output_step;
            from_image += image_step;
        }
        x += ACCUMULATORS;
    }
}

/// Adds the accumulators to the sums and clears them.
#[inline(always)]
fn flush<V: Lanes<Elem: Wide>>(states: &mut [V; ACCUMULATORS], sums: &mut [f64]) {
    let mut parts = [<V::Elem as Wide>::ZERO; MOST_LANES];
    for state in states {
        store(*state, &mut parts, 0, V::LANES);
        for (sum, part) in sums.iter_mut().zip(&parts) {
            *sum += part.as_f64();
        }
        *state = V::lit(0.0);
    }
}
