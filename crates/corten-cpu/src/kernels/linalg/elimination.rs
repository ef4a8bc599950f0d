//! Elimination by rows exchanged, of one matrix that lies by rows.

use super::matrices::{Number, part_width};
use super::multiples::{AT_ONCE, subtract_multiples};
use super::triangular::{SUBTRACT, Triangle};
use crate::gemm::{Mat, MatMut, for_each_part, gemm};
use crate::parallel::alone;
use crate::parallel::scratch::with_buffer;
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::Result;
use std::ops::Range;

/// Columns that are factored one by one: fewer make products of too few steps.
const PANEL: usize = 32;

/// The most rows of a panel that is no work for vectors.
const SHORT: usize = 16;

/// Numbers that are compared side by side, and that columns of a panel are filled up to.
const LANES: usize = 16;

/// Multiplications of an elimination that is faster on one thread: another one would wait for what the
/// first has in its cache at every step.
const ALONE: usize = 1 << 27;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A matrix by rows, which lie `stride` apart.
pub(super) struct Rows<'a, T> {
    pub(super) data: &'a mut [T],
    /// Where panels are factored.
    room: &'a mut [T],
    pub(super) shape: [usize; 2],
    pub(super) stride: usize,
}

impl<T: Number> Rows<'_, T> {
    fn matrix(&mut self) -> Result<MatMut<'_, T>> {
        MatMut::strided(self.data, self.shape, [self.stride, 1])
    }

    /// Some columns, from the row on that the first one has on the diagonal.
    fn part(&mut self, columns: Range<usize>) -> Result<MatMut<'_, T>> {
        let [_, below] = self.matrix()?.split_rows(columns.start);
        let [left, _] = below.split_columns(columns.end);
        let [_, own] = left.split_columns(columns.start);
        Ok(own)
    }
}

/// Factors a matrix, given by rows, to one by columns. Gives the first zero of the diagonal of `U`,
/// counted from 1, or 0.
///
/// # Errors
/// Those of products.
pub(super) fn factor_by_columns<T: Number>(
    source: &[T],
    shape: [usize; 2],
    out: &mut [T],
    pivots: &mut [i32],
) -> Result<i32> {
    let [rows, cols] = shape;
    if rows >= cols && cols <= PANEL {
        return with_buffer(room_of(shape), |room| {
            let mut panel = Panel::of(room, shape);
            panel.fill(Mat::row_major(source, rows, cols)?)?;
            let zero = panel.factor(0, pivots);
            for (to, from) in out.chunks_exact_mut(rows).zip(panel.columns()) {
                to.copy_from_slice(&from[..rows]);
            }
            Ok(zero)
        });
    }
    alone_where_small(shape, || {
        with_copy(source, shape, |mut matrix| {
            let info = factor(&mut matrix, pivots)?;
            let (matrix, out) = (matrix.matrix()?, MatMut::row_major(out, cols, rows)?.t());
            for_each_part(out, part_width(cols, rows), |columns, part| {
                part.t().copy_of(matrix.read().cols(columns).t())
            })?;
            Ok(info)
        })
    })
}

/// Runs what eliminates a matrix of this shape, on the calling thread alone if it is small.
fn alone_where_small<R>([rows, cols]: [usize; 2], body: impl FnOnce() -> R) -> R {
    let work = rows.saturating_mul(cols).saturating_mul(rows.min(cols));
    if work <= ALONE { alone(body) } else { body() }
}

/// Calls `body` with a copy of a matrix. Its rows are an odd number of lines apart: they do not get in
/// each other's way in a cache.
pub(super) fn with_copy<T: Number, R>(
    source: &[T],
    shape: [usize; 2],
    body: impl FnOnce(Rows<'_, T>) -> Result<R>,
) -> Result<R> {
    let ([rows, cols], line) = (shape, LINE / size_of::<T>());
    let stride = (cols.div_ceil(line) | 1) * line;
    let room = room_of([rows, cols.min(PANEL)]);
    with_buffer(rows * stride + line + room, |buffer| {
        let (data, room) = on_lines(buffer).split_at_mut(rows * stride);
        let source = Mat::row_major(source, rows, cols)?;
        let mut matrix = Rows { data, room, shape, stride };
        for_each_part(matrix.matrix()?, part_width(cols, rows), |columns, part| {
            part.copy_of(source.cols(columns))
        })?;
        body(matrix)
    })
}

/// What lies from the first line on.
fn on_lines<T>(buffer: &mut [T]) -> &mut [T] {
    let before = buffer.as_ptr().align_offset(LINE).min(buffer.len());
    &mut buffer[before..]
}

/// Replaces a matrix by its factors. Gives the first zero of the diagonal of `U`, counted from 1, or 0.
///
/// # Errors
/// Those of products.
pub(super) fn factor<T: Number>(matrix: &mut Rows<'_, T>, pivots: &mut [i32]) -> Result<i32> {
    let [rows, cols] = matrix.shape;
    let steps = rows.min(cols);
    let mut info = 0;
    factor_columns(matrix, 0..steps, pivots, &mut info)?;
    if cols > steps {
        take_out(matrix.matrix()?, 0..steps, cols)?;
    }
    Ok(info)
}

/// Factors some columns, whose rows above them are done: the left half, then the right half, from
/// which the left one has been taken out. So most of the work is products of large matrices (Toledo,
/// "Locality of Reference in LU Decomposition with Partial Pivoting", 1997).
fn factor_columns<T: Number>(
    matrix: &mut Rows<'_, T>,
    range: Range<usize>,
    pivots: &mut [i32],
    info: &mut i32,
) -> Result<()> {
    if range.len() <= PANEL {
        let zero = factor_few(matrix, range, pivots)?;
        *info = if *info == 0 { zero } else { *info };
        return Ok(());
    }
    let rows = matrix.shape[0] - range.start;
    alone_where_small([rows, range.len()], || factor_halves(matrix, range, pivots, info))
}

/// [`factor_columns`] of more than a panel has.
fn factor_halves<T: Number>(
    matrix: &mut Rows<'_, T>,
    range: Range<usize>,
    pivots: &mut [i32],
    info: &mut i32,
) -> Result<()> {
    let middle = range.start + (range.len() / 2).next_multiple_of(PANEL);
    factor_columns(matrix, range.start..middle, pivots, info)?;
    take_out(matrix.matrix()?, range.start..middle, range.end)?;
    factor_columns(matrix, middle..range.end, pivots, info)
}

/// Factors at most [`PANEL`] columns in a place of their own, and exchanges the rows of the others. Gives
/// their first zero as [`factor`] does.
fn factor_few<T: Number>(
    matrix: &mut Rows<'_, T>,
    range: Range<usize>,
    pivots: &mut [i32],
) -> Result<i32> {
    let ([rows, cols], stride, start) = (matrix.shape, matrix.stride, range.start);
    let room = std::mem::take(&mut matrix.room);
    let mut panel = Panel::of(room, [rows - start, range.len()]);
    panel.fill(matrix.part(range.clone())?.read())?;
    let zero = panel.factor(start, &mut pivots[range.clone()]);
    for row in range.clone() {
        exchange(matrix.data, stride, cols, [row, pivots[row] as usize - 1]);
    }
    matrix.part(range)?.copy_of(panel.matrix()?.read())?;
    matrix.room = room;
    Ok(zero)
}

/// Solves for the rows that are done with the columns on their left, up to the column `end`, and
/// subtracts what the others have of them.
fn take_out<T: Number>(matrix: MatMut<'_, T>, done: Range<usize>, end: usize) -> Result<()> {
    let [above, below] = matrix.split_rows(done.end);
    let [_, above] = above.split_rows(done.start);
    let [left, right] = above.split_columns(done.end);
    let [_, factors] = left.split_columns(done.start);
    let [mut solved, _] = right.split_columns(end - done.end);
    let triangle =
        Triangle { factors: factors.read(), upper: false, unit: true, conjugated: false };
    let width = part_width(end - done.end, triangle.work());
    for_each_part(solved.reborrow(), width, |_, part| triangle.solve(part))?;
    let [left, right] = below.split_columns(done.end);
    let [_, factors] = left.split_columns(done.start);
    let [rest, _] = right.split_columns(end - done.end);
    gemm(rest, factors.read(), solved.read(), SUBTRACT)
}

/// Columns side by side on their own, which are factored one by one.
struct Panel<'a, T> {
    /// The columns, each filled up to `height`, so that vectors are whole.
    columns: &'a mut [T],
    /// What the columns have above and on the diagonal. Until all are done they have zeros there:
    /// multiples are subtracted from whole vectors, and change no row that is done.
    upper: &'a mut [T],
    rows: usize,
    height: usize,
    width: usize,
}

/// Numbers that a panel takes.
fn room_of([rows, width]: [usize; 2]) -> usize {
    (rows + LANES + width) * width + LINE
}

impl<'a, T: Number> Panel<'a, T> {
    /// A panel in a place of [`room_of`] its shape, whatever that holds.
    fn of(room: &'a mut [T], [rows, width]: [usize; 2]) -> Self {
        let height = rows.next_multiple_of(LANES);
        let (columns, upper) = on_lines(room).split_at_mut(height * width);
        Self { columns, upper: &mut upper[..width * width], rows, height, width }
    }

    fn matrix(&mut self) -> Result<MatMut<'_, T>> {
        MatMut::strided(self.columns, [self.rows, self.width], [1, self.height])
    }

    /// Takes the values of a matrix.
    fn fill(&mut self, source: Mat<'_, T>) -> Result<()> {
        self.matrix()?.t().copy_of(source.t())?;
        for column in self.columns.chunks_exact_mut(self.height) {
            column[self.rows..].fill(T::zero());
        }
        Ok(())
    }

    fn columns(&self) -> impl Iterator<Item = &[T]> {
        self.columns.chunks_exact(self.height)
    }

    /// Gives the first column whose pivot is zero, counted from 1, or 0. Rows and columns are counted
    /// from `start` on.
    fn factor(&mut self, start: usize, pivots: &mut [i32]) -> i32 {
        f32::run(Factoring { panel: self, start, pivots })
    }

    /// A step of elimination where all of a column is short. Gives the pivot's row.
    #[inline(always)]
    fn step(&mut self, j: usize) -> usize {
        let Self { rows, height, .. } = *self;
        let column = &self.columns[j * height..][..rows];
        let (mut found, mut most) = (j, column[j].size());
        for (row, value) in column.iter().enumerate().skip(j + 1) {
            if value.size() > most {
                (found, most) = (row, value.size());
            }
        }
        if found != j {
            self.columns.chunks_exact_mut(height).for_each(|column| column.swap(j, found));
        }
        let (before, after) = self.columns.split_at_mut((j + 1) * height);
        let column = &mut before[j * height..][..rows];
        let pivot = column[j];
        if pivot != T::zero() {
            column[j + 1..].iter_mut().for_each(|x| *x = x.over(pivot));
        }
        for other in after.chunks_exact_mut(height) {
            let factor = other[j];
            for (x, &below) in other[j + 1..].iter_mut().zip(&column[j + 1..]) {
                *x = *x - below * factor;
            }
        }
        found
    }

    /// Subtracts from a column what it has of the earlier ones. Nothing is written between vectors: to
    /// read a vector over a number that was just written takes long.
    #[inline(always)]
    fn take_earlier(&mut self, j: usize) {
        let Self { height, width, .. } = *self;
        let (before, rest) = self.columns.split_at_mut(j * height);
        let (column, upper) = (&mut rest[..height], &mut self.upper[j * width..][..width]);
        for first in (0..j).step_by(AT_ONCE) {
            let count = AT_ONCE.min(j - first);
            let mut known = [T::zero(); AT_ONCE];
            for k in 0..count {
                let mut value = column[first + k];
                for (step, &factor) in known[..k].iter().enumerate() {
                    value = value - before[(first + step) * height + first + k] * factor;
                }
                known[k] = value;
            }
            upper[first..][..count].copy_from_slice(&known[..count]);
            let top = first / LANES * LANES;
            let earlier = |k: usize| &before[(first + k) * height + top..(first + k + 1) * height];
            subtract_multiples(&mut column[top..], earlier, &known[..count]);
        }
    }

    /// Divides a column by its pivot, unless that is zero, and exchanges the pivot's row. Gives whether
    /// it is not zero.
    #[inline(always)]
    fn divide(&mut self, j: usize, found: usize) -> bool {
        let column = &mut self.columns[j * self.height..][..self.height];
        let pivot = column[found];
        self.upper[j * self.width + j] = pivot;
        if pivot != T::zero() {
            column[j / LANES * LANES..].iter_mut().for_each(|x| *x = x.over(pivot));
        }
        if found != j {
            self.columns.chunks_exact_mut(self.height).for_each(|column| column.swap(j, found));
        }
        self.columns[j * self.height..][..=j].fill(T::zero());
        pivot != T::zero()
    }
}

struct Factoring<'p, 'a, T> {
    panel: &'p mut Panel<'a, T>,
    start: usize,
    pivots: &'p mut [i32],
}

impl<T: Number> RowKernel<f32> for Factoring<'_, '_, T> {
    type Out = i32;

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> i32 {
        let Self { panel, start, pivots } = self;
        let (height, width) = (panel.height, panel.width);
        let mut zero = 0;
        if panel.rows <= SHORT {
            for (j, pivot) in pivots.iter_mut().enumerate().take(width) {
                let found = panel.step(j);
                *pivot = (start + found) as i32 + 1;
                if panel.columns[j * height + j] == T::zero() && zero == 0 {
                    zero = (start + j) as i32 + 1;
                }
            }
            return zero;
        }
        for (j, pivot) in pivots.iter_mut().enumerate().take(width) {
            panel.take_earlier(j);
            let found = largest(&panel.columns[j * height..][..height], j);
            *pivot = (start + found) as i32 + 1;
            if !panel.divide(j, found) && zero == 0 {
                zero = (start + j) as i32 + 1;
            }
        }
        let columns = panel.columns.chunks_exact_mut(height).zip(panel.upper.chunks_exact(width));
        for (j, (column, upper)) in columns.enumerate() {
            column[..=j].copy_from_slice(&upper[..=j]);
        }
        zero
    }
}

/// The place of the largest number from `first` on, the first of them; `first` where there is no number.
#[inline(always)]
fn largest<T: Number>(column: &[T], first: usize) -> usize {
    let top = first / LANES * LANES;
    let size = column[first].size();
    let mut most = [size; LANES];
    let (head, rest) = column[top..].split_at(LANES);
    for (lane, (most, value)) in most.iter_mut().zip(head).enumerate() {
        let more = (value.size() > *most) & (top + lane > first);
        *most = if more { value.size() } else { *most };
    }
    for chunk in rest.chunks_exact(LANES) {
        for (most, value) in most.iter_mut().zip(chunk) {
            *most = if value.size() > *most { value.size() } else { *most };
        }
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            let (size, other) = (most[lane], most[lane + half]);
            most[lane] = if other > size { other } else { size };
        }
    }
    let largest = most[0];
    if largest > size { place_of(largest, column, first + 1) } else { first }
}

/// The first place from `start` on that has a number of this size; there must be one.
#[inline(always)]
fn place_of<T: Number>(size: T::Real, column: &[T], start: usize) -> usize {
    let mut top = start / LANES * LANES;
    for chunk in column[top..].chunks_exact(LANES) {
        let mut found = false;
        for (lane, value) in chunk.iter().enumerate() {
            found |= (value.size() == size) & (top + lane >= start);
        }
        if found {
            break;
        }
        top += LANES;
    }
    let mut place = top.max(start);
    while place + 1 < column.len() && column[place].size() != size {
        place += 1;
    }
    place
}

/// Exchanges two rows of so many numbers, which lie `stride` apart.
fn exchange<T>(rows: &mut [T], stride: usize, width: usize, [first, second]: [usize; 2]) {
    let (low, high) = (first.min(second), first.max(second));
    if low < high {
        let (before, after) = rows.split_at_mut(high * stride);
        before[low * stride..][..width].swap_with_slice(&mut after[..width]);
    }
}

/// Exchanges rows of so many numbers by their pivots.
pub(super) fn exchange_rows<T>(rows: &mut [T], width: usize, pivots: &[i32]) {
    for (row, &pivot) in pivots.iter().enumerate() {
        exchange(rows, width, width, [row, pivot as usize - 1]);
    }
}

/// Undoes [`exchange_rows`].
pub(super) fn exchange_rows_back<T>(rows: &mut [T], width: usize, pivots: &[i32]) {
    for (row, &pivot) in pivots.iter().enumerate().rev() {
        exchange(rows, width, width, [row, pivot as usize - 1]);
    }
}

#[cfg(test)]
mod tests;
