//! The mean of every window.

use super::super::support::{contiguous_in, empty_in, is_shape_only};
use super::Shape;
use super::max::in_memory_order;
use super::window::Window;
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::rows::loops::{RowKernel, Vectorised};
use crate::rows::{Float, Wide};
use crate::vec::Lanes;
use corten_core::{Access, AccessSet, DType, Result, match_dtype, unwinding};
use corten_ops::Tensor;
use std::ops::Range;

/// What the sum of a window is divided by.
#[derive(Clone, Copy)]
pub(super) enum Divisor {
    /// The number of elements, padding included.
    WithPadding,
    /// The number of elements inside the input.
    Inside,
    /// Always this.
    Fixed(i64),
}

impl Divisor {
    pub(super) fn of(count_include_pad: bool, override_: Option<i64>) -> Self {
        match override_ {
            Some(divisor) => Self::Fixed(divisor),
            None if count_include_pad => Self::WithPadding,
            None => Self::Inside,
        }
    }

    fn value(self, window: [Window; 3]) -> i64 {
        match self {
            Self::WithPadding => window.iter().map(|window| window.padded as i64).product(),
            Self::Inside => window.iter().map(|window| window.len() as i64).product(),
            Self::Fixed(divisor) => divisor,
        }
    }
}

pub(super) fn forward(
    self_: &Tensor,
    shape: &Shape,
    divisor: Divisor,
    name: &'static str,
) -> Result<Tensor> {
    let input = contiguous_in(self_, shape.format)?;
    let out = shape.new_output(self_, self_.dtype())?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    if self_.dtype() == DType::Int64 {
        integers(&input, &out, shape, divisor)?;
        return Ok(out);
    }
    match_dtype!(self_.dtype(), name, Float, T => {
        let (input, out) = (in_memory_order(&input, shape)?, in_memory_order(&out, shape)?);
        let access = AccessSet::acquire(&[(&out, Access::Write), (&input, Access::Read)])?;
        let (values, out) = (access.read::<T>(1)?, access.write::<T>(0)?);
        if shape.channels_last() {
            forward_pixels(values, out, shape, divisor)
        } else {
            forward_planes(values, out, shape, divisor)
        }
    })?;
    Ok(out)
}

fn forward_planes<T: Float>(
    values: &[T],
    out: &mut [T],
    shape: &Shape,
    divisor: Divisor,
) -> Result<()> {
    let (plane, windows) = (shape.plane(), shape.windows());
    let steps = Steps::of(&shape.axes[2].windows);
    for_each_chunk(out, windows, grain_of(windows * shape.work()), |channel, out| {
        let values = &values[channel * plane..][..plane];
        T::fill(out, &mut Vec::new(), |out| average_plane(out, values, shape, divisor, &steps));
        Ok(())
    })
}

/// The means of one channel: those of a line of outputs, line by line of the input.
fn average_plane<T: Float>(
    out: &mut [T::Wide],
    values: &[T],
    shape: &Shape,
    divisor: Divisor,
    steps: &Steps,
) {
    let [deep, high, wide] = &shape.axes;
    let mut divisors = Divisors::new(divisor);
    let mut buffer = Vec::new();
    let mut lines = out.chunks_exact_mut(wide.windows.len().max(1));
    for &depth in &deep.windows {
        for (&height, sums) in high.windows.iter().zip(&mut lines) {
            sums.fill(T::Wide::ZERO);
            for z in depth.positions() {
                for y in height.positions() {
                    let line = &values[(z * high.input + y) * wide.input..][..wide.input];
                    steps.gather(sums, T::wide_row(line, &mut buffer), &wide.windows);
                }
            }
            let divisors = divisors.of_line([depth, height], &wide.windows);
            sums.iter_mut().zip(divisors).for_each(|(sum, &divisor)| *sum = *sum / divisor);
        }
    }
}

/// The divisors of a line of windows. Most lines have those of the line before.
struct Divisors<W> {
    divisor: Divisor,
    known: Vec<W>,
    /// The lengths of the windows in the other dimensions, without and with padding.
    lengths: Option<[(usize, usize); 2]>,
}

impl<W: Wide> Divisors<W> {
    fn new(divisor: Divisor) -> Self {
        Self { divisor, known: Vec::new(), lengths: None }
    }

    fn of_line(&mut self, others: [Window; 2], widths: &[Window]) -> &[W] {
        let lengths = Some(others.map(|window| (window.len(), window.padded)));
        if lengths != self.lengths {
            let [depth, height] = others;
            let of = |&width: &Window| {
                let window = [depth, height, width];
                W::of(self.divisor.value(window).max_one_if_empty(window) as f64)
            };
            self.known = unwinding::collect(widths.iter().map(of));
            self.lengths = lengths;
        }
        &self.known
    }
}

/// Windows without an element give zero, not NaN.
trait OrOne {
    fn max_one_if_empty(self, window: [Window; 3]) -> Self;
}

impl OrOne for i64 {
    fn max_one_if_empty(self, window: [Window; 3]) -> Self {
        if window.iter().any(|window| window.start >= window.end) { 1 } else { self }
    }
}

fn forward_pixels<T: Float>(
    values: &[T],
    out: &mut [T],
    shape: &Shape,
    divisor: Divisor,
) -> Result<()> {
    let (channels, plane) = (shape.channels, shape.plane());
    let (rows, chunk) = (shape.rows(), shape.axes[2].windows.len() * channels);
    for_each_chunk(out, chunk, grain_of(chunk * shape.work()), |index, out| {
        let values = &values[index / rows * plane * channels..][..plane * channels];
        T::fill(out, &mut Vec::new(), |out| {
            f32::run(RowOfPixels { values, out, shape, row: index % rows, divisor });
        });
        Ok(())
    })
}

/// A row of windows whose channels lie side by side.
struct RowOfPixels<'a, T: Float> {
    values: &'a [T],
    out: &'a mut [T::Wide],
    shape: &'a Shape,
    row: usize,
    divisor: Divisor,
}

impl<T: Float> RowKernel<f32> for RowOfPixels<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { values, out, shape, row, divisor } = self;
        let [depth, height] = shape.row(row);
        let pixels = out.chunks_exact_mut(shape.channels.max(1));
        for (&width, out) in shape.axes[2].windows.iter().zip(pixels) {
            let window = [depth, height, width];
            let divisor = T::Wide::of(divisor.value(window).max_one_if_empty(window) as f64);
            out.fill(T::Wide::ZERO);
            shape.for_each_element(window, |pixel| {
                let values = &values[pixel * out.len()..][..out.len()];
                out.iter_mut().zip(values).for_each(|(sum, value)| *sum += value.widen());
            });
            out.iter_mut().for_each(|sum| *sum = *sum / divisor);
        }
    }
}

/// Integers are averaged channel by channel, with division towards zero.
fn integers(input: &Tensor, out: &Tensor, shape: &Shape, divisor: Divisor) -> Result<()> {
    let (input, out) = (in_memory_order(input, shape)?, in_memory_order(out, shape)?);
    let access = AccessSet::acquire(&[(&out, Access::Write), (&input, Access::Read)])?;
    let (values, out) = (access.read::<i64>(1)?, access.write::<i64>(0)?);
    let width = if shape.channels_last() { shape.channels } else { 1 };
    let (plane, windows) = (shape.plane() * width, shape.windows() * width);
    for_each_chunk(out, windows, grain_of(windows * shape.work()), |index, out| {
        let values = &values[index * plane..][..plane];
        shape.for_each_window(|position, window| {
            for channel in 0..width {
                let mut sum = 0i64;
                shape.for_each_element(window, |i| {
                    sum = sum.wrapping_add(values[i * width + channel])
                });
                let divisor = divisor.value(window).max_one_if_empty(window);
                out[position * width + channel] = sum.wrapping_div(divisor);
            }
        });
        Ok(())
    })
}

pub(super) fn backward(
    grad_output: &Tensor,
    self_: &Tensor,
    shape: &Shape,
    divisor: Divisor,
    name: &'static str,
) -> Result<Tensor> {
    let grad = contiguous_in(grad_output, shape.format)?;
    let out = empty_in(&self_.sizes(), self_, self_.dtype(), shape.format)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    match_dtype!(self_.dtype(), name, Float, T => {
        let (grad, out) = (in_memory_order(&grad, shape)?, in_memory_order(&out, shape)?);
        let access = AccessSet::acquire(&[(&out, Access::Write), (&grad, Access::Read)])?;
        spread(access.write::<T>(0)?, access.read::<T>(1)?, shape, divisor)
    })?;
    Ok(out)
}

/// Adds to every element of a window its share of the gradient.
fn spread<T: Float>(out: &mut [T], grad: &[T], shape: &Shape, divisor: Divisor) -> Result<()> {
    let (plane, windows) = (shape.plane(), shape.windows());
    let width = if shape.channels_last() { shape.channels } else { 1 };
    let grain = grain_of(windows * width * shape.work());
    let steps = Steps::of(&shape.axes[2].windows).side_by_side();
    for_each_chunk(out, plane * width, grain, |index, out| {
        let grad = &grad[index * windows * width..][..windows * width];
        T::fill(out, &mut Vec::new(), |out| {
            out.fill(T::Wide::ZERO);
            if width == 1 {
                return spread_plane(out, grad, shape, divisor, &steps);
            }
            f32::run(Shares { out, grad, shape, divisor, width });
        });
        Ok(())
    })
}

/// The gradients of a sample whose `width` channels lie side by side.
struct Shares<'a, T: Float> {
    out: &'a mut [T::Wide],
    grad: &'a [T],
    shape: &'a Shape,
    divisor: Divisor,
    width: usize,
}

impl<T: Float> RowKernel<f32> for Shares<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { out, grad, shape, divisor, width } = self;
        let mut shares = unwinding::vec(T::Wide::ZERO, width);
        shape.for_each_window(|position, window| {
            let divisor = T::Wide::of(divisor.value(window) as f64);
            let grad = &grad[position * width..][..width];
            shares.iter_mut().zip(grad).for_each(|(share, g)| *share = g.widen() / divisor);
            shape.for_each_element(window, |i| {
                let line = &mut out[i * width..][..width];
                line.iter_mut().zip(&shares).for_each(|(sum, &share)| *sum += share);
            });
        });
    }
}

/// As [`spread`] for one channel: the windows of a line of outputs, line by line of the input.
fn spread_plane<T: Float>(
    out: &mut [T::Wide],
    grad: &[T],
    shape: &Shape,
    divisor: Divisor,
    steps: &Steps,
) {
    let [deep, high, wide] = &shape.axes;
    let mut shares = unwinding::vec(T::Wide::ZERO, wide.windows.len());
    let mut divisors = Divisors::new(divisor);
    let mut lines = grad.chunks_exact(wide.windows.len().max(1));
    for &depth in &deep.windows {
        for (&height, grad) in high.windows.iter().zip(&mut lines) {
            let divisors = divisors.of_line([depth, height], &wide.windows);
            for ((share, grad), &divisor) in shares.iter_mut().zip(grad).zip(divisors) {
                *share = grad.widen() / divisor;
            }
            for z in depth.positions() {
                for y in height.positions() {
                    let line = &mut out[(z * high.input + y) * wide.input..][..wide.input];
                    steps.scatter(line, &shares, &wide.windows);
                }
            }
        }
    }
}

/// The windows of an axis that are alike and the same distance apart, which is so for all but the
/// ones that reach into the padding; none where they have more elements than there are of them. The
/// elements of a window to average are neighbours.
struct Steps {
    windows: Range<usize>,
    /// The elements of each.
    length: usize,
    /// How far apart they start.
    stride: usize,
}

/// The elements of a window, which may lie in the padding as a whole.
fn neighbours(window: &Window) -> Range<usize> {
    window.start.min(window.end)..window.end
}

impl Steps {
    fn of(windows: &[Window]) -> Self {
        let length = windows.iter().map(|window| window.len()).max().unwrap_or(0);
        let first = windows.iter().position(|window| window.len() == length).unwrap_or(0);
        let apart = windows[first..].get(..2).map_or(1, |pair| pair[1].start - pair[0].start);
        let stride = apart.max(1);
        let follows =
            |pair: &&[Window]| pair[1].start == pair[0].start + stride && pair[1].len() == length;
        let count = 1 + windows[first..].windows(2).take_while(follows).count();
        match length <= count.min(windows.len()) {
            true => Self { windows: first..(first + count).min(windows.len()), length, stride },
            false => Self { windows: 0..0, length: 0, stride },
        }
    }

    /// These, if they are one element apart.
    fn side_by_side(self) -> Self {
        match self.stride {
            1 => self,
            _ => Self { windows: 0..0, length: 0, ..self },
        }
    }

    /// Adds its elements to the sum of every window, in their order.
    fn gather<W: Wide>(&self, sums: &mut [W], line: &[W], windows: &[Window]) {
        let Range { start, end } = self.windows;
        let mut one_by_one = |range: Range<usize>| {
            for (sum, window) in sums[range.clone()].iter_mut().zip(&windows[range]) {
                line[neighbours(window)].iter().for_each(|&x| *sum += x);
            }
        };
        one_by_one(0..start);
        one_by_one(end..windows.len());
        for element in 0..self.length {
            let (sums, line) = (&mut sums[start..end], &line[windows[start].start + element..]);
            match self.stride {
                1 => sums.iter_mut().zip(line).for_each(|(sum, &x)| *sum += x),
                2 => add_every::<W, 2>(sums, line),
                3 => add_every::<W, 3>(sums, line),
                4 => add_every::<W, 4>(sums, line),
                stride => {
                    sums.iter_mut().zip(line.iter().step_by(stride)).for_each(|(sum, &x)| *sum += x)
                }
            }
        }
    }

    /// Adds the share of every window to its elements, for each element in the order of the windows.
    fn scatter<W: Wide>(&self, line: &mut [W], shares: &[W], windows: &[Window]) {
        let Range { start, end } = self.windows;
        let one_by_one = |line: &mut [W], range: Range<usize>| {
            for (window, &share) in windows[range.clone()].iter().zip(&shares[range]) {
                line[neighbours(window)].iter_mut().for_each(|x| *x += share);
            }
        };
        one_by_one(line, 0..start);
        for element in (0..self.length).rev() {
            let line = &mut line[windows[start].start + element..];
            line.iter_mut().zip(&shares[start..end]).for_each(|(sum, &share)| *sum += share);
        }
        one_by_one(line, end..windows.len());
    }
}

/// Adds the elements `STRIDE` apart to the sums.
#[inline(always)]
fn add_every<W: Wide, const STRIDE: usize>(sums: &mut [W], line: &[W]) {
    let (groups, rest) = line.as_chunks::<STRIDE>();
    let last = sums.get_mut(groups.len()).zip(rest.first());
    last.into_iter().for_each(|(sum, &x)| *sum += x);
    sums.iter_mut().zip(groups).for_each(|(sum, group)| *sum += group[0]);
}
