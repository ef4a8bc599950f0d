//! Factors of products where channels come last, made a few lines at a time: the patches of images,
//! position by position, and kernels turned around.

use super::geometry::Geometry;
use super::window::copy_run;
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::{Element, unwinding};
use corten_gemm::ImplicitOperand;
use std::ops::Range;

/// The patches of a group: a line per output position, counted through the samples, of which
/// (kernel position, channel) lie side by side.
pub(super) struct Patches<'a, T> {
    pub(super) geometry: &'a Geometry,
    pub(super) images: &'a [T],
    pub(super) group: usize,
    /// Where lines, and places in them, are counted from.
    pub(super) first: [usize; 2],
}

/// A part of every patch that lies side by side in a row of the image.
struct Piece {
    /// How far the row is from the first one that a patch looks at, in the first two axes.
    row: [usize; 2],
    /// How far the part is from the first pixel that a patch looks at.
    shift: usize,
    len: usize,
}

impl<T> Patches<'_, T> {
    /// The pieces that some places of a patch consist of.
    fn pieces(&self, places: Range<usize>) -> Vec<Piece> {
        let Geometry { groups, channels, kernel: [_, kh, kw], dilation, .. } = *self.geometry;
        let run = self.geometry.group_channels();
        // Where nothing lies between the pixels of a kernel's row, it is one piece.
        let whole_rows = groups == 1 && dilation[2] == 1;
        let (unit, per_row) = if whole_rows { (run * kw, 1) } else { (run, kw) };
        let mut pieces = unwinding::with_capacity(places.len() / unit.max(1) + 2);
        let mut place = places.start;
        while place < places.end {
            let (index, start) = (place / unit, place % unit);
            let (row, x) = (index / per_row, index % per_row);
            let len = (unit - start).min(places.end - place);
            let shift = x * dilation[2] * channels + self.group * run + start;
            let row = [row / kh * dilation[0], row % kh * dilation[1]];
            pieces.push(Piece { row, shift, len });
            place += len;
        }
        pieces
    }
}

impl<T: Element + Default> ImplicitOperand<T> for Patches<'_, T> {
    fn pack(&self, lines: Range<usize>, places: Range<usize>, to: &mut [T], width: usize) {
        let [line, place] = self.first;
        let lines = lines.start + line..lines.end + line;
        let pieces = self.pieces(places.start + place..places.end + place);
        let Self { geometry, images, .. } = *self;
        f32::run(Fill { geometry, images, pieces: &pieces, lines, to, width });
    }
}

struct Fill<'a, T> {
    geometry: &'a Geometry,
    images: &'a [T],
    pieces: &'a [Piece],
    lines: Range<usize>,
    to: &'a mut [T],
    width: usize,
}

impl<T: Element + Default> RowKernel<f32> for Fill<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { geometry, images, pieces, lines, to, width } = self;
        let Geometry { channels, image: [depths, heights, widths], .. } = *geometry;
        let (output, row_len) = (geometry.output, widths * channels);
        let (line, mut x) = (lines.start / output[2], lines.start % output[2]);
        let (plane, mut y) = (line / output[1], line % output[1]);
        let (mut sample, mut z) = (plane / output[0], plane % output[0]);
        for line in 0..lines.len() {
            let first = (x * geometry.stride[2]) as isize - geometry.padding[2] as isize;
            let first = first * channels as isize;
            let mut at = line * width;
            for piece in pieces {
                let rows = geometry.source_at(0, z, piece.row[0]);
                let rows = rows.zip(geometry.source_at(1, y, piece.row[1]));
                let row = rows.map(|(z, y)| (sample * depths + z) * heights + y);
                let row = row.map(|row| &images[row * row_len..]);
                copy_piece(&mut to[at..], row, first + piece.shift as isize, row_len, piece.len);
                at += piece.len;
            }
            x += 1;
            if x == output[2] {
                (x, y) = (0, y + 1);
            }
            if y == output[1] {
                (y, z) = (0, z + 1);
            }
            if z == output[0] {
                (z, sample) = (0, sample + 1);
            }
        }
    }
}

/// Copies `len` elements of a row from `start` on, and zeros for those outside of it.
#[inline(always)]
fn copy_piece<T: Copy + Default>(
    to: &mut [T],
    row: Option<&[T]>,
    start: isize,
    row_len: usize,
    len: usize,
) {
    let Some(row) = row else { return to[..len].fill(T::default()) };
    if start >= 0 && start as usize + len <= row_len {
        return copy_run(to, &row[start as usize..], len);
    }
    let inside = start.saturating_neg().clamp(0, len as isize) as usize;
    let end = (row_len as isize - start).clamp(inside as isize, len as isize) as usize;
    to[..inside].fill(T::default());
    if end > inside {
        let from = (start + inside as isize) as usize;
        copy_run(&mut to[inside..], &row[from..], end - inside);
    }
    to[end..len].fill(T::default());
}

/// The weight of a convolution from that of the one of which it is the
/// [`adjoint`](Geometry::adjoint), as the second factor of a product: a line per (kernel position,
/// channel) of a group, of which features lie side by side.
pub(super) struct TurnedKernel<'a, T> {
    pub(super) geometry: &'a Geometry,
    pub(super) weight: &'a [T],
    pub(super) group: usize,
}

impl<T: Element + Default> ImplicitOperand<T> for TurnedKernel<'_, T> {
    fn pack(&self, lines: Range<usize>, features: Range<usize>, to: &mut [T], width: usize) {
        let (channels, size) = (self.geometry.group_channels(), self.geometry.kernel_size());
        let run = self.geometry.group_features();
        for (at, line) in lines.enumerate() {
            let (place, channel) = (line / channels, self.group * channels + line % channels);
            let from = (channel * size + size - 1 - place) * run + features.start;
            copy_run(&mut to[at * width..], &self.weight[from..], features.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::tests::{geometry, patch_element};
    use super::*;
    use corten_gemm::PACK_PADDING;

    #[test]
    fn patches_are_those_of_the_definition() {
        for (groups, dilation) in [(2, 2), (2, 1), (1, 2), (1, 1)] {
            let mut g = Geometry { groups, ..geometry(true, false) };
            g.dilation[2] = dilation;
            let (sample, positions) = (g.channels * g.pixels(), g.positions());
            let images: Vec<i64> = (1..=2 * sample as i64).collect();
            for (first, lines) in [([0, 0], 0..2 * positions), ([3, 1], 2..positions)] {
                let group = groups - 1;
                let patches = Patches { geometry: &g, images: &images, group, first };
                let (places, width) = (1..g.patch() - first[1], g.patch() + 3);
                let mut made = vec![-1; lines.len() * width + PACK_PADDING];
                patches.pack(lines.clone(), places.clone(), &mut made, width);
                for (i, line) in lines.enumerate() {
                    let position = line + first[0];
                    let image = &images[position / positions * sample..][..sample];
                    for (j, place) in places.clone().enumerate() {
                        let (run, place) = (g.group_channels(), place + first[1]);
                        let (channel, kernel) = (place % run, place / run);
                        let position = position % positions;
                        let expected = patch_element(&g, image, group, channel, kernel, position);
                        assert_eq!(made[i * width + j], expected, "{groups} {dilation} {i} {j}");
                    }
                }
            }
        }
    }
}
