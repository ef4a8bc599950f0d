//! Calls a function for every line of contiguous tensors along one dimension.

use crate::chunks::{ColumnBlock, for_each_chunk, for_each_column_block, grain_of};
use crate::rows::Float;
use corten_core::Result;

/// Lines that are taken together where they are columns.
const COLUMNS: usize = 256;

/// A shape as seen from one of its dimensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    /// Elements in front of the dimension.
    pub(crate) outer: usize,
    /// The dimension.
    pub(crate) len: usize,
    /// Elements behind it.
    pub(crate) inner: usize,
}

impl Lines {
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

    /// Calls `line` with the matching lines of the inputs and of the output, whose elements are
    /// adjacent.
    ///
    /// # Errors
    /// None of its own.
    pub(crate) fn map_rows<T: Float, const N: usize>(
        self,
        out: &mut [T],
        inputs: [&[T]; N],
        line: impl Fn(&mut [T::Wide], [&[T::Wide]; N]) + Sync,
    ) -> Result<()> {
        for_each_chunk(out, self.len, grain_of(self.len), |i, out| {
            let mut buffers = [const { Vec::new() }; N];
            let rows = inputs.map(|input| &input[i * self.len..][..self.len]);
            let mut pairs = rows.into_iter().zip(&mut buffers);
            let rows = std::array::from_fn(|_| match pairs.next() {
                Some((row, buffer)) => T::wide_row(row, buffer),
                None => &[],
            });
            T::fill(out, &mut Vec::new(), |out| line(out, rows));
            Ok(())
        })
    }

    /// Calls `block` for blocks of lines that lie side by side as columns of a matrix.
    ///
    /// # Errors
    /// None of its own.
    pub(crate) fn map_columns<T: Float, const N: usize>(
        self,
        out: &mut [T],
        inputs: [&[T]; N],
        block: impl Fn(Columns<'_, '_, T, N>) + Sync,
    ) -> Result<()> {
        let Self { outer, len, inner } = self;
        let grain = grain_of(len * COLUMNS);
        for_each_column_block(out, [outer, len, inner], COLUMNS, grain, |batch, columns, out| {
            let (first, width) = (batch * len * inner + columns.start, columns.len());
            block(Columns { out, inputs, first, width, len, step: inner });
            Ok(())
        })
    }
}

/// Lines that are the columns of a matrix.
pub(crate) struct Columns<'a, 'b, T, const N: usize> {
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

impl<T: Float, const N: usize> Columns<'_, '_, T, N> {
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

    fn row<'c>(&self, row: usize, buffers: &'c mut [Vec<T::Wide>; N]) -> [&'c [T::Wide]; N]
    where
        Self: 'c,
    {
        let mut rows = [&[] as &[T::Wide]; N];
        for ((row_of, input), buffer) in rows.iter_mut().zip(self.inputs).zip(buffers) {
            *row_of = T::wide_row(&input[self.first + row * self.step..][..self.width], buffer);
        }
        rows
    }
}
