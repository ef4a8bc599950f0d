//! Values of images at the points of a grid.

mod place;

use crate::chunks::{ColumnBlock, for_each_column_block, grain_of};
use crate::kernels::support::{contiguous, empty, is_shape_only, match_types};
use crate::row_loops::{Job, Vectorised};
use crate::vec::Lanes;
use corten_core::{Access, AccessSet, DType, Element, Reader, Result, Writer, bf16, cast, f16};
use corten_ops::Tensor;
use place::{Axis, Mode, Padding, Taps};

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

    /// Calls `visit(place, weight, slopes)` for every point of the input that takes part; slopes
    /// are in the order of the grid's coordinates.
    fn visit<T: Element>(&self, at: &[T], mut visit: impl FnMut(usize, f64, &[f64])) {
        let rank = self.axes.len();
        let mut taps = [Taps::NONE; 3];
        for (dim, taps) in taps.iter_mut().enumerate().take(rank) {
            *taps = self.axes[dim].taps(cast(at[rank - 1 - dim]), self.mode);
        }
        self.combine(&taps[..rank], (0, 1.0, [1.0; 3]), &mut visit);
    }

    /// Every choice of one point per dimension: place, weight and slopes so far are given.
    fn combine(
        &self,
        taps: &[Taps],
        (place, weight, slopes): (usize, f64, [f64; 3]),
        visit: &mut impl FnMut(usize, f64, &[f64]),
    ) {
        let rank = self.axes.len();
        let Some((first, rest)) = taps.split_first() else {
            return visit(place, weight, &slopes[..rank]);
        };
        // The grid's coordinates are in the reverse order of the dimensions.
        let own = rest.len();
        for tap in first.as_slice() {
            let Some(at) = tap.place else { continue };
            let mut slopes = slopes;
            for (k, slope) in slopes.iter_mut().enumerate().take(rank) {
                *slope *= if k == own { tap.slope } else { tap.weight };
            }
            let place = place * self.axes[rank - taps.len()].size + at;
            self.combine(rest, (place, weight * tap.weight, slopes), visit);
        }
    }
}

/// The points that are taken together, so that what is known of them serves all channels.
const BLOCK: usize = 64;

/// What takes part in the values at the points of a block: number `k` for point `j` is at
/// `k * BLOCK + j`.
struct BlockTaps {
    /// Places in a channel; those outside it stand for nothing.
    places: Vec<usize>,
    weights: Vec<f64>,
}

impl BlockTaps {
    /// The taps for at most [`BLOCK`] points, given by their coordinates.
    #[inline(always)]
    fn of<T: Element>(sampler: &Sampler, at: &[T]) -> Self {
        let rank = sampler.axes.len();
        let each = sampler.mode.taps();
        let count = each.pow(rank as u32);
        let mut found =
            Self { places: vec![usize::MAX; count * BLOCK], weights: vec![0.0; count * BLOCK] };
        // Those of the dimensions so far, the first dimension varying slowest.
        let (mut so_far, mut before) = ([(0, 1.0); 64], [(0, 1.0); 64]);
        for (point, at) in at.chunks_exact(rank).enumerate() {
            so_far[0] = (0, 1.0);
            let mut known = 1;
            for (dim, axis) in sampler.axes.iter().enumerate() {
                let taps = axis.taps(cast(at[rank - 1 - dim]), sampler.mode);
                before[..known].copy_from_slice(&so_far[..known]);
                for (i, &(place, weight)) in before[..known].iter().enumerate() {
                    for (k, tap) in taps.as_slice().iter().enumerate() {
                        // What is outside in one dimension stays outside: it is no place at all.
                        let inside = tap.place.filter(|_| place != usize::MAX);
                        so_far[i * each + k] = match inside {
                            Some(at) => (place * axis.size + at, weight * tap.weight),
                            None => (usize::MAX, 0.0),
                        };
                    }
                }
                known *= each;
            }
            for (k, &(place, weight)) in so_far[..known].iter().enumerate() {
                found.places[k * BLOCK + point] = place;
                found.weights[k * BLOCK + point] = weight;
            }
        }
        found
    }

    /// The values of one channel at the points.
    #[inline(always)]
    fn add_up<T: Element>(&self, channel: &[T], out: &mut [T]) {
        let mut sums = [0f64; BLOCK];
        for (places, weights) in self.places.chunks(BLOCK).zip(self.weights.chunks(BLOCK)) {
            for ((sum, &place), &weight) in sums.iter_mut().zip(places).zip(weights) {
                *sum += channel.get(place).map_or(0.0, |&value| cast::<T, f64>(value) * weight);
            }
        }
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = cast(sum));
    }
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
        let taps = BlockTaps::of(self.sampler, self.at);
        for (c, channel) in self.image.chunks_exact(self.sampler.volume().max(1)).enumerate() {
            taps.add_up(channel, self.out.row(c));
        }
    }
}

macro_rules! match_grid {
    ($dtype:expr, $name:expr, $t:ident => $body:expr) => {
        match_types!($dtype, $name, $t => $body, [
            Float16 ::corten_core::f16, BFloat16 ::corten_core::bf16, Float32 f32, Float64 f64,
        ])
    };
}

fn forward(input: &Tensor, grid: &Tensor, sampler: &Sampler, name: &str) -> Result<Tensor> {
    let rank = sampler.axes.len();
    let shape = [&input.sizes()[..2], &grid.sizes()[1..=rank]].concat();
    let out = empty(&shape, input)?;
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

fn backward(
    grad: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    sampler: &Sampler,
    mask: &[bool],
    name: &str,
) -> Result<(Tensor, Tensor)> {
    let rank = sampler.axes.len();
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(true);
    let (to_input, to_grid) = (empty(&input.sizes(), input)?, empty(&grid.sizes(), grid)?);
    let chosen = |i: usize, tensor: Tensor| if wanted(i) { tensor } else { Tensor::undefined() };
    if is_shape_only(&to_input) {
        return Ok((chosen(0, to_input), chosen(1, to_grid)));
    }
    let (dense, grid, grad) = (contiguous(input)?, contiguous(grid)?, contiguous(grad)?);
    match_grid!(input.dtype(), name, T => {
        let (input, grid) = (Reader::<T>::new(&dense)?, Reader::<T>::new(&grid)?);
        let grad = Reader::<T>::new(&grad)?;
        let (volume, channels) = (sampler.volume(), sampler.channels);
        let mut sums = vec![0f64; input.len()];
        let mut slopes = vec![0f64; grid.len()];
        let mut own = vec![0f64; channels];
        for n in 0..sampler.samples {
            let start = n * channels * volume;
            for p in 0..sampler.points {
                let first = (n * sampler.points + p) * rank;
                for (c, own) in own.iter_mut().enumerate() {
                    *own = cast(grad[(n * channels + c) * sampler.points + p]);
                }
                sampler.visit(&grid[first..first + rank], |place, weight, slope| {
                    let mut along = 0.0;
                    for (c, grad) in own.iter().enumerate() {
                        let x = start + c * volume + place;
                        sums[x] += grad * weight;
                        along += grad * cast::<T, f64>(input[x]);
                    }
                    for (k, slope) in slope.iter().enumerate() {
                        slopes[first + k] += along * slope;
                    }
                });
            }
        }
        let mut to_input = Writer::<T>::new(&to_input)?;
        to_input.iter_mut().zip(sums).for_each(|(out, sum)| *out = cast(sum));
        let mut to_grid = Writer::<T>::new(&to_grid)?;
        to_grid.iter_mut().zip(slopes).for_each(|(out, sum)| *out = cast(sum));
        Ok(())
    })?;
    Ok((chosen(0, to_input), chosen(1, to_grid)))
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
