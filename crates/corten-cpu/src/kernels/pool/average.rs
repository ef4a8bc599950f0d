//! The mean of every window.

use super::super::support::{contiguous_in, empty_in, is_shape_only, match_types};
use super::Shape;
use super::max::in_memory_order;
use super::window::Window;
use crate::chunks::{for_each_chunk, grain_of};
use crate::rows::{Float, Wide, match_float};
use corten_core::{Access, AccessSet, DType, Result};
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
    match_float!(self_.dtype(), name, T => {
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
    for_each_chunk(out, windows, grain_of(windows * shape.work()), |channel, out| {
        let values = &values[channel * plane..][..plane];
        shape.for_each_window(|position, window| {
            let mut sum = T::Wide::ZERO;
            shape.for_each_element(window, |index| sum += values[index].widen());
            let divisor = divisor.value(window).max_one_if_empty(window);
            out[position] = T::narrow(sum / T::Wide::of(divisor as f64));
        });
        Ok(())
    })
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
    let (channels, plane, windows) = (shape.channels, shape.plane(), shape.windows());
    let positions: Vec<[Window; 3]> = {
        let mut list = Vec::with_capacity(windows);
        shape.for_each_window(|_, window| list.push(window));
        list
    };
    for_each_chunk(out, channels, grain_of(channels * shape.work()), |index, out| {
        let (sample, window) = (index / windows, positions[index % windows]);
        let values = &values[sample * plane * channels..][..plane * channels];
        T::fill(out, &mut Vec::new(), |out| {
            out.fill(T::Wide::ZERO);
            shape.for_each_element(window, |pixel| {
                let values = &values[pixel * channels..][..channels];
                out.iter_mut().zip(values).for_each(|(sum, value)| *sum += value.widen());
            });
            let divisor = divisor.value(window).max_one_if_empty(window);
            let divisor = T::Wide::of(divisor as f64);
            out.iter_mut().for_each(|sum| *sum = *sum / divisor);
        });
        Ok(())
    })
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
    match_types!(self_.dtype(), name, T => {
        let (grad, out) = (in_memory_order(&grad, shape)?, in_memory_order(&out, shape)?);
        let access = AccessSet::acquire(&[(&out, Access::Write), (&grad, Access::Read)])?;
        spread(access.write::<T>(0)?, access.read::<T>(1)?, shape, divisor)
    }, [Float16 corten_core::f16, BFloat16 corten_core::bf16, Float32 f32, Float64 f64,])?;
    Ok(out)
}

/// Adds to every element of a window its share of the gradient.
fn spread<T: Float>(out: &mut [T], grad: &[T], shape: &Shape, divisor: Divisor) -> Result<()> {
    let (plane, windows) = (shape.plane(), shape.windows());
    let width = if shape.channels_last() { shape.channels } else { 1 };
    let grain = grain_of(windows * width * shape.work());
    for_each_chunk(out, plane * width, grain, |index, out| {
        let grad = &grad[index * windows * width..][..windows * width];
        T::fill(out, &mut Vec::new(), |out| {
            out.fill(T::Wide::ZERO);
            if width == 1 {
                return spread_plane(out, grad, shape, divisor);
            }
            shape.for_each_window(|position, window| {
                let divisor = T::Wide::of(divisor.value(window) as f64);
                let shares = &grad[position * width..][..width];
                shape.for_each_element(window, |i| {
                    let line = &mut out[i * width..][..width];
                    for (sum, share) in line.iter_mut().zip(shares) {
                        *sum += share.widen() / divisor;
                    }
                });
            });
        });
        Ok(())
    })
}

/// As [`spread`] for one channel: the windows of a line of outputs, line by line of the input.
fn spread_plane<T: Float>(out: &mut [T::Wide], grad: &[T], shape: &Shape, divisor: Divisor) {
    let [deep, high, wide] = &shape.axes;
    let steps = Steps::of(&wide.windows);
    let mut shares = vec![T::Wide::ZERO; wide.windows.len()];
    // Most lines have the divisors of the line before.
    let (mut divisors, mut divisors_of) = (shares.clone(), None);
    let mut lines = grad.chunks_exact(wide.windows.len().max(1));
    for &depth in &deep.windows {
        for (&height, grad) in high.windows.iter().zip(&mut lines) {
            let key = [depth, height].map(|window| (window.len(), window.padded));
            if divisors_of != Some(key) {
                for (number, &width) in divisors.iter_mut().zip(&wide.windows) {
                    *number = T::Wide::of(divisor.value([depth, height, width]) as f64);
                }
                divisors_of = Some(key);
            }
            for ((share, grad), &number) in shares.iter_mut().zip(grad).zip(&divisors) {
                *share = grad.widen() / number;
            }
            for z in depth.positions() {
                for y in height.positions() {
                    let line = &mut out[(z * high.input + y) * wide.input..][..wide.input];
                    steps.add(line, &shares, &wide.windows);
                }
            }
        }
    }
}

/// The windows of an axis that are alike and one element apart: those of a stride of 1, but for the
/// ones that reach into the padding.
struct Steps {
    windows: Range<usize>,
    /// The elements of each.
    length: usize,
}

impl Steps {
    fn of(windows: &[Window]) -> Self {
        let length = windows.iter().map(|window| window.len()).max().unwrap_or(0);
        let first = windows.iter().position(|window| window.len() == length).unwrap_or(0);
        let follows = |pair: &&[Window]| {
            pair[1].start == pair[0].start + 1 && pair[1].len() == length && pair[1].step == 1
        };
        let count = 1 + windows[first..].windows(2).take_while(follows).count();
        Self { windows: first..(first + count).min(windows.len()), length }
    }

    /// Adds the share of every window to its elements, for each element in the order of the windows.
    fn add<W: Wide>(&self, line: &mut [W], shares: &[W], windows: &[Window]) {
        let mut one_by_one = |range: Range<usize>| {
            for (window, &share) in windows[range.clone()].iter().zip(&shares[range]) {
                window.positions().for_each(|i| line[i] += share);
            }
        };
        if self.windows.len() < self.length {
            return one_by_one(0..windows.len());
        }
        one_by_one(0..self.windows.start);
        let alike = &shares[self.windows.clone()];
        for element in (0..self.length).rev() {
            let first = windows[self.windows.start].start + element;
            line[first..].iter_mut().zip(alike).for_each(|(sum, &share)| *sum += share);
        }
        for (window, &share) in windows.iter().zip(shares).skip(self.windows.end) {
            window.positions().for_each(|i| line[i] += share);
        }
    }
}
