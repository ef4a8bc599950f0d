//! Maxima of windows of two by two elements side by side, which is what most networks ask for: a row
//! of results needs two rows of the input, and nothing between them and registers.

use super::Shape;
use super::max::Ordered;
use super::window::Window;
use crate::parallel::chunks::{for_each_chunk2, grain_of};
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::Result;

/// Planes whose windows are pairs of neighbours in pairs of rows.
pub(super) struct Pairs<'a> {
    heights: &'a [Window],
    /// Results of a row, and elements of one.
    width: usize,
    input: usize,
    /// Where the first window of a row starts.
    start: usize,
}

impl<'a> Pairs<'a> {
    /// The planes of a pooling, if all their windows are such pairs.
    pub(super) fn of(shape: &'a Shape) -> Option<Self> {
        let [depths, heights, widths] = &shape.axes;
        let pair = |window: &Window| window.len() == 2 && window.step == 1;
        let start = widths.windows.first()?.start;
        let side_by_side = |(i, window): (usize, &Window)| window.start == start + 2 * i;
        let fits = depths.input == 1
            && depths.windows.len() == 1
            && heights.windows.iter().all(pair)
            && widths.windows.iter().all(pair)
            && widths.windows.iter().enumerate().all(side_by_side)
            && u32::try_from(widths.input).is_ok_and(|width| width < u32::MAX);
        fits.then_some(Self {
            heights: &heights.windows,
            width: widths.windows.len(),
            input: widths.input,
            start,
        })
    }

    /// The largest elements of all windows, and where they lie in their planes.
    pub(super) fn forward<T: Ordered>(
        &self,
        values: &[T],
        out: &mut [T],
        indices: &mut [i64],
        shape: &Shape,
    ) -> Result<()> {
        let (plane, windows) = (shape.plane(), shape.windows());
        let grain = grain_of(windows * shape.work());
        for_each_chunk2((out, windows), (indices, windows), grain, |channel, out, indices| {
            let values = &values[channel * plane..][..plane];
            f32::run(OnePlane { pairs: self, values, out, indices });
            Ok(())
        })
    }
}

/// A plane on its way into its windows.
struct OnePlane<'a, T> {
    pairs: &'a Pairs<'a>,
    values: &'a [T],
    out: &'a mut [T],
    indices: &'a mut [i64],
}

impl<T: Ordered> RowKernel<f32> for OnePlane<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        match self.pairs.width {
            0..4 => self.rows::<1>(),
            4..8 => self.rows::<4>(),
            // StridedLoads of more windows do not fit a register, and would be handled one by one.
            _ => self.rows::<8>(),
        }
    }
}

impl<T: Ordered> OnePlane<'_, T> {
    /// `N` windows at a time. The last ones of a row may be some of those before, too.
    #[inline(always)]
    fn rows<const N: usize>(self) {
        let Self { pairs: &Pairs { heights, width, input, start }, values, out, indices } = self;
        let rows = out.chunks_exact_mut(width).zip(indices.chunks_exact_mut(width));
        for (height, (out, indices)) in heights.iter().zip(rows) {
            let first = height.start * input + start;
            let (upper, lower) = (&values[first..], &values[first + input..]);
            let mut from = 0;
            while from < width {
                let at = from.min(width - N);
                let windows = Windows::<T, N> {
                    upper: upper[2 * at..].as_chunks().0,
                    lower: lower[2 * at..].as_chunks().0,
                    first: first + 2 * at,
                    below: input as u32,
                };
                windows.write_largest(&mut out[at..], &mut indices[at..]);
                from = at + N;
            }
        }
    }
}

/// `N` windows side by side: their elements in both rows, where the first lies in the plane, and how
/// far below it the next row does.
struct Windows<'a, T, const N: usize> {
    upper: &'a [[T; 2]],
    lower: &'a [[T; 2]],
    first: usize,
    below: u32,
}

impl<T: Ordered, const N: usize> Windows<'_, T, N> {
    #[inline(always)]
    fn write_largest(self, out: &mut [T], indices: &mut [i64]) {
        let Self { upper, lower, first, below } = self;
        let (upper, lower) = (&upper[..N], &lower[..N]);
        let (out, indices) = (&mut out[..N], &mut indices[..N]);
        let (mut best, mut place) = ([T::LOWEST; N], [0_u32; N]);
        // Which element is larger cannot be foreseen, hence no branches. The first one stands, even if
        // it is the lowest of all.
        for i in 0..N {
            best[i] = upper[i][0];
        }
        let others = [(upper, 1, 1), (lower, 0, below), (lower, 1, below + 1)];
        for (row, side, offset) in others {
            for i in 0..N {
                let value = row[i][side];
                let better = value.beats(best[i]);
                best[i] = if better { value } else { best[i] };
                place[i] = if better { offset } else { place[i] };
            }
        }
        out.copy_from_slice(&best);
        for i in 0..N {
            indices[i] = (first + 2 * i) as i64 + i64::from(place[i]);
        }
    }
}
