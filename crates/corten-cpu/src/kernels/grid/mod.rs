//! Values of images at the points of a grid.

mod place;

use crate::kernels::support::{contiguous, empty, is_shape_only};
use crate::parallel::chunks::{ColumnBlock, for_each_chunk2, for_each_column_block, grain_of};
use crate::rows::loops::{RowKernel, Vectorised};
use crate::rows::{Float, Wide};
use crate::vec::Lanes;
use corten_core::{Access, AccessSet, DType, Result, bf16, ensure, f16, match_dtype, unwinding};
use corten_ops::Tensor;
use place::{Axis, Coordinate, Mode, OUTSIDE, Padding, Taps};
use std::array::from_fn;

/// How values between the points of an image are found, and those beyond its border.
#[derive(Clone, Copy)]
struct Settings {
    mode: Mode,
    padding: Padding,
    align: bool,
}

impl Settings {
    fn of(mode: i64, padding: i64, align: bool) -> Self {
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
        Self { mode, padding, align }
    }
}

/// Everything but the data.
struct Sampler<C> {
    samples: usize,
    channels: usize,
    /// The spatial dimensions of the input.
    axes: Vec<Axis<C>>,
    /// The points per sample.
    points: usize,
    mode: Mode,
}

impl<C: Coordinate> Sampler<C> {
    fn of(input: &Tensor, grid: &Tensor, settings: Settings) -> Self {
        let (sizes, rank) = (input.sizes(), input.dim() - 2);
        let round: Option<fn(C) -> C> = match input.dtype() {
            DType::Float16 => Some(|x| C::of(f16::from_f64(x.as_f64()).to_f64())),
            DType::BFloat16 => Some(|x| C::of(bf16::from_f64(x.as_f64()).to_f64())),
            _ => None,
        };
        let Settings { mode, padding, align } = settings;
        let axis = |&size: &i64| {
            let size = size as usize;
            Axis { size, align, padding, round, flat: rank == 2 }
        };
        Self {
            samples: sizes[0] as usize,
            channels: sizes[1] as usize,
            axes: sizes[2..].iter().map(axis).collect(),
            points: grid.sizes()[1..=rank].iter().product::<i64>() as usize,
            mode,
        }
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
struct BlockTaps<C> {
    points: usize,
    /// StridedLoads in a channel; those outside it are [`OUTSIDE`].
    places: Vec<usize>,
    weights: Vec<C>,
    /// The taps of each dimension.
    axes: Vec<Taps<C>>,
}

impl<C: Coordinate> BlockTaps<C> {
    /// The taps for points given by their coordinates, with slopes if asked for.
    #[inline(always)]
    fn of<T: Float<Wide = C>>(sampler: &Sampler<C>, at: &[T], slopes: bool) -> Self {
        let rank = sampler.axes.len();
        let points = at.len() / rank;
        let mut own = unwinding::vec(C::ZERO, points);
        let mut axes = unwinding::with_capacity(rank);
        for (dim, axis) in sampler.axes.iter().enumerate() {
            // The grid's coordinates are in the reverse order of the dimensions.
            for (to, at) in own.iter_mut().zip(at.chunks_exact(rank)) {
                *to = at[rank - 1 - dim].widen();
            }
            axes.push(axis.taps(&mut own, sampler.mode, slopes));
        }
        let count = sampler.mode.taps().pow(rank as u32);
        let (places, weights) =
            (unwinding::vec(0, count * points), unwinding::vec(C::ZERO, count * points));
        let mut found = Self { points, places, weights, axes };
        for k in 0..count {
            found.combine(sampler, k);
        }
        found
    }

    /// Puts the taps of the dimensions together to number `k`. What is outside in one dimension
    /// stays outside.
    #[inline(always)]
    fn combine(&mut self, sampler: &Sampler<C>, k: usize) {
        let Self { points, places, weights, axes } = self;
        let row = k * *points..(k + 1) * *points;
        let (places, weights) = (&mut places[row.clone()], &mut weights[row]);
        let (first, shares) = axes[0].numbered(sampler.tap(k, 0));
        places.copy_from_slice(first);
        weights.copy_from_slice(shares);
        for (dim, (taps, axis)) in axes.iter().zip(&sampler.axes).enumerate().skip(1) {
            let (own, shares) = taps.numbered(sampler.tap(k, dim));
            let so_far = places.iter_mut().zip(&mut *weights);
            for ((place, weight), (&at, &share)) in so_far.zip(own.iter().zip(shares)) {
                let outside = (*place == OUTSIDE) | (at == OUTSIDE);
                let inside = place.wrapping_mul(axis.size).wrapping_add(at);
                *place = if outside { OUTSIDE } else { inside };
                *weight = if outside & !axis.flat { C::ZERO } else { *weight * share };
            }
        }
    }

    /// The values of one channel at the points, by way of their sums.
    #[inline(always)]
    fn add_up<T: Float<Wide = C>>(&self, channel: &[T], sums: &mut [C], out: &mut [T]) {
        let rows = self.places.chunks(self.points).zip(self.weights.chunks(self.points));
        for (k, (places, weights)) in rows.enumerate() {
            for ((sum, &place), &weight) in sums.iter_mut().zip(places).zip(weights) {
                let so_far = if k == 0 { C::ZERO } else { *sum };
                *sum = so_far + value_at(channel, place) * weight;
            }
        }
        for (out, &sum) in out.iter_mut().zip(&*sums) {
            *out = T::narrow(sum);
        }
    }

    /// Adds the gradients of one channel at the points to those of its places, point by point.
    fn spread(&self, grad: &[C], sums: &mut [C]) {
        match self.places.len() / self.points {
            1 => self.spread_by::<1>(grad, sums),
            4 => self.spread_by::<4>(grad, sums),
            8 => self.spread_by::<8>(grad, sums),
            16 => self.spread_by::<16>(grad, sums),
            _ => self.spread_by::<64>(grad, sums),
        }
    }

    /// [`Self::spread`] with `N` taps per point.
    fn spread_by<const N: usize>(&self, grad: &[C], sums: &mut [C]) {
        let row = |k: usize| k * self.points..(k + 1) * self.points;
        let places: [&[usize]; N] = from_fn(|k| &self.places[row(k)][..grad.len()]);
        let weights: [&[C]; N] = from_fn(|k| &self.weights[row(k)][..grad.len()]);
        for (point, &grad) in grad.iter().enumerate() {
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
    fn add_products<T: Float<Wide = C>>(&self, grad: &[C], channel: &[T], products: &mut [C]) {
        let rows = products.chunks_exact_mut(self.points).zip(self.places.chunks(self.points));
        for (products, places) in rows {
            for ((product, &place), &grad) in products.iter_mut().zip(places).zip(grad) {
                *product += grad * value_at(channel, place);
            }
        }
    }
}

/// The gradients of the weights of a block on the way to those of one of the coordinates.
struct Slopes<'a, C> {
    sampler: &'a Sampler<C>,
    taps: &'a BlockTaps<C>,
    products: &'a [C],
    /// The dimension that the coordinate is of.
    along: usize,
    sums: &'a mut [C],
}

impl<C: Coordinate> RowKernel<f32> for Slopes<'_, C> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { sampler, taps: BlockTaps { points, places, axes, .. }, .. } = self;
        self.sums.fill(C::ZERO);
        let rows = self.products.chunks(*points).zip(places.chunks(*points));
        for (k, (products, places)) in rows.enumerate() {
            let mut slopes = [C::ONE; BLOCK];
            for (dim, taps) in axes.iter().enumerate() {
                let number = sampler.tap(k, dim);
                let factors = match dim == self.along {
                    true => taps.slopes(number),
                    false => taps.numbered(number).1,
                };
                for (slope, &factor) in slopes.iter_mut().zip(factors) {
                    *slope = *slope * factor;
                }
            }
            let terms = products.iter().zip(&slopes).zip(places);
            for (sum, ((&product, &slope), &place)) in self.sums.iter_mut().zip(terms) {
                let term = product * slope;
                *sum += if place == OUTSIDE { C::ZERO } else { term };
            }
        }
    }
}

/// The value at a place of a channel that is not empty; what is outside of it stands for nothing.
#[inline(always)]
fn value_at<T: Float>(channel: &[T], place: usize) -> T::Wide {
    // Without a branch, so that the loop over the places becomes one over vectors.
    let value = channel[place.min(channel.len() - 1)].widen();
    if place == OUTSIDE { T::Wide::ZERO } else { value }
}

/// The values of all channels of an image at the points of a block, given by their coordinates.
struct PointBlock<'a, 'b, T: Float> {
    sampler: &'a Sampler<T::Wide>,
    image: &'a [T],
    at: &'a [T],
    out: &'a mut ColumnBlock<'b, T>,
}

impl<T: Float<Wide: Coordinate>> RowKernel<f32> for PointBlock<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let taps = BlockTaps::of(self.sampler, self.at, false);
        let sums = &mut [T::Wide::ZERO; BLOCK][..taps.points];
        for (c, channel) in self.image.chunks_exact(self.sampler.volume()).enumerate() {
            taps.add_up(channel, sums, self.out.row(c));
        }
    }
}

fn result_sizes(input: &Tensor, grid: &Tensor) -> Vec<i64> {
    [&input.sizes()[..2], &grid.sizes()[1..grid.sizes().len() - 1]].concat()
}

fn forward(input: &Tensor, grid: &Tensor, settings: Settings, name: &str) -> Result<Tensor> {
    corten_ops::composite::grid::check(input, grid)?;
    let out = empty(&result_sizes(input, grid), input)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    match_dtype!(input.dtype(), name, Float, T => fill_values::<T>(&out, input, grid, settings))?;
    Ok(out)
}

/// Fills the values of an image at the points of a grid.
fn fill_values<T: Float<Wide: Coordinate>>(
    out: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    settings: Settings,
) -> Result<()> {
    let sampler = Sampler::<T::Wide>::of(input, grid, settings);
    let (dense, grid) = (contiguous(input)?, contiguous(grid)?);
    let access =
        AccessSet::acquire(&[(out, Access::Write), (&dense, Access::Read), (&grid, Access::Read)])?;
    let (input, grid) = (access.read::<T>(1)?, access.read::<T>(2)?);
    let out = access.write::<T>(0)?;
    let (volume, channels, points) = (sampler.volume(), sampler.channels, sampler.points);
    let (rank, shape) = (sampler.axes.len(), [sampler.samples, channels, points]);
    for_each_column_block(out, shape, BLOCK, grain_of(BLOCK * channels), |n, block, out| {
        let image = &input[n * channels * volume..][..channels * volume];
        let at = &grid[(n * points + block.start) * rank..][..block.len() * rank];
        f32::run(PointBlock { sampler: &sampler, image, at, out });
        Ok(())
    })
}

/// The gradients of an image and of the points of its grid.
struct Gradients<'a, T: Float> {
    sampler: &'a Sampler<T::Wide>,
    grad: &'a [T],
    image: &'a [T],
    at: &'a [T],
    to_image: &'a mut [T],
    to_at: &'a mut [T],
    /// Which of the two are asked for.
    wanted: [bool; 2],
}

impl<T: Float<Wide: Coordinate>> RowKernel<f32> for Gradients<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { sampler, grad, image, at, to_image, to_at, wanted } = self;
        let (rank, volume, points) = (sampler.axes.len(), sampler.volume(), sampler.points);
        let mut sums = unwinding::vec(T::Wide::ZERO, if wanted[0] { image.len() } else { 0 });
        let mut own = [T::Wide::ZERO; BLOCK];
        let blocks = at.chunks(BLOCK * rank).zip(to_at.chunks_mut(BLOCK * rank));
        for (block, (at, to_at)) in blocks.enumerate() {
            let taps = BlockTaps::of(sampler, at, wanted[1]);
            let own = &mut own[..taps.points];
            let count = if wanted[1] { taps.places.len() } else { 0 };
            let mut products = unwinding::vec(T::Wide::ZERO, count);
            for (c, channel) in image.chunks_exact(volume).enumerate() {
                let grad = &grad[c * points + block * BLOCK..];
                for (to, &grad) in own.iter_mut().zip(grad) {
                    *to = grad.widen();
                }
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
                for (to, &sum) in to.zip(&*own) {
                    *to = T::narrow(sum);
                }
            }
        }
        for (out, &sum) in to_image.iter_mut().zip(&sums) {
            *out = T::narrow(sum);
        }
    }
}

fn backward(
    grad: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    settings: Settings,
    mask: &[bool],
    name: &str,
) -> Result<(Tensor, Tensor)> {
    corten_ops::composite::grid::check(input, grid)?;
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
        match_dtype!(input.dtype(), name, Float, T => fill_gradients::<T>(tensors, settings, wanted))?;
    }
    let chosen = |wanted, tensor| if wanted { tensor } else { Tensor::undefined() };
    Ok((chosen(wanted[0], to_input), chosen(wanted[1], to_grid)))
}

/// Fills the first two of the gradients of the image and of the grid, the image, the grid, and the
/// gradient of the result.
fn fill_gradients<T: Float<Wide: Coordinate>>(
    tensors: [&Tensor; 5],
    settings: Settings,
    wanted: [bool; 2],
) -> Result<()> {
    let [to_input, to_grid, input, grid, grad] = tensors;
    let sampler = &Sampler::<T::Wide>::of(input, grid, settings);
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
        to_input.fill(T::narrow(T::Wide::ZERO));
        to_grid.fill(T::narrow(T::Wide::ZERO));
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
            let settings = Settings::of(interpolation_mode, padding_mode, align_corners);
            forward(input, grid, settings, $label)
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
            let settings = Settings::of(interpolation_mode, padding_mode, align_corners);
            backward(grad_output, input, grid, settings, output_mask, $label)
        }
    )+};
}

samplers! {
    grid_sampler_2d grid_sampler_2d_backward "grid_sampler_2d_cpu_kernel_impl";
    grid_sampler_3d grid_sampler_3d_backward "grid_sampler_3d_cpu";
}
