//! The patches of images as the second factor of a product, made a few columns at a time.
//!
//! The rows of the image that a range of output positions looks at are copied once, with their
//! border of zeros, so that every part of a row of patches lies side by side: for a stride in the
//! last dimension, the elements of a row are sorted by their remainder.

use super::geometry::Geometry;
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::{Element, unwinding};
use corten_gemm::{ImplicitOperand, PACK_PADDING};
use std::ops::Range;

/// Elements are copied in pieces of so many, a little further than asked for.
const PIECE: usize = PACK_PADDING;

/// Rows of images, and what a product asks of their patches.
pub(super) struct Window<'a, T> {
    data: &'a [T],
    layout: Layout,
    output: [usize; 3],
    stride: [usize; 3],
}

/// How the copied rows lie.
pub(super) struct Layout {
    /// The output positions, counted through the samples, and the samples that they are of.
    positions: Range<usize>,
    samples: Range<usize>,
    /// The first and the number of the copied coordinates, counted with the border, of the first
    /// two axes.
    first: [usize; 2],
    count: [usize; 2],
    /// The remainders of the last coordinate that the kernel looks at, and the elements of each.
    phases: Vec<usize>,
    len: usize,
    /// Where every element of the kernel looks, from the first element of a patch.
    taps: Vec<usize>,
    channels: usize,
}

impl Layout {
    /// The rows of so many channels that some output positions look at.
    pub(super) fn of(geometry: &Geometry, positions: Range<usize>, channels: usize) -> Self {
        let Geometry { kernel, output, stride, dilation, .. } = *geometry;
        let lines = [positions.start / output[2], (positions.end - 1) / output[2]];
        let every_plane = lines.map(|line| line / output[1]);
        let [first_sample, last_sample] = every_plane.map(|plane| plane / output[0]);
        let samples = first_sample..last_sample + 1;
        let planes = match samples.len() {
            1 => every_plane.map(|plane| plane % output[0]),
            _ => [0, output[0] - 1],
        };
        let rows = match every_plane[0] == every_plane[1] {
            true => lines.map(|line| line % output[1]),
            false => [0, output[1] - 1],
        };
        let reach = |axis: usize| (kernel[axis] - 1) * dilation[axis];
        let first = [planes[0] * stride[0], rows[0] * stride[1]];
        let count = [
            (planes[1] - planes[0]) * stride[0] + reach(0) + 1,
            (rows[1] - rows[0]) * stride[1] + reach(1) + 1,
        ];
        let len = ((output[2] - 1) * stride[2] + reach(2)) / stride[2] + 1;
        let mut phases: Vec<usize> = Vec::new();
        let mut columns = Vec::new();
        for x in 0..kernel[2] {
            let (phase, shift) = (x * dilation[2] % stride[2], x * dilation[2] / stride[2]);
            let slot = phases.iter().position(|&known| known == phase).unwrap_or(phases.len());
            if slot == phases.len() {
                unwinding::push(&mut phases, phase);
            }
            unwinding::push(&mut columns, (slot, shift));
        }
        let row = phases.len() * len;
        let mut taps = unwinding::with_capacity(geometry.kernel_size());
        for z in 0..kernel[0] {
            for y in 0..kernel[1] {
                let line = (z * dilation[0] * count[1] + y * dilation[1]) * row;
                taps.extend(columns.iter().map(|(slot, shift)| line + slot * len + shift));
            }
        }
        Self { positions, samples, first, count, phases, len, taps, channels }
    }

    /// Elements of a copied row, of a plane of them, of all of a channel's, and of a sample's.
    fn sizes(&self) -> [usize; 4] {
        let row = self.phases.len() * self.len;
        let channel = row * self.count[1] * self.count[0];
        [row, row * self.count[1], channel, channel * self.channels]
    }

    /// Elements that the copy takes.
    pub(super) fn buffer_len(&self) -> usize {
        self.sizes()[3] * self.samples.len() + PIECE
    }
}

impl<'a, T: Element + Default> Window<'a, T> {
    /// Copies the rows of the channels from the given one on, which are of one group, to a buffer of
    /// [`Layout::buffer_len`].
    pub(super) fn new(
        geometry: &Geometry,
        layout: Layout,
        images: &[T],
        channel: usize,
        buffer: &'a mut [T],
    ) -> Self {
        f32::run(CopyRows { geometry, layout: &layout, images, channel, buffer: &mut *buffer });
        Self { data: buffer, layout, output: geometry.output, stride: geometry.stride }
    }
}

struct CopyRows<'a, T> {
    geometry: &'a Geometry,
    layout: &'a Layout,
    images: &'a [T],
    channel: usize,
    buffer: &'a mut [T],
}

impl<T: Element + Default> RowKernel<f32> for CopyRows<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { geometry, layout, images, channel, buffer } = self;
        let ([_, height, width], padding) = (geometry.image, geometry.padding);
        let channels = |sample: usize| {
            let first = sample * geometry.channels + channel;
            first..first + layout.channels
        };
        let mut at = 0;
        for channel in layout.samples.clone().flat_map(channels) {
            let plane = channel * geometry.pixels();
            for z in layout.first[0]..layout.first[0] + layout.count[0] {
                let z = z.checked_sub(padding[0]).filter(|&z| z < geometry.image[0]);
                for y in layout.first[1]..layout.first[1] + layout.count[1] {
                    let y = y.checked_sub(padding[1]).filter(|&y| y < height);
                    let row = z.zip(y).map(|(z, y)| &images[plane + (z * height + y) * width..]);
                    for &phase in &layout.phases {
                        let to = &mut buffer[at..];
                        copy_phase(to, row, geometry, phase, layout.len);
                        at += layout.len;
                    }
                }
            }
        }
    }
}

/// Copies the elements of a row, counted with the border, whose place has some remainder.
#[inline(always)]
fn copy_phase<T: Element + Default>(
    to: &mut [T],
    row: Option<&[T]>,
    geometry: &Geometry,
    phase: usize,
    len: usize,
) {
    let (width, padding, stride) = (geometry.image[2], geometry.padding[2], geometry.stride[2]);
    let Some(row) = row else { return to[..len].fill(T::default()) };
    let start = padding.saturating_sub(phase).div_ceil(stride).min(len);
    let end = (width + padding).saturating_sub(phase).div_ceil(stride).clamp(start, len);
    to[..start].fill(T::default());
    if end > start {
        let from = &row[start * stride + phase - padding..];
        match stride {
            1 => copy_run(&mut to[start..], from, end - start),
            2 => copy_every::<_, 2>(&mut to[start..end], from),
            _ => copy_each(&mut to[start..end], from, stride),
        }
    }
    to[end..len].fill(T::default());
}

fn copy_each<T: Copy>(to: &mut [T], from: &[T], stride: usize) {
    to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, &value)| *to = value);
}

/// Copies every second (or third …) element: what the compiler makes vectors of, for whole pieces.
#[inline(always)]
fn copy_every<T: Copy, const STRIDE: usize>(to: &mut [T], from: &[T]) {
    let whole = (from.len() / STRIDE).min(to.len()) / PIECE * PIECE;
    let (pieces, rest) = to.split_at_mut(whole);
    for (to, from) in pieces.chunks_exact_mut(PIECE).zip(from.chunks_exact(PIECE * STRIDE)) {
        (0..PIECE).for_each(|i| to[i] = from[i * STRIDE]);
    }
    copy_each(rest, &from[(whole * STRIDE).min(from.len())..], STRIDE);
}

/// Copies `len` elements, and perhaps some that lie behind them.
#[inline(always)]
pub(super) fn copy_run<T: Copy>(to: &mut [T], from: &[T], len: usize) {
    let pieces = len.next_multiple_of(PIECE);
    if to.len() < pieces || from.len() < pieces {
        return to[..len].copy_from_slice(&from[..len]);
    }
    // Those of a panel are so short that a loop, or a call that copies them, takes longer than they do.
    let mut piece = |index: usize| {
        let at = index * PIECE;
        if at < pieces {
            to[at..at + PIECE].copy_from_slice(&from[at..at + PIECE]);
        }
    };
    piece(0);
    piece(1);
    piece(2);
    piece(3);
    (4..pieces / PIECE).for_each(piece);
}

impl<T: Element + Default> ImplicitOperand<T> for Window<'_, T> {
    fn pack(&self, depth: Range<usize>, cols: Range<usize>, to: &mut [T], width: usize) {
        f32::run(Fill { window: self, depth, cols, to, width });
    }
}

struct Fill<'a, T> {
    window: &'a Window<'a, T>,
    depth: Range<usize>,
    cols: Range<usize>,
    to: &'a mut [T],
    width: usize,
}

impl<T: Element + Default> RowKernel<f32> for Fill<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { window, depth, cols, to, width } = self;
        let runs = window.runs(cols);
        let (taps, channel_size) = (&window.layout.taps, window.layout.sizes()[2]);
        let (mut channel, mut tap) = (depth.start / taps.len(), depth.start % taps.len());
        for line in 0..depth.len() {
            let first = channel * channel_size + taps[tap];
            for run in &runs {
                let to = &mut to[line * width + run.to..];
                copy_run(to, &window.data[first + run.from..], run.len);
            }
            tap += 1;
            if tap == taps.len() {
                (channel, tap) = (channel + 1, 0);
            }
        }
    }
}

/// Neighbouring columns of patches that come from one row.
pub(super) struct Run {
    /// Where the first elements of their patches lie.
    pub(super) from: usize,
    /// The first of the columns, and how many there are.
    pub(super) to: usize,
    pub(super) len: usize,
}

impl<T> Window<'_, T> {
    /// The copied rows; where every element of the kernel looks, from the first element of a patch;
    /// and how far the channels lie from each other.
    pub(super) fn parts(&self) -> (&[T], &[usize], usize) {
        (self.data, &self.layout.taps, self.layout.sizes()[2])
    }

    /// Where the patches of some columns begin.
    pub(super) fn runs(&self, cols: Range<usize>) -> Vec<Run> {
        let [row, plane, _, sample_size] = self.layout.sizes();
        let end = self.layout.positions.start + cols.end;
        let mut position = self.layout.positions.start + cols.start;
        let (start, mut runs) =
            (position, unwinding::with_capacity(cols.len() / self.output[2] + 2));
        while position < end {
            let (line, x) = (position / self.output[2], position % self.output[2]);
            let (depth, sample) = (line / self.output[1], line / self.output[1] / self.output[0]);
            let z = depth % self.output[0] * self.stride[0] - self.layout.first[0];
            let y = line % self.output[1] * self.stride[1] - self.layout.first[1];
            let len = (self.output[2] - x).min(end - position);
            let from = (sample - self.layout.samples.start) * sample_size + z * plane + y * row + x;
            runs.push(Run { from, to: position - start, len });
            position += len;
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(stride: [usize; 3], padding: [usize; 3], dilation: [usize; 3]) -> Geometry {
        let (image, kernel) = ([4, 7, 21], [2, 3, 3]);
        let output = std::array::from_fn(|axis| {
            let reach = (kernel[axis] - 1) * dilation[axis];
            (image[axis] + 2 * padding[axis] - reach - 1) / stride[axis] + 1
        });
        let (channels_last, kernel_rows) = (false, false);
        Geometry {
            groups: 2,
            channels: 6,
            features: 2,
            image,
            kernel,
            output,
            stride,
            padding,
            dilation,
            channels_last,
            kernel_rows,
        }
    }

    #[test]
    fn windows_hold_the_patches_that_are_unfolded() {
        let cases = [
            ([1, 1, 1], [0, 0, 0], [1, 1, 1]),
            ([1, 1, 1], [1, 1, 1], [1, 1, 1]),
            ([1, 2, 2], [0, 1, 1], [1, 1, 1]),
            ([2, 1, 3], [1, 2, 3], [1, 2, 2]),
            ([1, 3, 4], [1, 0, 2], [2, 1, 3]),
        ];
        for (stride, padding, dilation) in cases {
            let g = geometry(stride, padding, dilation);
            let sample = g.channels * g.pixels();
            let images: Vec<i32> = (1..=2 * sample as i32).collect();
            let (positions, patch) = (g.positions(), g.patch());
            let ranges = [0..positions, 0..1, 3..positions - 1, positions / 2..positions];
            let of_both = [5..2 * positions - 1, positions + 2..2 * positions - 3];
            for range in ranges.into_iter().chain(of_both) {
                let width = range.len();
                let mut patches = vec![0; patch * width];
                for (column, position) in range.clone().enumerate() {
                    let image = &images[position / positions * sample..][..sample];
                    let place = position % positions;
                    let mut one = vec![0; patch];
                    g.unfold(image, 1, place..place + 1, &mut one);
                    (0..patch).for_each(|row| patches[row * width + column] = one[row]);
                }
                let channels = g.group_channels();
                let layout = Layout::of(&g, range.clone(), channels);
                let mut rows = vec![-1; layout.buffer_len()];
                let window = Window::new(&g, layout, &images, channels, &mut rows);
                let panel = 48.min(width);
                for start in (0..width).step_by(panel) {
                    let cols = start..(start + panel).min(width);
                    let depth = 2..patch;
                    let mut made = vec![-1; depth.len() * panel + PACK_PADDING];
                    window.pack(depth.clone(), cols.clone(), &mut made, panel);
                    for (line, row) in depth.enumerate() {
                        let made = &made[line * panel..][..cols.len()];
                        let expected = &patches[row * width..][cols.clone()];
                        assert_eq!(made, expected, "{stride:?} {padding:?} {range:?} {cols:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_adjoint_of_the_adjoint_is_the_convolution() {
        let g = geometry([1; 3], [1, 0, 2], [1, 1, 2]);
        let back = g.adjoint().and_then(|adjoint| adjoint.adjoint()).unwrap();
        assert_eq!((back.padding, back.image, back.channels), (g.padding, g.image, g.channels));
        assert!(geometry([1, 1, 2], [0; 3], [1; 3]).adjoint().is_none());
        assert!(geometry([1; 3], [0, 3, 0], [1; 3]).adjoint().is_none());
    }
}
