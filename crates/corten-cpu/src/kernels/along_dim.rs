//! Calls a function for every line of contiguous tensors along one dimension.

use crate::copy::transpose::turn_matrix;
use crate::parallel::chunks::{
    ColumnBlock, for_each_chunk, for_each_column_block, for_each_run, grain_of,
};
use crate::parallel::scratch::{Buffered, with_buffer};
use crate::rows::loops::MOST_LANES;
use crate::rows::{Float, Wide};
use crate::vec::prefetch_early;
use crate::vec::transpose::SIDE;
use corten_core::Result;
use corten_ops::parallel::num_threads;

/// DimView that are taken together where they are columns.
const COLUMNS: usize = 256;

/// As many are taken where they do not stay in a second-level cache from one pass to the next: rows of
/// more elements are read faster.
const WIDE: usize = 2048;
const FAR: usize = 1 << 20;

/// The prefetch distance of columns, in rows, and the bytes that stay in a first-level cache.
const ROWS_AHEAD: usize = 4;
const NEAR: usize = 32 << 10;

/// Elements of rows that are turned together.
const TURNED: usize = 4096;

/// How many rows are turned together.
fn rows_at_once(len: usize) -> usize {
    (TURNED / len).min(COLUMNS).next_multiple_of(MOST_LANES)
}

/// What is computed of lines.
pub(crate) trait DimKernel<const N: usize>: Sync {
    /// The longest rows for which it pays to turn them into columns.
    const SHORT: usize;
    /// Fills a line of which all elements are adjacent.
    fn row<W: Wide>(&self, out: &mut [W], rows: [&[W]; N]);
    /// Fills lines that are columns of a matrix.
    fn columns<T: Float>(&self, block: ColumnLanes<'_, '_, T, N>);
}

/// A shape as seen from one of its dimensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DimView {
    /// Elements in front of the dimension.
    pub(crate) outer: usize,
    /// The dimension.
    pub(crate) len: usize,
    /// Elements behind it.
    pub(crate) inner: usize,
}

impl DimView {
    /// The lines of a shape along `dim`; a rank-0 tensor is one line of one element.
    pub(crate) fn of(sizes: &[i64], dim: usize) -> Self {
        let product = |sizes: &[i64]| sizes.iter().product::<i64>() as usize;
        match sizes.is_empty() {
            true => Self { outer: 1, len: 1, inner: 1 },
            false => Self {
                outer: product(&sizes[..dim]),
                len: sizes[dim] as usize,
                inner: product(&sizes[dim + 1..]),
            },
        }
    }

    /// Computes every line of the output from those of the inputs.
    ///
    /// # Errors
    /// None of its own.
    pub(crate) fn map<T: Float, L: DimKernel<N>, const N: usize>(
        self,
        out: &mut [T],
        inputs: [&[T]; N],
        of_lines: &L,
    ) -> Result<()>
    where
        T::Wide: Buffered,
    {
        match self.inner {
            1 if (1..=L::SHORT).contains(&self.len) && self.outer >= SIDE => {
                self.map_short_rows(out, inputs, of_lines)
            }
            1 => self.map_rows(out, inputs, of_lines),
            _ => self.map_columns(out, inputs, of_lines),
        }
    }

    fn map_rows<T: Float, const N: usize>(
        self,
        out: &mut [T],
        inputs: [&[T]; N],
        of_lines: &impl DimKernel<N>,
    ) -> Result<()> {
        for_each_chunk(out, self.len, grain_of(self.len), |i, out| {
            let mut buffers = [const { Vec::new() }; N];
            let rows = inputs.map(|input| &input[i * self.len..][..self.len]);
            let mut pairs = rows.into_iter().zip(&mut buffers);
            let rows = std::array::from_fn(|_| match pairs.next() {
                Some((row, buffer)) => T::wide_row(row, buffer),
                None => &[],
            });
            T::fill(out, &mut Vec::new(), |out| of_lines.row(out, rows));
            Ok(())
        })
    }

    /// Short rows are turned into columns, which are computed side by side, and back: steps of one
    /// row would wait for each other.
    fn map_short_rows<T: Float, const N: usize>(
        self,
        out: &mut [T],
        inputs: [&[T]; N],
        of_lines: &impl DimKernel<N>,
    ) -> Result<()>
    where
        T::Wide: Buffered,
    {
        let len = self.len;
        for_each_run(out, len, grain_of(len), |rows, out| {
            with_buffer((N + 1) * rows_at_once(len) * len, |buffer| {
                let mut wide = Vec::new();
                let firsts = rows.step_by(rows_at_once(len));
                for (first, out) in firsts.zip(out.chunks_mut(rows_at_once(len) * len)) {
                    let (turned, rest) = buffer.split_at_mut(out.len());
                    let mut columns = rest.chunks_exact_mut(out.len());
                    let columns = inputs.map(|input| {
                        let rows = T::wide_row(&input[first * len..][..out.len()], &mut wide);
                        let to = columns.next().unwrap_or_default();
                        turn_matrix(rows, len, to);
                        &*to
                    });
                    let lines = Self { outer: 1, len, inner: out.len() / len };
                    lines.map_columns(turned, columns, of_lines)?;
                    T::fill(out, &mut wide, |out| turn_matrix(turned, out.len() / len, out));
                }
                Ok(())
            })
        })
    }

    /// Makes one element of every row, of some rows at a time: `f` has them as the columns of a
    /// matrix.
    ///
    /// # Errors
    /// None of its own.
    pub(crate) fn fold_short_rows<T: Float>(
        self,
        out: &mut [T],
        input: &[T],
        f: impl Fn(&mut [T::Wide], &[T::Wide]) + Sync,
    ) -> Result<()>
    where
        T::Wide: Buffered,
    {
        let len = self.len;
        for_each_run(out, 1, grain_of(len), |rows, out| {
            with_buffer(rows_at_once(len) * len, |buffer| {
                let mut wide = Vec::new();
                let firsts = rows.step_by(rows_at_once(len));
                for (first, out) in firsts.zip(out.chunks_mut(rows_at_once(len))) {
                    let count = out.len() * len;
                    let rows = T::wide_row(&input[first * len..][..count], &mut wide);
                    turn_matrix(rows, len, &mut buffer[..count]);
                    T::fill(out, &mut Vec::new(), |out| f(out, &buffer[..count]));
                }
                Ok(())
            })
        })
    }

    /// DimView that lie side by side as columns of a matrix, block by block.
    fn map_columns<T: Float, const N: usize>(
        self,
        out: &mut [T],
        inputs: [&[T]; N],
        of_lines: &impl DimKernel<N>,
    ) -> Result<()> {
        let Self { outer, len, inner } = self;
        let far = len * COLUMNS * size_of::<T>() > FAR;
        let wide = (inner / num_threads()).clamp(COLUMNS, WIDE);
        let columns = if far { wide } else { COLUMNS };
        let grain = grain_of(len * columns);
        for_each_column_block(out, [outer, len, inner], columns, grain, |batch, columns, out| {
            let (first, width) = (batch * len * inner + columns.start, columns.len());
            of_lines.columns(ColumnLanes { out, inputs, first, width, len, step: inner });
            Ok(())
        })
    }
}

/// DimView that are the columns of a matrix.
pub(crate) struct ColumnLanes<'a, 'b, T, const N: usize> {
    out: &'a mut ColumnBlock<'b, T>,
    inputs: [&'a [T]; N],
    /// The place of the first element, and how far rows lie apart.
    first: usize,
    step: usize,
    /// How many lines there are.
    pub(crate) width: usize,
    /// How many elements each has.
    len: usize,
}

impl<T: Float, const N: usize> ColumnLanes<'_, '_, T, N> {
    /// Calls `f` with every row of the inputs.
    pub(crate) fn read(&self, mut f: impl FnMut([&[T::Wide]; N])) {
        let mut buffers = [const { Vec::new() }; N];
        for row in 0..self.len {
            f(self.row(row, &mut buffers));
        }
    }

    /// Calls `f` with every row of the output and of the inputs.
    pub(crate) fn write(&mut self, f: impl Fn(&mut [T::Wide], [&[T::Wide]; N])) {
        let (mut buffers, mut buffer) = ([const { Vec::new() }; N], Vec::new());
        for row in 0..self.len {
            let rows = self.row(row, &mut buffers);
            T::fill(self.out.row(row), &mut buffer, |out| f(out, rows));
        }
    }

    /// Asks for a later row, where all do not stay in a first-level cache.
    fn ask(&self, rows: &[T], row: usize) {
        let bytes = self.width * size_of::<T>();
        if row + ROWS_AHEAD < self.len && self.len * bytes > NEAR {
            prefetch_early(rows.as_ptr().wrapping_add(self.step * ROWS_AHEAD).cast(), bytes);
        }
    }

    fn row<'c>(&self, row: usize, buffers: &'c mut [Vec<T::Wide>; N]) -> [&'c [T::Wide]; N]
    where
        Self: 'c,
    {
        let mut rows = [&[] as &[T::Wide]; N];
        for ((row_of, input), buffer) in rows.iter_mut().zip(self.inputs).zip(buffers) {
            let elements = &input[self.first + row * self.step..][..self.width];
            self.ask(elements, row);
            *row_of = T::wide_row(elements, buffer);
        }
        rows
    }
}
