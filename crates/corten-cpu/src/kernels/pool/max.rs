//! The largest element of every window and where it lies.

use super::super::support::{contiguous_in, expect_dtype, is_shape_only};
use super::Shape;
use super::pairs::Pairs;
use super::window::Window;
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use crate::rows::loops::{RowKernel, Vectorised, compiled};
use crate::vec::Lanes;
use corten_core::{
    Access, AccessSet, DType, Element, Result, bf16, ensure, f16, match_dtype, unwinding,
};
use corten_ops::Tensor;
use std::ops::Range;

/// An element type with an order, in which NaN is largest.
pub(super) trait Ordered: Element + PartialOrd {
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
    match_dtype!(self_.dtype(), name, Ordered, T => {
        // Channels-last tensors are read through a view in which they are contiguous.
        let [input, out, indices] = [&input, &out, &indices].map(|t| in_memory_order(t, shape));
        let (input, out, indices) = (input?, out?, indices?);
        let access = AccessSet::acquire(
            &[(&out, Access::Write), (&indices, Access::Write), (&input, Access::Read)])?;
        let (values, out) = (access.read::<T>(2)?, access.write::<T>(0)?);
        let indices = access.write::<i64>(1)?;
        if shape.channels_last() {
            forward_pixels(values, out, indices, shape)
        } else if let Some(pairs) = Pairs::of(shape) {
            pairs.forward(values, out, indices, shape)
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
    let [depths, heights, widths] = &shape.axes;
    let width = widths.windows.len();
    let even = Even::of(&widths.windows);
    for_each_chunk2((out, windows), (indices, windows), grain, |channel, out, indices| {
        let values = &values[channel * plane..][..plane];
        out.fill(T::LOWEST);
        indices.fill(NONE);
        let mut scratch = Scratch::new();
        let mut position = 0;
        for depth in &depths.windows {
            for height in &heights.windows {
                let best = &mut out[position..position + width];
                let places = &mut indices[position..position + width];
                for z in depth.positions() {
                    for y in height.positions() {
                        let first = (z * heights.input + y) * widths.input;
                        let row = &values[first..first + widths.input];
                        match &even {
                            Some(even) => {
                                even.take_larger(
                                    row,
                                    first,
                                    &widths.windows,
                                    best,
                                    places,
                                    &mut scratch,
                                );
                            }
                            None => take_larger(row, first, &widths.windows, best, places),
                        }
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
/// the windows that see them. Which element is larger cannot be foreseen, hence no branches.
fn take_larger<T: Ordered>(
    row: &[T],
    first: usize,
    windows: &[Window],
    best: &mut [T],
    places: &mut [i64],
) {
    for (window, (best, place)) in windows.iter().zip(best.iter_mut().zip(places)) {
        let (mut largest, mut at) = (*best, *place);
        for x in window.positions() {
            let value = row[x];
            // The first element stands, even if it is the lowest of all.
            let better = value.beats(largest) | (at == NONE);
            largest = if better { value } else { largest };
            at = if better { (first + x) as i64 } else { at };
        }
        (*best, *place) = (largest, at);
    }
}

/// Windows that differ in nothing but their place, which is so for all but those at the borders.
struct Even {
    /// Which of the windows.
    range: Range<usize>,
    /// Where the first of them starts, and how far apart they start.
    start: usize,
    stride: usize,
    /// How many elements each has, and how far apart these lie.
    len: usize,
    step: usize,
}

/// Fewer windows than this are taken one by one.
const FEW: usize = 8;

impl Even {
    fn of(windows: &[Window]) -> Option<Self> {
        let len = windows.iter().map(|window| window.len()).max()?;
        let first = windows.iter().position(|window| window.len() == len)?;
        let (window, next) = (windows[first], windows.get(first + 1)?);
        let stride = next.start.checked_sub(window.start).filter(|&stride| stride > 0)?;
        let alike = |(i, other): &(usize, &Window)| {
            other.start == window.start + i * stride && other.len() == len
        };
        let count = windows[first..].iter().enumerate().take_while(alike).count();
        let Window { start, step, .. } = window;
        let counted = len < STANDS as usize;
        (count >= FEW && counted).then_some(Self {
            range: first..first + count,
            start,
            stride,
            len,
            step,
        })
    }

    /// As [`take_larger`], with the windows side by side: of each in turn the first element, then
    /// the second, and so on.
    fn take_larger<T: Ordered>(
        &self,
        row: &[T],
        first: usize,
        windows: &[Window],
        best: &mut [T],
        places: &mut [i64],
        scratch: &mut Scratch<T>,
    ) {
        let Range { start, end } = self.range;
        let before = (&mut best[..start], &mut places[..start]);
        take_larger(row, first, &windows[..start], before.0, before.1);
        let after = (&mut best[end..], &mut places[end..]);
        take_larger(row, first, &windows[end..], after.0, after.1);
        let (best, places) = (&mut best[start..end], &mut places[start..end]);
        f32::run(SideBySide { even: self, row, first, best, places, scratch });
    }
}

/// A row on its way into even windows.
struct SideBySide<'a, T> {
    even: &'a Even,
    row: &'a [T],
    first: usize,
    best: &'a mut [T],
    places: &'a mut [i64],
    scratch: &'a mut Scratch<T>,
}

impl<T: Ordered> RowKernel<f32> for SideBySide<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { even, row, first, best, places, scratch } = self;
        let Scratch { apart, now, next } = scratch;
        let stride = even.stride;
        let segment = row.len().div_ceil(stride);
        if stride > 1 {
            unwinding::resize(apart, segment * stride, T::LOWEST);
            match stride {
                2 => deal::<T, 2>(row, apart, segment),
                3 => deal::<T, 3>(row, apart, segment),
                _ => (0..stride).for_each(|phase| deal_phase(row, apart, segment, stride, phase)),
            }
        }
        // All windows see the same rows: none has an element yet, or all have one.
        let fresh = places[0] == NONE;
        let start = first + even.start;
        for from in (0..best.len()).step_by(BLOCK) {
            let length = BLOCK.min(best.len() - from);
            let (best, places) = (&mut best[from..][..length], &mut places[from..][..length]);
            let (mut now, mut next) = (&mut *now, &mut *next);
            if !fresh {
                now.best[..length].copy_from_slice(best);
                now.steps[..length].fill(STANDS);
            }
            for k in 0..even.len {
                let x = even.start + k * even.step;
                let values = match stride {
                    1 => &row[x..],
                    _ => &apart[x % stride * segment + x / stride..],
                };
                let values = &values[from..][..length];
                if fresh && k == 0 {
                    now.start_with(values);
                } else {
                    next.take_larger(now, values, k as u32);
                    std::mem::swap(&mut now, &mut next);
                }
            }
            best.copy_from_slice(&now.best[..length]);
            now.note_places(places, fresh, start + from * stride, stride, even.step);
        }
    }
}

/// Windows whose largest elements are looked for at a time.
pub(super) const BLOCK: usize = 256;

/// The step of a window in which nothing larger was found.
const STANDS: u32 = u32::MAX;

/// The largest elements of a block of windows so far, and at which step they were found.
pub(super) struct Largest<T, const N: usize = BLOCK> {
    pub(super) best: [T; N],
    pub(super) steps: [u32; N],
}

impl<T: Ordered, const N: usize> Largest<T, N> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { best: [T::LOWEST; N], steps: [STANDS; N] }
    }

    /// The first elements stand, even if they are the lowest of all.
    #[inline(always)]
    pub(super) fn start_with(&mut self, values: &[T]) {
        self.best[..values.len()].copy_from_slice(values);
        self.steps[..values.len()].fill(0);
    }

    /// Those of `now` and of the values of step `k`. All are written, which makes for plain stores:
    /// masked ones take many times as long on some processors.
    #[inline(always)]
    pub(super) fn take_larger(&mut self, now: &Self, values: &[T], k: u32) {
        let to = self.best.iter_mut().zip(&mut self.steps);
        let from = now.best.iter().zip(&now.steps).zip(values);
        for ((best, step), ((&so_far, &at), &value)) in to.zip(from) {
            let better = value.beats(so_far);
            *best = if better { value } else { so_far };
            *step = if better { k } else { at };
        }
    }

    /// Writes where the windows' elements lie, of `all` or of those that were found, for windows
    /// `stride` apart.
    #[inline(always)]
    fn note_places(&self, places: &mut [i64], all: bool, start: usize, stride: usize, step: usize) {
        let found = |i: usize, at: u32| (start + i * stride + at as usize * step) as i64;
        let places = places.iter_mut().zip(&self.steps).enumerate();
        if all {
            for (i, (place, &at)) in places {
                *place = found(i, at);
            }
            return;
        }
        for (i, (place, &at)) in places {
            if at != STANDS {
                *place = found(i, at);
            }
        }
    }
}

/// Room for a row on its way into even windows.
struct Scratch<T> {
    apart: Vec<T>,
    now: Largest<T>,
    next: Largest<T>,
}

impl<T: Ordered> Scratch<T> {
    fn new() -> Self {
        Self { apart: Vec::new(), now: Largest::new(), next: Largest::new() }
    }
}

/// Puts every element that is `STRIDE` behind the one before side by side.
#[inline(always)]
fn deal<T: Copy, const STRIDE: usize>(row: &[T], apart: &mut [T], segment: usize) {
    let (groups, rest) = row.as_chunks::<STRIDE>();
    for (i, group) in groups.iter().enumerate() {
        for (phase, &value) in group.iter().enumerate() {
            apart[phase * segment + i] = value;
        }
    }
    for (phase, &value) in rest.iter().enumerate() {
        apart[phase * segment + groups.len()] = value;
    }
}

/// One of the parts of [`deal`].
fn deal_phase<T: Copy>(row: &[T], apart: &mut [T], segment: usize, stride: usize, phase: usize) {
    let to = &mut apart[phase * segment..][..segment];
    let values = row.iter().skip(phase).step_by(stride);
    to.iter_mut().zip(values).for_each(|(to, &value)| *to = value);
}

fn forward_pixels<T: Ordered>(
    values: &[T],
    out: &mut [T],
    indices: &mut [i64],
    shape: &Shape,
) -> Result<()> {
    let (channels, plane) = (shape.channels, shape.plane());
    let (rows, chunk) = (shape.rows(), shape.axes[2].windows.len() * channels);
    let grain = grain_of(chunk * shape.work());
    for_each_chunk2((out, chunk), (indices, chunk), grain, |index, out, indices| {
        let values = &values[index / rows * plane * channels..][..plane * channels];
        f32::run(RowOfPixels { values, out, indices, shape, row: index % rows });
        Ok(())
    })
}

/// A row of windows whose channels lie side by side.
struct RowOfPixels<'a, T> {
    values: &'a [T],
    out: &'a mut [T],
    indices: &'a mut [i64],
    shape: &'a Shape,
    row: usize,
}

impl<T: Ordered> RowKernel<f32> for RowOfPixels<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { values, out, indices, shape, row } = self;
        let ([depth, height], channels) = (shape.row(row), shape.channels);
        let [_, heights, widths] = &shape.axes;
        let mut offsets = Offsets::default();
        let results = out.chunks_exact_mut(channels).zip(indices.chunks_exact_mut(channels));
        for (&width, (out, indices)) in widths.windows.iter().zip(results) {
            let window = [depth, height, width];
            if window.iter().any(|window| window.len() == 0) {
                out.fill(T::LOWEST);
                indices.fill(0);
                continue;
            }
            let first = (depth.start * heights.input + height.start) * widths.input + width.start;
            offsets.find(shape, window, first);
            let values = &values[first * channels..];
            let window = PixelWindow { values, channels, offsets: &offsets, first };
            let mut from = 0;
            while from + 32 <= channels {
                window.largest::<32>(from, out, indices);
                from += 32;
            }
            while from + 8 <= channels {
                window.largest::<8>(from, out, indices);
                from += 8;
            }
            while from < channels {
                window.largest::<1>(from, out, indices);
                from += 1;
            }
        }
    }
}

/// How far the pixels of a window are behind its first one: the same for all windows of a row that
/// have as many columns.
#[derive(Default)]
struct Offsets {
    columns: usize,
    pixels: Vec<usize>,
    /// The pixels again, as numbers as long as elements are; in case they are too far for that,
    /// which of the pixels it is.
    marks: Vec<u32>,
    too_far: bool,
}

impl Offsets {
    fn find(&mut self, shape: &Shape, window: [Window; 3], first: usize) {
        if self.columns == window[2].len() {
            return;
        }
        self.columns = window[2].len();
        self.pixels.clear();
        shape.for_each_element(window, |pixel| unwinding::push(&mut self.pixels, pixel - first));
        self.too_far = self.pixels.last().is_some_and(|&last| u32::try_from(last).is_err());
        let marks = self.pixels.iter().enumerate();
        let too_far = self.too_far;
        self.marks = unwinding::collect(marks.map(|(k, &at)| if too_far { k } else { at } as u32));
    }

    /// Where the pixels with these marks lie, in a window whose first one is given.
    #[inline(never)]
    fn write_places(&self, marks: &[u32], first: usize, places: &mut [i64]) {
        let places = places.iter_mut().zip(marks);
        match self.too_far {
            true => places.for_each(|(to, &k)| *to = (first + self.pixels[k as usize]) as i64),
            false => places.for_each(|(to, &offset)| *to = (first + offset as usize) as i64),
        }
    }
}

/// The pixels of a window, in a sample whose channels lie side by side, from the first of them on.
struct PixelWindow<'a, T> {
    values: &'a [T],
    channels: usize,
    offsets: &'a Offsets,
    first: usize,
}

impl<T: Ordered> PixelWindow<'_, T> {
    /// The largest elements of `N` channels from `from` on.
    #[inline(always)]
    fn largest<const N: usize>(&self, from: usize, out: &mut [T], indices: &mut [i64]) {
        let Offsets { pixels, marks, .. } = self.offsets;
        let line = |pixel: usize| &self.values[pixel * self.channels + from..][..N];
        let (mut now, mut next) = (&mut Largest::<T, N>::new(), &mut Largest::<T, N>::new());
        now.start_with(line(0));
        for (&pixel, &mark) in pixels.iter().zip(marks).skip(1) {
            next.take_larger(now, line(pixel), mark);
            std::mem::swap(&mut now, &mut next);
        }
        out[from..][..N].copy_from_slice(&now.best);
        self.offsets.write_places(&now.steps, self.first, &mut indices[from..][..N]);
    }
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
    match_dtype!(self_.dtype(), name, Float, T => {
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
    let all_inside =
        compiled(|| places.iter().fold(true, |all, &place| all & ((place as u64) < plane as u64)));
    ensure!(
        all_inside,
        Runtime,
        "found an invalid max index: {} (output volumes are of size {}x{}x{})",
        places.iter().rev().find(|&&place| place as u64 >= plane as u64).unwrap_or(&0),
        shape.axes[0].input,
        shape.axes[1].input,
        shape.axes[2].input
    );
    for_each_chunk(out, plane * width, grain, |index, out| {
        let grad = &grad[index * windows * width..][..windows * width];
        let places = &places[index * windows * width..][..windows * width];
        T::fill(out, &mut Vec::new(), |out| {
            out.fill(T::Wide::default());
            if width == 1 {
                for (&g, &place) in grad.iter().zip(places) {
                    out[place as usize] += g.widen();
                }
                return;
            }
            for (grad, places) in grad.chunks(width.max(1)).zip(places.chunks(width.max(1))) {
                for (channel, (&g, &place)) in grad.iter().zip(places).enumerate() {
                    out[place as usize * width + channel] += g.widen();
                }
            }
        });
        Ok(())
    })
}
