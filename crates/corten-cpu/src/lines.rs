//! Calls a function for every line of contiguous tensors along one dimension.

use crate::chunks::{for_each_chunk, for_each_column_block, grain_of};
use crate::rows::{Float, Wide};
use corten_core::Result;

/// Columns that are gathered into lines at a time: a cache line of `f32`.
const COLUMNS: usize = 16;

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

    /// Calls `line` with the matching lines of the inputs and of the output.
    ///
    /// # Errors
    /// None of its own.
    pub(crate) fn map<T: Float, const N: usize>(
        self,
        out: &mut [T],
        inputs: [&[T]; N],
        line: impl Fn(&mut [T::Wide], [&[T::Wide]; N]) + Sync,
    ) -> Result<()> {
        if self.inner == 1 {
            self.map_rows(out, inputs, line)
        } else {
            self.map_columns(out, inputs, line)
        }
    }

    fn map_rows<T: Float, const N: usize>(
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

    /// Lines that are not adjacent in memory are gathered, a few columns at a time.
    fn map_columns<T: Float, const N: usize>(
        self,
        out: &mut [T],
        inputs: [&[T]; N],
        line: impl Fn(&mut [T::Wide], [&[T::Wide]; N]) + Sync,
    ) -> Result<()> {
        let Self { outer, len, inner } = self;
        let grain = grain_of(len * COLUMNS);
        for_each_column_block(out, [outer, len, inner], COLUMNS, grain, |batch, columns, block| {
            let width = columns.len();
            let mut gathered = [const { Vec::new() }; N];
            for (lines, input) in gathered.iter_mut().zip(inputs) {
                *lines = vec![T::Wide::ZERO; len * width];
                for row in 0..len {
                    let start = (batch * len + row) * inner + columns.start;
                    for (column, value) in input[start..][..width].iter().enumerate() {
                        lines[column * len + row] = value.widen();
                    }
                }
            }
            let mut result = vec![T::Wide::ZERO; len];
            for column in 0..width {
                line(&mut result, std::array::from_fn(|n| &gathered[n][column * len..][..len]));
                for (row, &value) in result.iter().enumerate() {
                    block.row(row)[column] = T::narrow(value);
                }
            }
            Ok(())
        })
    }
}
