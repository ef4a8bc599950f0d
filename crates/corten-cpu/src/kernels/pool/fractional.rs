//! Maxima of windows at random places.

use super::max::{BLOCK, Largest, Ordered};
use crate::kernels::support::{contiguous, empty, empty_as, is_shape_only};
use crate::parallel::chunks::{for_each_chunk2, grain_of};
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::{
    Access, AccessSet, DType, Element, Reader, Result, Writer, cast, ensure, match_dtype,
    try_collect, try_vec,
};
use corten_ops::Tensor;

/// Maxima of windows of images, and their positions.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit.
pub fn fractional_max_pool2d(
    self_: &Tensor,
    kernel_size: &[i64],
    output_size: &[i64],
    random_samples: &Tensor,
) -> Result<(Tensor, Tensor)> {
    forward(self_, kernel_size, output_size, random_samples, "fractional_max_pool2d")
}

/// Maxima of windows of volumes, and their positions.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit.
pub fn fractional_max_pool3d(
    self_: &Tensor,
    kernel_size: &[i64],
    output_size: &[i64],
    random_samples: &Tensor,
) -> Result<(Tensor, Tensor)> {
    forward(self_, kernel_size, output_size, random_samples, "fractional_max_pool3d")
}

/// The sizes that belong together.
struct Windows {
    /// Planes per sample.
    channels: usize,
    planes: usize,
    input: Vec<usize>,
    kernel: Vec<usize>,
    output: Vec<usize>,
}

impl Windows {
    fn of(self_: &Tensor, kernel: &[i64], output: &[i64], name: &str) -> Result<Self> {
        let (sizes, rank) = (self_.sizes(), if name.ends_with("3d") { 3 } else { 2 });
        for (what, list) in [("kernel_size", kernel), ("output_size", output)] {
            ensure!(
                list.len() == rank,
                Runtime,
                "{name}: {what} must either be a single Int or tuple of Ints"
            );
        }
        let label =
            if rank == 3 { "fractional_max_pool3d_out()" } else { "fractional_max_pool2d()" };
        ensure!(
            sizes.len() == rank + 1 || sizes.len() == rank + 2,
            Runtime,
            "{label}: Expected {}D or {}D tensor, but got: {:?}",
            rank + 1,
            rank + 2,
            sizes.as_slice()
        );
        let lead = sizes.len() - rank;
        for (dim, &size) in sizes.iter().enumerate().skip(lead - 1) {
            ensure!(
                size > 0,
                Runtime,
                "{label}: Expected input to have non-zero size for non-batch dimensions, but got \
                 {:?} with dimension {dim} being empty.",
                sizes.as_slice()
            );
        }
        let names = if rank == 3 { &["time", "height", "width"][..] } else { &["height", "width"] };
        for (i, name) in names.iter().enumerate() {
            let fits =
                output[i].checked_add(kernel[i]).is_some_and(|reach| reach - 1 <= sizes[lead + i]);
            ensure!(
                fits,
                Runtime,
                "{label}: pool {name} {} too large relative to input {name} {}",
                kernel[i],
                sizes[lead + i]
            );
            ensure!(kernel[i] > 0 && output[i] >= 0, Runtime, "{label}: sizes must be positive");
        }
        let counts = |list: &[i64]| list.iter().map(|&size| size as usize).collect::<Vec<_>>();
        Ok(Self {
            channels: sizes[lead - 1] as usize,
            planes: sizes[..lead].iter().product::<i64>() as usize,
            input: counts(&sizes[lead..]),
            kernel: counts(kernel),
            output: counts(output),
        })
    }

    /// The places of a window's elements, counted from its corner.
    fn taps(&self) -> Result<Vec<usize>> {
        let everywhere =
            self.kernel.iter().map(|&size| try_collect(0..size)).collect::<Result<Vec<_>>>()?;
        let count = self.kernel.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        try_collect((0..count.unwrap_or(usize::MAX)).map(|k| self.place(&everywhere, k)))
    }

    /// The place of number `index` of the points that have the given coordinates in each of the
    /// first dimensions, in a plane of these.
    fn place(&self, coordinates: &[Vec<usize>], index: usize) -> usize {
        let (mut rest, mut place, mut step) = (index, 0, 1);
        for (known, size) in coordinates.iter().zip(&self.input).rev() {
            place += known[rest % known.len()] * step;
            rest /= known.len();
            step *= size;
        }
        place
    }

    /// Where the windows of one dimension begin.
    fn starts<T: Element>(&self, dim: usize, sample: T) -> Result<Vec<usize>> {
        let (input, kernel, output) = (self.input[dim], self.kernel[dim], self.output[dim]);
        let round = |x: f64| cast::<T, f64>(cast(x));
        let sample: f64 = cast(sample);
        let alpha = match output {
            0 | 1 => 0.0,
            _ => round((input - kernel) as f64 / (output - 1) as f64),
        };
        let first = round(sample * alpha).trunc();
        let place = |i: usize| match i + 1 == output {
            true => input - kernel,
            false => ((round(round(i as f64 + sample) * alpha)).trunc() - first).max(0.0) as usize,
        };
        try_collect((0..output).map(|i| place(i).min(input - kernel)))
    }
}

fn check_samples(self_: &Tensor, samples: &Tensor, windows: &Windows) -> Result<()> {
    ensure!(
        samples.dtype() == self_.dtype(),
        Runtime,
        "Expect _random_samples to have the same dtype as input"
    );
    let (sizes, rank) = (samples.sizes(), windows.input.len() as i64);
    ensure!(
        sizes.len() == 3,
        Runtime,
        "Expect _random_samples to have 3 dimensions got {}",
        sizes.len()
    );
    let batch = (windows.planes / windows.channels.max(1)) as i64;
    ensure!(
        sizes[0] >= batch,
        Runtime,
        "Expect _random_samples.size(0) no less then input batch size."
    );
    ensure!(
        sizes[1] == windows.channels as i64,
        Runtime,
        "Expect _random_samples.size(1) equals to input channel size."
    );
    ensure!(
        sizes[2] == rank,
        Runtime,
        "Expect _random_samples.size(2) equals to {rank}; got {}.",
        sizes[2]
    );
    Ok(())
}

fn forward(
    self_: &Tensor,
    kernel_size: &[i64],
    output_size: &[i64],
    random_samples: &Tensor,
    name: &str,
) -> Result<(Tensor, Tensor)> {
    let windows = Windows::of(self_, kernel_size, output_size, name)?;
    check_samples(self_, random_samples, &windows)?;
    let lead = self_.dim() - output_size.len();
    let shape = [&self_.sizes()[..lead], output_size].concat();
    let (out, indices) = (empty(&shape, self_)?, empty_as(&shape, self_, DType::Int64)?);
    if is_shape_only(&out) {
        return Ok((out, indices));
    }
    let (dense, samples) = (contiguous(self_)?, contiguous(random_samples)?);
    match_dtype!(self_.dtype(), name, Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write), (&indices, Access::Write),
            (&dense, Access::Read), (&samples, Access::Read),
        ])?;
        let (input, samples) = (access.read::<T>(2)?, access.read::<T>(3)?);
        let volume: usize = windows.input.iter().product();
        let count: usize = windows.output.iter().product();
        let rank = windows.input.len();
        let taps = windows.taps()?;
        let grain = grain_of(count * taps.len());
        let (out, places) = (access.write::<T>(0)?, access.write::<i64>(1)?);
        for_each_chunk2((out, count), (places, count), grain, |plane, out, places| {
            // Images have their samples in the order width, height; volumes in that of dimensions.
            let sample = |dim: usize| {
                let place = if rank == 2 { 1 - dim } else { dim };
                samples[plane * rank + place]
            };
            let starts =
            (0..rank).map(|dim| windows.starts(dim, sample(dim))).collect::<Result<Vec<_>>>()?;
            let values = &input[plane * volume..][..volume];
            f32::run(Plane { windows: &windows, values, starts: &starts, taps: &taps, out, places });
            Ok(())
        })
    })?;
    Ok((out, indices))
}

/// A plane on its way into its windows.
struct Plane<'a, T> {
    windows: &'a Windows,
    values: &'a [T],
    starts: &'a [Vec<usize>],
    taps: &'a [usize],
    out: &'a mut [T],
    places: &'a mut [i64],
}

impl<T: Ordered> RowKernel<f32> for Plane<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { windows, values, starts, taps, out, places } = self;
        let Some((columns, rows)) = starts.split_last() else { return };
        let width = columns.len();
        let (mut now, mut next) = (&mut Largest::<T>::new(), &mut Largest::<T>::new());
        let mut seen = [T::LOWEST; BLOCK];
        let results = out.chunks_exact_mut(width).zip(places.chunks_exact_mut(width));
        for (row, (out, places)) in results.enumerate() {
            let first = windows.place(rows, row) * windows.input[rows.len()];
            let blocks = out.chunks_mut(BLOCK).zip(places.chunks_mut(BLOCK));
            for ((out, places), columns) in blocks.zip(columns.chunks(BLOCK)) {
                for (k, tap) in taps.iter().enumerate() {
                    let values = &values[first + tap..];
                    let seen = &mut seen[..columns.len()];
                    seen.iter_mut().zip(columns).for_each(|(to, &column)| *to = values[column]);
                    if k == 0 {
                        now.start_with(seen);
                    } else {
                        next.take_larger(now, seen, k as u32);
                        std::mem::swap(&mut now, &mut next);
                    }
                }
                out.copy_from_slice(&now.best[..out.len()]);
                for ((place, column), &k) in places.iter_mut().zip(columns).zip(&now.steps) {
                    *place = (first + column + taps[k as usize]) as i64;
                }
            }
        }
    }
}

fn backward(grad: &Tensor, self_: &Tensor, indices: &Tensor, rank: usize) -> Result<Tensor> {
    let sizes = self_.sizes();
    ensure!(
        grad.sizes() == indices.sizes() && sizes.len() > rank,
        Runtime,
        "fractional_max_pool{rank}d_backward(): unexpected size of gradOutput"
    );
    let out = empty(&sizes, self_)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let (grad, indices) = (contiguous(grad)?, contiguous(indices)?);
    let lead = sizes.len() - rank;
    let volume = sizes[lead..].iter().product::<i64>() as usize;
    let count = grad.sizes()[lead..].iter().product::<i64>() as usize;
    match_dtype!(self_.dtype(), "fractional_max_pool_backward", Float, T => {
        let (grad, places) = (Reader::<T>::new(&grad)?, Reader::<i64>::new(&indices)?);
        let mut sums = try_vec(0f64, self_.numel() as usize)?;
        for (i, (&grad, &place)) in grad.iter().zip(&*places).enumerate() {
            let inside = 0 <= place && (place as usize) < volume;
            ensure!(inside, Runtime, "Found an invalid max index: {place}");
            sums[i / count.max(1) * volume + place as usize] += cast::<T, f64>(grad);
        }
        let mut out = Writer::<T>::new(&out)?;
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = cast(sum));
        Ok(())
    })?;
    Ok(out)
}

/// Adds every gradient at the position of its maximum.
///
/// # Errors
/// `Runtime` for shapes and indices that do not fit.
pub fn fractional_max_pool2d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    _kernel_size: &[i64],
    _output_size: &[i64],
    indices: &Tensor,
) -> Result<Tensor> {
    backward(grad_output, self_, indices, 2)
}

/// Adds every gradient at the position of its maximum.
///
/// # Errors
/// `Runtime` for shapes and indices that do not fit.
pub fn fractional_max_pool3d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    _kernel_size: &[i64],
    _output_size: &[i64],
    indices: &Tensor,
) -> Result<Tensor> {
    backward(grad_output, self_, indices, 3)
}
