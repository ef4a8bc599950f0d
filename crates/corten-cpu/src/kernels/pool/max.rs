//! The largest element of every window and where it lies.

use super::super::support::{contiguous_in, expect_dtype, is_shape_only, match_types};
use super::Shape;
use super::window::{Axis, Window};
use crate::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use crate::row_loops::compiled;
use crate::rows::match_float;
use corten_core::{Access, AccessSet, DType, Element, Result, bf16, ensure, f16};
use corten_ops::Tensor;

/// An element type with an order, in which NaN is largest.
trait Ordered: Element + PartialOrd {
    /// What a window starts with.
    const LOWEST: Self;

    /// Whether this takes the place of the largest so far.
    #[inline(always)]
    fn beats(self, best: Self) -> bool {
        // Only NaN differs from itself.
        #[allow(clippy::eq_op)]
        let nan = self != self;
        (self > best) | nan
    }
}

macro_rules! ordered {
    ($($t:ty: $lowest:expr),*) => { $(impl Ordered for $t { const LOWEST: Self = $lowest; })* };
}

ordered!(u8: u8::MIN, i8: i8::MIN, i16: i16::MIN, i32: i32::MIN, i64: i64::MIN,
    f16: f16::NEG_INFINITY, bf16: bf16::NEG_INFINITY, f32: f32::NEG_INFINITY, f64: f64::NEG_INFINITY);

macro_rules! match_ordered {
    ($dtype:expr, $name:expr, $t:ident => $body:expr) => {
        match_types!($dtype, $name, $t => $body, [
            UInt8 u8, Int8 i8, Int16 i16, Int32 i32, Int64 i64,
            Float16 f16, BFloat16 bf16, Float32 f32, Float64 f64,
        ])
    };
}

pub(super) fn forward(
    self_: &Tensor,
    shape: &Shape,
    name: &'static str,
) -> Result<(Tensor, Tensor)> {
    let input = contiguous_in(self_, shape.format)?;
    let out = shape.new_output(self_, self_.dtype())?;
    let indices = shape.new_output(self_, DType::Int64)?;
    if is_shape_only(&out) {
        return Ok((out, indices));
    }
    match_ordered!(self_.dtype(), name, T => {
        // Channels-last tensors are read through a view in which they are contiguous.
        let [input, out, indices] = [&input, &out, &indices].map(|t| in_memory_order(t, shape));
        let (input, out, indices) = (input?, out?, indices?);
        let access = AccessSet::acquire(
            &[(&out, Access::Write), (&indices, Access::Write), (&input, Access::Read)])?;
        let (values, out) = (access.read::<T>(2)?, access.write::<T>(0)?);
        let indices = access.write::<i64>(1)?;
        if shape.channels_last() {
            forward_pixels(values, out, indices, shape)
        } else {
            forward_planes(values, out, indices, shape)
        }
    })?;
    Ok((out, indices))
}

/// A view whose dimensions are in the order in which they lie in memory.
pub(super) fn in_memory_order(tensor: &Tensor, shape: &Shape) -> Result<Tensor> {
    if !shape.channels_last() {
        return Ok(tensor.clone());
    }
    let mut order: Vec<usize> = (0..tensor.dim()).collect();
    order[1..].rotate_left(1);
    let pick = |list: &[i64]| order.iter().map(|&d| list[d]).collect::<Vec<_>>();
    let (sizes, strides) = (pick(&tensor.sizes()), pick(&tensor.strides()));
    Ok(tensor.as_view_of(&sizes, &strides, tensor.storage_offset())?.into())
}

fn forward_planes<T: Ordered>(
    values: &[T],
    out: &mut [T],
    indices: &mut [i64],
    shape: &Shape,
) -> Result<()> {
    let (plane, windows) = (shape.plane(), shape.windows());
    let grain = grain_of(windows * shape.work());
    for_each_chunk2((out, windows), (indices, windows), grain, |channel, out, indices| {
        let values = &values[channel * plane..][..plane];
        out.fill(T::LOWEST);
        indices.fill(NONE);
        let [depths, heights, widths] = &shape.axes;
        let width = widths.windows.len();
        let mut position = 0;
        for depth in &depths.windows {
            for height in &heights.windows {
                let best = &mut out[position..position + width];
                let places = &mut indices[position..position + width];
                for z in depth.positions() {
                    for y in height.positions() {
                        let first = (z * heights.input + y) * widths.input;
                        let row = &values[first..first + widths.input];
                        take_larger(row, first, widths, best, places);
                    }
                }
                position += width;
            }
        }
        indices.iter_mut().filter(|place| **place == NONE).for_each(|place| *place = 0);
        Ok(())
    })
}

/// The place of the largest element of a window in which there is none yet.
const NONE: i64 = -1;

/// Brings the elements of one row of the input, the first of them at `first` in the plane, into
/// the windows that see them.
fn take_larger<T: Ordered>(
    row: &[T],
    first: usize,
    axis: &Axis,
    best: &mut [T],
    places: &mut [i64],
) {
    let complete = match axis.spacing {
        1..=3 => axis.complete.clone(),
        _ => 0..0,
    };
    if let Some(window) = axis.windows.get(complete.start).filter(|_| !complete.is_empty()) {
        let (best, places) = (&mut best[complete.clone()], &mut places[complete.clone()]);
        for x in window.positions() {
            match axis.spacing {
                1 => compiled(|| take_spaced::<T, 1>(&row[x..], first + x, best, places)),
                2 => compiled(|| take_spaced::<T, 2>(&row[x..], first + x, best, places)),
                _ => compiled(|| take_spaced::<T, 3>(&row[x..], first + x, best, places)),
            }
        }
    }
    for cut in [0..complete.start, complete.end..axis.windows.len()] {
        let (best, places) = (&mut best[cut.clone()], &mut places[cut.clone()]);
        take_singly(row, first, &axis.windows[cut], best, places);
    }
}

/// Brings every `SPACING`th element, from the first on, into one window after the other.
#[inline(always)]
fn take_spaced<T: Ordered, const SPACING: usize>(
    row: &[T],
    first: usize,
    best: &mut [T],
    places: &mut [i64],
) {
    // The last window's element may have no full chunk behind it.
    let last = best.len() - 1;
    let chunks = row.as_chunks::<SPACING>().0;
    let (head, tail) = (best.split_at_mut(last), places.split_at_mut(last));
    let windows = head.0.iter_mut().zip(tail.0.iter_mut());
    for ((w, chunk), (best, place)) in chunks.iter().enumerate().zip(windows) {
        take(chunk[0], first + w * SPACING, best, place);
    }
    take(row[last * SPACING], first + last * SPACING, &mut head.1[0], &mut tail.1[0]);
}

/// Which element is larger cannot be foreseen, hence no branch.
#[inline(always)]
fn take<T: Ordered>(value: T, at: usize, best: &mut T, place: &mut i64) {
    // The first element stands, even if it is the lowest of all.
    let better = value.beats(*best) | (*place == NONE);
    *best = if better { value } else { *best };
    *place = if better { at as i64 } else { *place };
}

fn take_singly<T: Ordered>(
    row: &[T],
    first: usize,
    windows: &[Window],
    best: &mut [T],
    places: &mut [i64],
) {
    for (window, (best, place)) in windows.iter().zip(best.iter_mut().zip(places)) {
        let (mut largest, mut at) = (*best, *place);
        window.positions().for_each(|x| take(row[x], first + x, &mut largest, &mut at));
        (*best, *place) = (largest, at);
    }
}

fn forward_pixels<T: Ordered>(
    values: &[T],
    out: &mut [T],
    indices: &mut [i64],
    shape: &Shape,
) -> Result<()> {
    let (channels, plane) = (shape.channels, shape.plane());
    let row = shape.axes[2].windows.len();
    let rows_per_sample = shape.windows() / row.max(1);
    let chunk = row * channels;
    let grain = grain_of(chunk * shape.work());
    for_each_chunk2((out, chunk), (indices, chunk), grain, |index, out, indices| {
        let (sample, line) = (index / rows_per_sample, index % rows_per_sample);
        let values = &values[sample * plane * channels..][..plane * channels];
        let heights = shape.axes[1].windows.len();
        let depth = shape.axes[0].windows[line / heights];
        let height = shape.axes[1].windows[line % heights];
        let pixels = out.chunks_exact_mut(channels).zip(indices.chunks_exact_mut(channels));
        for (&width, (out, indices)) in shape.axes[2].windows.iter().zip(pixels) {
            let mut first = true;
            shape.for_each_element([depth, height, width], |pixel| {
                let values = &values[pixel * channels..][..channels];
                for ((best, place), &value) in out.iter_mut().zip(indices.iter_mut()).zip(values) {
                    let better = first || value.beats(*best);
                    *best = if better { value } else { *best };
                    *place = if better { pixel as i64 } else { *place };
                }
                first = false;
            });
        }
        Ok(())
    })
}

pub(super) fn backward(
    grad_output: &Tensor,
    self_: &Tensor,
    indices: &Tensor,
    shape: &Shape,
    name: &'static str,
) -> Result<Tensor> {
    expect_dtype(grad_output, self_.dtype())?;
    ensure!(
        indices.sizes() == grad_output.sizes(),
        Runtime,
        "Expected indices of size {:?} but got {:?}",
        grad_output.sizes().as_slice(),
        indices.sizes().as_slice()
    );
    expect_dtype(indices, DType::Int64)?;
    let grad = contiguous_in(grad_output, shape.format)?;
    let indices = contiguous_in(indices, shape.format)?;
    let out = super::super::support::empty_in(&self_.sizes(), self_, self_.dtype(), shape.format)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    match_float!(self_.dtype(), name, T => {
        let [grad, out, indices] = [&grad, &out, &indices].map(|t| in_memory_order(t, shape));
        let (grad, out, indices) = (grad?, out?, indices?);
        let access = AccessSet::acquire(
            &[(&out, Access::Write), (&grad, Access::Read), (&indices, Access::Read)])?;
        let (grad, places) = (access.read::<T>(1)?, access.read::<i64>(2)?);
        scatter(access.write::<T>(0)?, grad, places, shape)
    })?;
    Ok(out)
}

/// Adds every gradient at its place, in a wider type where windows may overlap.
fn scatter<T: crate::rows::Float>(
    out: &mut [T],
    grad: &[T],
    places: &[i64],
    shape: &Shape,
) -> Result<()> {
    let (plane, windows, channels) = (shape.plane(), shape.windows(), shape.channels);
    // A channel is a chunk where channels come first, a sample where they come last.
    let width = if shape.channels_last() { channels } else { 1 };
    let grain = grain_of(windows * width);
    for_each_chunk(out, plane * width, grain, |index, out| {
        let grad = &grad[index * windows * width..][..windows * width];
        let places = &places[index * windows * width..][..windows * width];
        let mut buffer = Vec::new();
        let mut outside = None;
        T::fill(out, &mut buffer, |out| {
            out.fill(T::Wide::default());
            for (i, (&g, &place)) in grad.iter().zip(places).enumerate() {
                match usize::try_from(place) {
                    Ok(place) if place < plane => out[place * width + i % width] += g.widen(),
                    _ => outside = Some(place),
                }
            }
        });
        ensure!(
            outside.is_none(),
            Runtime,
            "found an invalid max index: {} (output volumes are of size {}x{}x{})",
            outside.unwrap_or(0),
            shape.axes[0].input,
            shape.axes[1].input,
            shape.axes[2].input
        );
        Ok(())
    })
}
