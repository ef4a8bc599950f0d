//! Values of images at the points of a grid.

mod place;

use crate::chunks::{ColumnBlock, for_each_chunk2, for_each_column_block, grain_of};
use crate::kernels::support::{contiguous, empty, is_shape_only, match_types};
use crate::row_loops::{Job, Vectorised};
use crate::vec::Lanes;
use corten_core::{Access, AccessSet, DType, Element, Result, bf16, cast, ensure, f16};
use corten_ops::Tensor;
use place::{Axis, Mode, OUTSIDE, Padding, Taps};
use std::array::from_fn;

/// Everything but the data.
struct Sampler {
    samples: usize,
    channels: usize,
    /// The spatial dimensions of the input.
    axes: Vec<Axis>,
    /// The points per sample.
    points: usize,
    mode: Mode,
}

impl Sampler {
    fn of(input: &Tensor, grid: &Tensor, mode: i64, padding: i64, align: bool) -> Result<Self> {
        corten_ops::composite::grid::check(input, grid)?;
        let (sizes, rank) = (input.sizes(), input.dim() - 2);
        let mode = match mode {
            0 => Mode::Linear,
            1 => Mode::Nearest,
            _ => Mode::Cubic,
        };
        let padding = match padding {
            0 => Padding::Zeros,
            1 => Padding::Border,
            _ => Padding::Reflection,
        };
        let round: Option<fn(f64) -> f64> = match input.dtype() {
            DType::Float16 => Some(|x| cast(cast::<f64, f16>(x))),
            DType::BFloat16 => Some(|x| cast(cast::<f64, bf16>(x))),
            _ => None,
        };
        let axis = |&size: &i64| Axis { size: size as usize, align, padding, round };
        Ok(Self {
            samples: sizes[0] as usize,
            channels: sizes[1] as usize,
            axes: sizes[2..].iter().map(axis).collect(),
            points: grid.sizes()[1..=rank].iter().product::<i64>() as usize,
            mode,
        })
    }

    fn volume(&self) -> usize {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// Which tap of a dimension takes part in number `k` of a point's.
    #[inline(always)]
    fn tap(&self, k: usize, dim: usize) -> usize {
        let each = self.mode.taps();
        k / each.pow((self.axes.len() - 1 - dim) as u32) % each
    }
}

/// The points that are taken together, so that what is known of them serves all channels. An odd
/// number of cache lines, as otherwise the taps of a point would share a few sets of the cache.
const BLOCK: usize = 264;

/// What takes part in the values at the points of a block: number 0 for each of these, then number
/// 1, and so on, the last dimension varying fastest.
struct BlockTaps {
    points: usize,
    /// Places in a channel; those outside it are [`OUTSIDE`].
    places: Vec<usize>,
    weights: Vec<f64>,
    /// The taps of each dimension.
    axes: Vec<Taps>,
}

impl BlockTaps {
    /// The taps for points given by their coordinates, with slopes if asked for.
    fn of<T: Element>(sampler: &Sampler, at: &[T], slopes: bool) -> Self {
        let rank = sampler.axes.len();
        let mut coordinates = vec![0.0; at.len()];
        for (dim, to) in coordinates.chunks_exact_mut(at.len() / rank).enumerate() {
            // The grid's coordinates are in the reverse order of the dimensions.
            let own = at[rank - 1 - dim..].iter().step_by(rank);
            to.iter_mut().zip(own).for_each(|(to, &x)| *to = cast(x));
        }
        f32::run(FindTaps { sampler, coordinates, slopes })
    }

    #[inline(always)]
    fn find(sampler: &Sampler, mut coordinates: Vec<f64>, slopes: bool) -> Self {
        let rank = sampler.axes.len();
        let points = coordinates.len() / rank;
        let along = sampler.axes.iter().zip(coordinates.chunks_exact_mut(points));
        let axes = along.map(|(axis, at)| axis.taps(at, sampler.mode, slopes)).collect();
        let count = sampler.mode.taps().pow(rank as u32);
        let (places, weights) =
            (Vec::with_capacity(count * points), Vec::with_capacity(count * points));
        let mut found = Self { points, places, weights, axes };
        (0..count).for_each(|k| found.combine(sampler, k));
        found
    }

    /// Puts the taps of the dimensions together to number `k`. What is outside in one dimension
    /// stays outside.
    #[inline(always)]
    fn combine(&mut self, sampler: &Sampler, k: usize) {
        let Self { points, places, weights, axes } = self;
        let (first, shares) = axes[0].numbered(sampler.tap(k, 0));
        places.extend_from_slice(first);
        weights.extend_from_slice(shares);
        let (places, weights) = (&mut places[k * *points..], &mut weights[k * *points..]);
        for (dim, (taps, axis)) in axes.iter().zip(&sampler.axes).enumerate().skip(1) {
            let (own, shares) = taps.numbered(sampler.tap(k, dim));
            let so_far = places.iter_mut().zip(&mut *weights);
            for ((place, weight), (&at, &share)) in so_far.zip(own.iter().zip(shares)) {
                let outside = (*place == OUTSIDE) | (at == OUTSIDE);
                *place = if outside { OUTSIDE } else { *place * axis.size + at };
                *weight = if outside { 0.0 } else { *weight * share };
            }
        }
    }

    /// The values of one channel at the points, by way of their sums.
    #[inline(always)]
    fn add_up<T: Element>(&self, channel: &[T], sums: &mut [f64], out: &mut [T]) {
        let rows = self.places.chunks(self.points).zip(self.weights.chunks(self.points));
        for (k, (places, weights)) in rows.enumerate() {
            for ((sum, &place), &weight) in sums.iter_mut().zip(places).zip(weights) {
                let so_far = if k == 0 { 0.0 } else { *sum };
                *sum = so_far + value_at(channel, place) * weight;
            }
        }
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = cast(*sum));
    }

    /// Adds the gradients of one channel at the points to those of its places, point by point.
    fn spread(&self, grad: &[f64], sums: &mut [f64]) {
        match self.places.len() / self.points {
            1 => self.spread_by::<1>(grad, sums),
            4 => self.spread_by::<4>(grad, sums),
            8 => self.spread_by::<8>(grad, sums),
            16 => self.spread_by::<16>(grad, sums),
            _ => self.spread_by::<64>(grad, sums),
        }
    }

    /// [`Self::spread`] with `N` taps per point.
    fn spread_by<const N: usize>(&self, grad: &[f64], sums: &mut [f64]) {
        let row = |k: usize| k * self.points..(k + 1) * self.points;
        let places: [&[usize]; N] = from_fn(|k| &self.places[row(k)][..grad.len()]);
        let weights: [&[f64]; N] = from_fn(|k| &self.weights[row(k)][..grad.len()]);
        for (point, grad) in grad.iter().enumerate() {
            for (places, weights) in places.iter().zip(&weights) {
                if let Some(sum) = sums.get_mut(places[point]) {
                    *sum += grad * weights[point];
                }
            }
        }
    }

    /// Adds what the weight of every tap contributes to the values of one channel, times the
    /// gradients of these.
    #[inline(always)]
    fn add_products<T: Element>(&self, grad: &[f64], channel: &[T], products: &mut [f64]) {
        let rows = products.chunks_exact_mut(self.points).zip(self.places.chunks(self.points));
        for (products, places) in rows {
            for ((product, &place), &grad) in products.iter_mut().zip(places).zip(grad) {
                *product += grad * value_at(channel, place);
            }
        }
    }
}

/// The coordinates of points, dimension by dimension, on the way to their taps.
struct FindTaps<'a> {
    sampler: &'a Sampler,
    coordinates: Vec<f64>,
    slopes: bool,
}

impl Job<f32> for FindTaps<'_> {
    type Out = BlockTaps;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> BlockTaps {
        BlockTaps::find(self.sampler, self.coordinates, self.slopes)
    }
}

/// The gradients of the weights of a block on the way to those of one of the coordinates.
struct Slopes<'a> {
    sampler: &'a Sampler,
    taps: &'a BlockTaps,
    products: &'a [f64],
    /// The dimension that the coordinate is of.
    along: usize,
    sums: &'a mut [f64],
}

impl Job<f32> for Slopes<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { sampler, taps: BlockTaps { points, places, axes, .. }, .. } = self;
        self.sums.fill(0.0);
        let rows = self.products.chunks(*points).zip(places.chunks(*points));
        for (k, (products, places)) in rows.enumerate() {
            let mut slopes = [1f64; BLOCK];
            for (dim, taps) in axes.iter().enumerate() {
                let number = sampler.tap(k, dim);
                let factors = match dim == self.along {
                    true => taps.slopes(number),
                    false => taps.numbered(number).1,
                };
                slopes.iter_mut().zip(factors).for_each(|(slope, factor)| *slope *= factor);
            }
            let terms = products.iter().zip(slopes).map(|(product, slope)| product * slope);
            for ((sum, term), &place) in self.sums.iter_mut().zip(terms).zip(places) {
                *sum += if place == OUTSIDE { 0.0 } else { term };
            }
        }
    }
}

/// The value at a place of a channel that is not empty; what is outside of it stands for nothing.
#[inline(always)]
fn value_at<T: Element>(channel: &[T], place: usize) -> f64 {
    // Without a branch, so that the loop over the places becomes one over vectors.
    let value = cast(channel[place.min(channel.len() - 1)]);
    if place == OUTSIDE { 0.0 } else { value }
}

macro_rules! match_grid {
    ($dtype:expr, $name:expr, $t:ident => $body:expr) => {
        match_types!($dtype, $name, $t => $body, [
            Float16 ::corten_core::f16, BFloat16 ::corten_core::bf16, Float32 f32, Float64 f64,
        ])
    };
}

/// The values of all channels of an image at the points of a block, given by their coordinates.
struct Block<'a, 'b, T> {
    sampler: &'a Sampler,
    image: &'a [T],
    at: &'a [T],
    out: &'a mut ColumnBlock<'b, T>,
}

impl<T: Element> Job<f32> for Block<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let taps = BlockTaps::of(self.sampler, self.at, false);
        let sums = &mut [0f64; BLOCK][..taps.points];
        for (c, channel) in self.image.chunks_exact(self.sampler.volume()).enumerate() {
            taps.add_up(channel, sums, self.out.row(c));
        }
    }
}

fn result_sizes(input: &Tensor, grid: &Tensor) -> Vec<i64> {
    [&input.sizes()[..2], &grid.sizes()[1..grid.sizes().len() - 1]].concat()
}

fn forward(input: &Tensor, grid: &Tensor, sampler: &Sampler, name: &str) -> Result<Tensor> {
    let rank = sampler.axes.len();
    let out = empty(&result_sizes(input, grid), input)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let (dense, grid) = (contiguous(input)?, contiguous(grid)?);
    match_grid!(input.dtype(), name, T => {
        let access = AccessSet::acquire(
            &[(&out, Access::Write), (&dense, Access::Read), (&grid, Access::Read)])?;
        let (input, grid) = (access.read::<T>(1)?, access.read::<T>(2)?);
        let out = access.write::<T>(0)?;
        let (volume, channels, points) = (sampler.volume(), sampler.channels, sampler.points);
        let shape = [sampler.samples, channels, points];
        for_each_column_block(out, shape, BLOCK, grain_of(BLOCK * channels), |n, block, out| {
            let image = &input[n * channels * volume..][..channels * volume];
            let at = &grid[(n * points + block.start) * rank..][..block.len() * rank];
            f32::run(Block { sampler, image, at, out });
            Ok(())
        })
    })?;
    Ok(out)
}

/// The gradients of an image and of the points of its grid.
struct Gradients<'a, T> {
    sampler: &'a Sampler,
    grad: &'a [T],
    image: &'a [T],
    at: &'a [T],
    to_image: &'a mut [T],
    to_at: &'a mut [T],
    /// Which of the two are asked for.
    wanted: [bool; 2],
}

impl<T: Element> Job<f32> for Gradients<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { sampler, grad, image, at, to_image, to_at, wanted } = self;
        let (rank, volume, points) = (sampler.axes.len(), sampler.volume(), sampler.points);
        let mut sums = vec![0f64; if wanted[0] { image.len() } else { 0 }];
        let mut own = [0f64; BLOCK];
        let blocks = at.chunks(BLOCK * rank).zip(to_at.chunks_mut(BLOCK * rank));
        for (block, (at, to_at)) in blocks.enumerate() {
            let taps = BlockTaps::of(sampler, at, wanted[1]);
            let own = &mut own[..taps.points];
            let mut products = vec![0f64; if wanted[1] { taps.places.len() } else { 0 }];
            for (c, channel) in image.chunks_exact(volume).enumerate() {
                let grad = &grad[c * points + block * BLOCK..];
                own.iter_mut().zip(grad).for_each(|(to, &grad)| *to = cast(grad));
                if wanted[0] {
                    taps.spread(own, &mut sums[c * volume..][..volume]);
                }
                if wanted[1] {
                    taps.add_products(own, channel, &mut products);
                }
            }
            for along in 0..if wanted[1] { rank } else { 0 } {
                f32::run(Slopes { sampler, taps: &taps, products: &products, along, sums: own });
                let to = to_at[rank - 1 - along..].iter_mut().step_by(rank);
                to.zip(&*own).for_each(|(to, sum)| *to = cast(*sum));
            }
        }
        to_image.iter_mut().zip(sums).for_each(|(out, sum)| *out = cast(sum));
    }
}

fn backward(
    grad: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    sampler: &Sampler,
    mask: &[bool],
    name: &str,
) -> Result<(Tensor, Tensor)> {
    let sizes = result_sizes(input, grid);
    ensure!(
        grad.sizes().as_slice() == sizes,
        Runtime,
        "grid_sampler(): expected grad_output to have sizes {sizes:?}, but got {:?}",
        grad.sizes().as_slice()
    );
    let wanted = [0, 1].map(|i| mask.get(i).copied().unwrap_or(true));
    let (to_input, to_grid) = (empty(&input.sizes(), input)?, empty(&grid.sizes(), grid)?);
    if !is_shape_only(&to_input) {
        let tensors =
            [&to_input, &to_grid, &contiguous(input)?, &contiguous(grid)?, &contiguous(grad)?];
        match_grid!(input.dtype(), name, T => fill_gradients::<T>(tensors, sampler, wanted))?;
    }
    let chosen = |wanted, tensor| if wanted { tensor } else { Tensor::undefined() };
    Ok((chosen(wanted[0], to_input), chosen(wanted[1], to_grid)))
}

/// Fills the first two of the gradients of the image and of the grid, the image, the grid, and the
/// gradient of the result.
fn fill_gradients<T: Element>(
    tensors: [&Tensor; 5],
    sampler: &Sampler,
    wanted: [bool; 2],
) -> Result<()> {
    let [to_input, to_grid, input, grid, grad] = tensors;
    let access = AccessSet::acquire(&[
        (to_input, Access::Write),
        (to_grid, Access::Write),
        (input, Access::Read),
        (grid, Access::Read),
        (grad, Access::Read),
    ])?;
    let (to_input, to_grid) = (access.write::<T>(0)?, access.write::<T>(1)?);
    let (input, grid, grad) = (access.read::<T>(2)?, access.read::<T>(3)?, access.read::<T>(4)?);
    let (channels, points) = (sampler.channels, sampler.points);
    if channels * points == 0 {
        to_input.fill(cast(0.0));
        to_grid.fill(cast(0.0));
        return Ok(());
    }
    let (image, at) = (channels * sampler.volume(), points * sampler.axes.len());
    let grain = grain_of(points * channels);
    for_each_chunk2((to_input, image), (to_grid, at), grain, |n, to_image, to_at| {
        let gradients = Gradients {
            sampler,
            grad: &grad[n * channels * points..][..channels * points],
            image: &input[n * image..][..image],
            at: &grid[n * at..][..at],
            to_image,
            to_at,
            wanted,
        };
        f32::run(gradients);
        Ok(())
    })
}

/// Defines the kernels of one rank.
macro_rules! samplers {
    ($($name:ident $backward:ident $label:literal;)+) => {$(
        /// Values of the input at the points of a grid.
        ///
        /// # Errors
        /// `Runtime` for shapes that do not fit, `NotImplemented` for other dtypes.
        pub fn $name(
            input: &Tensor,
            grid: &Tensor,
            interpolation_mode: i64,
            padding_mode: i64,
            align_corners: bool,
        ) -> Result<Tensor> {
            let (mode, padding) = (interpolation_mode, padding_mode);
            let sampler = Sampler::of(input, grid, mode, padding, align_corners)?;
            forward(input, grid, &sampler, $label)
        }

        /// The gradients of the input and of the grid.
        ///
        /// # Errors
        /// `Runtime` for shapes that do not fit, `NotImplemented` for other dtypes.
        pub fn $backward(
            grad_output: &Tensor,
            input: &Tensor,
            grid: &Tensor,
            interpolation_mode: i64,
            padding_mode: i64,
            align_corners: bool,
            output_mask: &[bool],
        ) -> Result<(Tensor, Tensor)> {
            let (mode, padding) = (interpolation_mode, padding_mode);
            let sampler = Sampler::of(input, grid, mode, padding, align_corners)?;
            backward(grad_output, input, grid, &sampler, output_mask, $label)
        }
    )+};
}

samplers! {
    grid_sampler_2d grid_sampler_2d_backward "grid_sampler_2d_cpu_kernel_impl";
    grid_sampler_3d grid_sampler_3d_backward "grid_sampler_3d_cpu";
}
