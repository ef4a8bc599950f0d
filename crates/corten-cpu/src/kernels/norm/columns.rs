//! Sums over the rows of a matrix, and maps of its rows, with numbers of their own for every
//! column: batches whose channels come last.

use crate::parallel::chunks::{for_each_column_block, for_each_run, grain_of};
use crate::rows::loops::{Function, RowFold, fold_columns, map};
use crate::rows::{Float, Wide};
use crate::vec::stream;
use corten_core::{Result, try_vec, unwinding};
use std::ops::Range;

/// Rows that are summed before the sum goes into the total, so that long sums stay exact.
const BLOCK: usize = 256;

/// Parts of the rows that threads sum, at most. The number of threads changes no result.
const PARTS: usize = 64;

/// Columns of a part that are summed at a time, at most.
const WIDTH: usize = 1024;

/// Elements that a loop is worth its start for: shorter rows are taken several at a time.
const LINE: usize = 512;

/// The place of a block in a matrix of `cols` columns.
#[derive(Clone)]
pub(super) struct SubMatrix {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    cols: usize,
}

impl SubMatrix {
    /// How many rows lie side by side, and are taken as one.
    fn side_by_side(&self) -> usize {
        if self.columns.len() < self.cols { 1 } else { rows_per_line(self.cols) }
    }

    /// Puts the elements of every column into `M` states, that start at zero and are added up in
    /// the end. `tables` has a number for each column.
    pub(super) fn fold<T: Float, const K: usize, const N: usize, const M: usize>(
        &self,
        matrices: [&[T]; K],
        tables: &[&[T::Wide]],
        fold: impl RowFold<T::Wide, N, M>,
    ) -> [Vec<f64>; M] {
        let (width, repeats) = (self.columns.len(), self.side_by_side());
        let tables: Vec<Vec<T::Wide>> =
            tables.iter().map(|table| side_by_side(table, repeats)).collect();
        let mut states = [const { Vec::new() }; M];
        states.iter_mut().for_each(|state| *state = unwinding::vec(T::Wide::ZERO, width * repeats));
        let mut buffers = [const { Vec::new() }; K];
        for row in self.rows.clone().step_by(repeats) {
            let start = row * self.cols + self.columns.start;
            let length = width * repeats.min(self.rows.end - row);
            let mut lines = [&[] as &[T::Wide]; N];
            let (wide, rest) = lines.split_at_mut(K);
            for ((line, matrix), buffer) in wide.iter_mut().zip(matrices).zip(&mut buffers) {
                *line = T::wide_row(&matrix[start..][..length], buffer);
            }
            rest.iter_mut().zip(&tables).for_each(|(line, table)| *line = table);
            fold_columns(states.each_mut().map(|state| &mut state[..]), lines, fold);
        }
        states.map(|state| {
            let column = |c| state[c..].iter().step_by(width).map(|sum| sum.as_f64()).sum();
            unwinding::collect((0..width).map(column))
        })
    }
}

/// A table as often as rows lie side by side.
fn side_by_side<W: Copy>(table: &[W], repeats: usize) -> Vec<W> {
    unwinding::collect((0..repeats).flat_map(|_| table.iter().copied()))
}

fn rows_per_line(cols: usize) -> usize {
    (LINE / cols.max(1)).max(1)
}

/// A result for every column of a matrix: what `add` makes of the blocks, put together.
///
/// # Errors
/// None of its own.
pub(super) fn over_rows<R: Copy + Default + Send>(
    rows: usize,
    cols: usize,
    add: impl Fn(SubMatrix, &mut [R]) + Sync,
    merge: impl Fn(&mut R, R),
) -> Result<Vec<R>> {
    let height = rows.div_ceil(PARTS).next_multiple_of(BLOCK);
    let parts = rows.div_ceil(height.max(1));
    let mut results = try_vec(R::default(), parts * cols)?;
    let grain = grain_of(height * cols.min(WIDTH));
    for_each_column_block(
        &mut results,
        [parts, 1, cols],
        WIDTH,
        grain,
        |part, columns, results| {
            for start in (part * height..rows.min((part + 1) * height)).step_by(BLOCK) {
                let rows = start..rows.min((part + 1) * height).min(start + BLOCK);
                add(SubMatrix { rows, columns: columns.clone(), cols }, results.row(0));
            }
            Ok(())
        },
    )?;
    let mut totals = try_vec(R::default(), cols)?;
    for part in results.chunks_exact(cols.max(1)) {
        totals.iter_mut().zip(part).for_each(|(total, &part)| merge(total, part));
    }
    Ok(totals)
}

/// `out = f(matrices, tables)` for every element, with a number of each table for every column.
///
/// # Errors
/// None of its own.
pub(super) fn map_columns<T: Float, const K: usize, const N: usize>(
    out: &mut [T],
    matrices: [&[T]; K],
    tables: &[&[T::Wide]],
    f: impl Function<T::Wide, N> + Sync,
) -> Result<()> {
    let cols = tables.first().map_or(0, |table| table.len());
    let repeats = rows_per_line(cols);
    let tables: Vec<Vec<T::Wide>> =
        tables.iter().map(|table| side_by_side(table, repeats)).collect();
    let (written, unit) = (size_of_val(out), cols * repeats);
    for_each_run(out, cols, grain_of(cols), |range, out| {
        let (mut buffers, mut narrow) = ([const { Vec::new() }; K], Vec::new());
        stream::fill(written, out, unit, |elements, out| {
            let mut start = range.start * cols + elements.start;
            for out in out.chunks_mut(unit) {
                let mut lines = [&[] as &[T::Wide]; N];
                let (wide, rest) = lines.split_at_mut(K);
                for ((line, matrix), buffer) in wide.iter_mut().zip(matrices).zip(&mut buffers) {
                    *line = T::wide_row(&matrix[start..][..out.len()], buffer);
                }
                rest.iter_mut().zip(&tables).for_each(|(line, table)| *line = table);
                start += out.len();
                T::fill(out, &mut narrow, |out| map(out, lines, f));
            }
        });
        Ok(())
    })
}
