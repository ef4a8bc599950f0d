//! LU factorisation with partial pivoting: LAPACK's `getrf`, in halves of columns as in S. Toledo, "Locality of
//! reference in LU decomposition with partial pivoting", 1997; `getrs`, which solves systems with the factors,
//! and `laswp`, which exchanges rows.
//!
//! Matrices are eliminated by rows: there vectors are rows, whole ones are exchanged, and products read them in
//! place. Only the panel of columns that is factored unblocked is kept column-major meanwhile.

use crate::blas::{
    AT_ONCE, Blas, Kernel, Product, for_each_part, for_each_part_of_columns, in_columns,
    in_columns_mut, in_rows, in_rows_mut, subtract_multiples, vectorised,
};
use crate::number::Number;
use crate::trtrs::{Triangle, with_rows};
use faer::{MatMut, MatRef};
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

/// A matrix by rows, which are `stride` apart.
pub(crate) struct Rows<'a, T> {
    pub data: &'a mut [T],
    /// Where panels are factored.
    room: &'a mut [T],
    pub shape: [usize; 2],
    pub stride: usize,
}

impl<T: Number> Rows<'_, T> {
    pub(crate) fn matrix(&mut self) -> MatMut<'_, T> {
        in_rows_mut(self.data, self.shape, self.stride)
    }

    /// Some columns, from the row on that the first one has on the diagonal.
    fn part(&mut self, columns: Range<usize>) -> MatMut<'_, T> {
        let rows = self.shape[0] - columns.start;
        self.matrix().submatrix_mut(columns.start, columns.start, rows, columns.len())
    }
}

/// `getrf`: factors a matrix, given by rows, to one by columns. Gives the first zero of the diagonal of `U`,
/// counted from 1, or 0.
pub(crate) fn getrf<T: Number>(
    blas: &dyn Blas<T>,
    source: &[T],
    shape: [usize; 2],
    out: &mut [T],
    pivots: &mut [i32],
) -> i32 {
    let [rows, cols] = shape;
    let mut info = 0;
    if rows >= cols && cols <= PANEL {
        blas.with_buffer(room_of(shape), &mut |room| {
            let mut panel = Panel::of(room, shape);
            panel.fill(blas, in_rows(source, shape, cols));
            info = panel.factor(0, pivots);
            for (to, from) in out.chunks_exact_mut(rows).zip(panel.columns()) {
                to.copy_from_slice(&from[..rows]);
            }
        });
        return info;
    }
    alone_where_small(blas, shape, || {
        with_copy(blas, source, shape, |mut matrix| {
            info = factor(blas, &mut matrix, pivots);
            let (width, factors) = (blas.part_width(cols, rows), matrix.matrix());
            for_each_part(blas, in_columns_mut(out, shape, rows), width, |columns, part| {
                blas.copy(part, factors.as_ref().subcols(columns.start, columns.len()));
            });
        });
    });
    info
}

/// Runs what eliminates a matrix of this shape, on the calling thread alone if it is small.
fn alone_where_small<T>(blas: &dyn Blas<T>, [rows, cols]: [usize; 2], mut body: impl FnMut()) {
    let work = rows.saturating_mul(cols).saturating_mul(rows.min(cols));
    if work <= ALONE { blas.alone(&mut body) } else { body() }
}

/// Calls `body` with a copy of a matrix. Its rows are an odd number of lines apart: they do not get in
/// each other's way in a cache.
pub(crate) fn with_copy<T: Number>(
    blas: &dyn Blas<T>,
    source: &[T],
    shape: [usize; 2],
    mut body: impl FnMut(Rows<'_, T>),
) {
    let ([rows, cols], line) = (shape, LINE / size_of::<T>());
    let stride = (cols.div_ceil(line) | 1) * line;
    let room = room_of([rows, cols.min(PANEL)]);
    blas.with_buffer(rows * stride + line + room, &mut |buffer| {
        let (data, room) = on_lines(buffer).split_at_mut(rows * stride);
        let source = in_rows(source, shape, cols);
        let mut matrix = Rows { data, room, shape, stride };
        let width = blas.part_width(cols, rows);
        for_each_part(blas, matrix.matrix(), width, |columns, part| {
            blas.copy(part, source.subcols(columns.start, columns.len()));
        });
        body(matrix);
    });
}

/// What lies from the first line on.
fn on_lines<T>(buffer: &mut [T]) -> &mut [T] {
    let before = buffer.as_ptr().align_offset(LINE).min(buffer.len());
    &mut buffer[before..]
}

/// Replaces a matrix by its factors. Gives the first zero of the diagonal of `U`, counted from 1, or 0.
pub(crate) fn factor<T: Number>(
    blas: &dyn Blas<T>,
    matrix: &mut Rows<'_, T>,
    pivots: &mut [i32],
) -> i32 {
    let [rows, cols] = matrix.shape;
    let steps = rows.min(cols);
    let mut info = 0;
    factor_columns(blas, matrix, 0..steps, pivots, &mut info);
    if cols > steps {
        take_out(blas, matrix.matrix(), 0..steps, cols);
    }
    info
}

/// Factors some columns, whose rows above them are done: the left half, then the right half, from
/// which the left one has been taken out. So most of the work is products of large matrices.
fn factor_columns<T: Number>(
    blas: &dyn Blas<T>,
    matrix: &mut Rows<'_, T>,
    range: Range<usize>,
    pivots: &mut [i32],
    info: &mut i32,
) {
    if range.len() <= PANEL {
        let zero = factor_panel(blas, matrix, range, pivots);
        *info = if *info == 0 { zero } else { *info };
        return;
    }
    let rows = matrix.shape[0] - range.start;
    alone_where_small(blas, [rows, range.len()], || {
        let middle = range.start + (range.len() / 2).next_multiple_of(PANEL);
        factor_columns(blas, matrix, range.start..middle, pivots, info);
        take_out(blas, matrix.matrix(), range.start..middle, range.end);
        factor_columns(blas, matrix, middle..range.end, pivots, info);
    });
}

/// Factors at most [`PANEL`] columns in a place of their own, and exchanges the rows of the others. Gives
/// their first zero as [`factor`] does.
fn factor_panel<T: Number>(
    blas: &dyn Blas<T>,
    matrix: &mut Rows<'_, T>,
    range: Range<usize>,
    pivots: &mut [i32],
) -> i32 {
    let ([rows, cols], stride, start) = (matrix.shape, matrix.stride, range.start);
    let room = std::mem::take(&mut matrix.room);
    let mut panel = Panel::of(room, [rows - start, range.len()]);
    panel.fill(blas, matrix.part(range.clone()).as_ref());
    let zero = panel.factor(start, &mut pivots[range.clone()]);
    for row in range.clone() {
        exchange(matrix.data, stride, cols, [row, pivots[row] as usize - 1]);
    }
    blas.copy(matrix.part(range), panel.matrix());
    matrix.room = room;
    zero
}

/// Solves for the rows that are done with the columns on their left, up to the column `end`, and
/// subtracts what the others have of them.
fn take_out<T: Number>(blas: &dyn Blas<T>, matrix: MatMut<'_, T>, done: Range<usize>, end: usize) {
    let (above, below) = matrix.split_at_row_mut(done.end);
    let (left, right) = above.split_at_row_mut(done.start).1.split_at_col_mut(done.end);
    let factors = left.as_ref().subcols(done.start, done.len());
    let mut solved = right.subcols_mut(0, end - done.end);
    let triangle = Triangle { factors, upper: false, unit: true, conjugated: false };
    let width = blas.part_width(end - done.end, triangle.work());
    for_each_part(blas, solved.as_mut(), width, |_, part| triangle.solve(blas, part));
    let (left, right) = below.split_at_col_mut(done.end);
    let factors = left.as_ref().subcols(done.start, done.len());
    let rest = right.subcols_mut(0, end - done.end);
    blas.gemm(rest, factors.into(), solved.as_ref().into(), Product::Subtract);
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

    fn matrix(&self) -> MatRef<'_, T> {
        in_columns(self.columns, [self.rows, self.width], self.height)
    }

    /// Takes the values of a matrix.
    fn fill(&mut self, blas: &dyn Blas<T>, source: MatRef<'_, T>) {
        let Self { rows, width, height, .. } = *self;
        blas.copy(in_columns_mut(self.columns, [rows, width], height), source);
        for column in self.columns.chunks_exact_mut(height) {
            column[rows..].fill(T::zero());
        }
    }

    fn columns(&self) -> impl Iterator<Item = &[T]> {
        self.columns.chunks_exact(self.height)
    }

    /// Gives the first column whose pivot is zero, counted from 1, or 0. Rows and columns are counted
    /// from `start` on.
    fn factor(&mut self, start: usize, pivots: &mut [i32]) -> i32 {
        vectorised(Factoring { panel: self, start, pivots })
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

impl<T: Number> Kernel for Factoring<'_, '_, T> {
    type Out = i32;

    #[inline(always)]
    fn run(self) -> i32 {
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

/// `laswp`: exchanges rows of so many numbers by their pivots.
pub(crate) fn exchange_rows<T>(rows: &mut [T], width: usize, pivots: &[i32]) {
    for (row, &pivot) in pivots.iter().enumerate() {
        exchange(rows, width, width, [row, pivot as usize - 1]);
    }
}

/// Undoes [`exchange_rows`].
pub(crate) fn exchange_rows_back<T>(rows: &mut [T], width: usize, pivots: &[i32]) {
    for (row, &pivot) in pivots.iter().enumerate().rev() {
        exchange(rows, width, width, [row, pivot as usize - 1]);
    }
}

/// `getrs`: replaces columns of `n` numbers by the solution of systems with a matrix, its transpose or its
/// adjoint, given its factors by columns. Pivots are rows, counted from 1.
pub(crate) fn getrs<T: Number>(
    blas: &dyn Blas<T>,
    (factors, pivots): (&[T], &[i32]),
    x: &mut [T],
    transposed: bool,
    conjugated: bool,
) {
    let n = pivots.len();
    let factors = in_columns(factors, [n, n], n);
    let factors = if transposed { factors.transpose() } else { factors };
    let lower = Triangle { factors, upper: transposed, unit: true, conjugated };
    let upper = Triangle { factors, upper: !transposed, unit: false, conjugated };
    let width = blas.part_width(x.len() / n, lower.work() + upper.work());
    for_each_part_of_columns(blas, x, n, width, |x| {
        if !transposed && lower.takes_columns(x.len() / n) {
            x.chunks_exact_mut(n).for_each(|x| exchange_rows(x, 1, pivots));
            lower.solve_columns(x);
            return upper.solve_columns(x);
        }
        with_rows(blas, x, n, |x, width| {
            if !transposed {
                exchange_rows(x, width, pivots);
            }
            let order = if transposed { [&upper, &lower] } else { [&lower, &upper] };
            for triangle in order {
                triangle.solve(blas, in_rows_mut(x, [n, width], width));
            }
            if transposed {
                exchange_rows_back(x, width, pivots);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_are_the_first_of_the_largest() {
        let nan = f64::NAN;
        for (column, first, expected) in [
            (&[1.0, -3.0, 3.0, 2.0][..], 0, 1),
            (&[8.0, -3.0, 3.0, 5.0], 1, 3),
            (&[0.0, 0.0, 0.0], 1, 1),
            (&[0.0, 0.0, 0.0, nan], 2, 2),
            (&[nan, 7.0], 0, 0),
            (&[1.0, nan, -2.0, 2.0], 0, 2),
            (&[nan, nan], 0, 0),
        ] {
            for shift in [0, 1, 15, 16, 31] {
                let mut filled = vec![9.0; shift];
                filled.extend_from_slice(column);
                filled.resize(filled.len().next_multiple_of(LANES), 0.0);
                assert_eq!(
                    largest(&filled, shift + first),
                    shift + expected,
                    "{column:?} at {shift}"
                );
            }
        }
    }

    #[test]
    fn rows_are_exchanged_and_brought_back() {
        let rows: Vec<f32> = (0_u8..12).map(f32::from).collect();
        let (mut exchanged, pivots) = (rows.clone(), [3, 3, 4, 4]);
        exchange_rows(&mut exchanged, 3, &pivots);
        assert_eq!(exchanged[..3], [6.0, 7.0, 8.0]);
        exchange_rows_back(&mut exchanged, 3, &pivots);
        assert_eq!(exchanged, rows);
    }
}
