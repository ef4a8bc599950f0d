//! Triangular systems, in halves whose common part is a matrix product: LAPACK's `trtrs`, BLAS's `trsm` and
//! `trsv`, after E. Elmroth, F. Gustavson, I. Jonsson and B. Kågström, "Recursive blocked algorithms and hybrid
//! data structures for dense matrix library software", 2004.
//!
//! Right-hand sides are rows of numbers side by side: vectors lie along rows, and products read them in place.

use crate::blas::{
    AT_ONCE, Blas, Kernel, Operand, Product, for_each_part, for_each_part_of_columns, in_columns,
    in_columns_mut, in_rows_mut, subtract_multiples, vectorised,
};
use crate::number::Number;
use faer::{MatMut, MatRef};
use num_complex::ComplexFloat;
use std::ops::Range;

/// Rows that are solved for by substitution; the rest is matrix products.
const BLOCK: usize = 16;

/// Bytes of a row that are solved for at a time: with those of a block they fit a first-level cache.
const CHUNK: usize = 2 << 10;

/// Right-hand sides that are solved for one after the other, in columns.
const VECTORS: usize = 4;

/// A triangular matrix.
#[derive(Clone, Copy)]
pub(crate) struct Triangle<'a, T> {
    /// The matrix that holds it; the other triangle of that is not read.
    pub factors: MatRef<'a, T>,
    pub upper: bool,
    /// Whether its diagonal is taken as ones.
    pub unit: bool,
    pub conjugated: bool,
}

impl<'a, T: Number> Triangle<'a, T> {
    fn at(&self, row: usize, col: usize) -> T {
        let value = self.factors[(row, col)];
        if self.conjugated { ComplexFloat::conj(value) } else { value }
    }

    fn block(&self, rows: Range<usize>, cols: Range<usize>) -> Operand<'a, T> {
        let matrix = self.factors.submatrix(rows.start, cols.start, rows.len(), cols.len());
        Operand { matrix, conjugated: self.conjugated }
    }

    /// The part that some rows and the columns of the same numbers have.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        Self { factors: self.block(range.clone(), range).matrix, ..*self }
    }

    pub(crate) fn size(&self) -> usize {
        self.factors.nrows()
    }

    /// Multiplications for every column that is solved for.
    pub(crate) fn work(&self) -> usize {
        self.size() * self.size() / 2
    }

    /// Replaces a matrix, whose rows are rows of numbers side by side, by the solution.
    pub(crate) fn solve(&self, blas: &dyn Blas<T>, x: MatMut<'_, T>) {
        let (n, cols) = x.shape();
        if n == 0 || cols == 0 {
            return;
        }
        if n <= BLOCK {
            return self.substitute(x);
        }
        let half = (n / 2).next_multiple_of(BLOCK);
        let (first, last) = (0..half, half..n);
        let (mut top, mut bottom) = x.split_at_row_mut(half);
        if self.upper {
            self.part(last.clone()).solve(blas, bottom.as_mut());
            let factors = self.block(first.clone(), last);
            blas.gemm(top.as_mut(), factors, bottom.as_ref().into(), Product::SubtractPart);
            self.part(first).solve(blas, top);
        } else {
            self.part(first.clone()).solve(blas, top.as_mut());
            let factors = self.block(last.clone(), first);
            blas.gemm(bottom.as_mut(), factors, top.as_ref().into(), Product::SubtractPart);
            self.part(last).solve(blas, bottom);
        }
    }

    /// Solves for at most [`BLOCK`] rows.
    fn substitute(&self, x: MatMut<'_, T>) {
        let n = self.size();
        let mut factors = [T::zero(); BLOCK * BLOCK];
        for (row, values) in factors.chunks_exact_mut(BLOCK).enumerate().take(n) {
            let known = if self.upper { row..n } else { 0..row + 1 };
            known.for_each(|col| values[col] = self.at(row, col));
        }
        let mut rows: [&mut [T]; BLOCK] = Default::default();
        for (slot, row) in rows.iter_mut().zip(x.row_iter_mut()) {
            *slot = row.try_as_row_major_mut().map_or(&mut [], |row| row.as_slice_mut());
        }
        let (upper, unit) = (self.upper, self.unit);
        vectorised(Substitution { factors: &factors, rows: &mut rows[..n], upper, unit });
    }

    /// Whether columns can be solved for as they are, by [`Self::solve_columns`].
    pub(crate) fn takes_columns(&self, count: usize) -> bool {
        count <= VECTORS && !self.conjugated && self.factors.row_stride() == 1
    }

    /// Replaces columns, each as long as the matrix, by the solution. See [`Self::takes_columns`].
    pub(crate) fn solve_columns(&self, columns: &mut [T]) {
        let Some(factors) = self.factors.try_as_col_major() else { return };
        for x in columns.chunks_exact_mut(self.size()) {
            let column = |col: usize| factors.col(col).as_slice();
            vectorised(Column { factors: column, x, upper: self.upper, unit: self.unit });
        }
    }
}

/// Solves for rows, given the triangle's, which are [`BLOCK`] apart.
struct Substitution<'a, 'b, T> {
    factors: &'a [T],
    rows: &'a mut [&'b mut [T]],
    upper: bool,
    unit: bool,
}

impl<T: Number> Kernel for Substitution<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Self { factors, rows, upper, unit } = self;
        let (n, length, chunk) = (rows.len(), rows[0].len(), (CHUNK / size_of::<T>()).max(1));
        for start in (0..length).step_by(chunk) {
            let part = start..(start + chunk).min(length);
            for step in 0..n {
                let i = if upper { n - 1 - step } else { step };
                let own = &factors[i * BLOCK..][..n];
                let (before, rest) = rows.split_at_mut(i);
                let Some((row, after)) = rest.split_first_mut() else { return };
                let row = &mut row[part.clone()];
                let (solved, factors) =
                    if upper { (&*after, &own[i + 1..]) } else { (&*before, &own[..i]) };
                for (rows, factors) in solved.chunks(AT_ONCE).zip(factors.chunks(AT_ONCE)) {
                    subtract_multiples(row, |k| &rows[k][part.clone()], factors);
                }
                if !unit {
                    row.iter_mut().for_each(|x| *x = x.over(own[i]));
                }
            }
        }
    }
}

/// Solves for a column, given those of the triangle.
struct Column<'a, T, F> {
    factors: F,
    x: &'a mut [T],
    upper: bool,
    unit: bool,
}

impl<'f, T: Number, F: Fn(usize) -> &'f [T]> Kernel for Column<'_, T, F> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Self { factors, x, upper, unit } = self;
        let n = x.len();
        let mut done = 0;
        while done < n {
            let count = AT_ONCE.min(n - done);
            let group = if upper { n - done - count..n - done } else { done..done + count };
            let mut known = [T::zero(); AT_ONCE];
            for step in 0..count {
                let j = if upper { group.end - 1 - step } else { group.start + step };
                let column = factors(j);
                if !unit {
                    x[j] = x[j].over(column[j]);
                }
                known[j - group.start] = x[j];
                for i in if upper { group.start..j } else { j + 1..group.end } {
                    x[i] = x[i] - column[i] * x[j];
                }
            }
            let rest = if upper { 0..group.start } else { group.end..n };
            let column = |k: usize| &factors(group.start + k)[rest.clone()];
            subtract_multiples(&mut x[rest.clone()], column, &known[..count]);
            done += count;
        }
    }
}

/// Calls `body` with columns of `height` numbers transposed, so that numbers of a row are side by side, and
/// brings back what becomes of them.
pub(crate) fn with_rows<T: Number>(
    blas: &dyn Blas<T>,
    columns: &mut [T],
    height: usize,
    mut body: impl FnMut(&mut [T], usize),
) {
    let width = columns.len() / height;
    blas.with_buffer(columns.len(), &mut |rows| {
        let shape = [height, width];
        blas.copy(in_rows_mut(rows, shape, width), in_columns(columns, shape, height));
        body(rows, width);
        let rows = crate::blas::in_rows(rows, shape, width);
        blas.copy(in_columns_mut(columns, shape, height), rows);
    });
}

/// `trtrs` of right-hand sides in columns.
pub(crate) fn trtrs_columns<T: Number>(
    blas: &dyn Blas<T>,
    triangle: &Triangle<'_, T>,
    x: &mut [T],
) {
    let size = triangle.size();
    let width = blas.part_width(x.len() / size, triangle.work());
    for_each_part_of_columns(blas, x, size, width, |x| {
        if triangle.takes_columns(x.len() / size) {
            return triangle.solve_columns(x);
        }
        with_rows(blas, x, size, |x, width| {
            triangle.solve(blas, in_rows_mut(x, [size, width], width));
        });
    });
}

/// `trtrs` of right-hand sides in so many columns, of which the rows lie one behind the other.
pub(crate) fn trtrs_rows<T: Number>(
    blas: &dyn Blas<T>,
    triangle: &Triangle<'_, T>,
    x: &mut [T],
    cols: usize,
) {
    if cols == 1 && triangle.takes_columns(1) {
        return triangle.solve_columns(x);
    }
    let x = in_rows_mut(x, [triangle.size(), cols], cols);
    let width = blas.part_width(cols, triangle.work());
    for_each_part(blas, x, width, |_, part| triangle.solve(blas, part));
}
