//! Triangular systems.

use super::matrices::{
    Number, each, fitted, in_columns, over_columns, part_width, reading_columns, shape,
};
use super::multiples::{AT_ONCE, subtract_multiples};
use crate::gemm::{Factors, Mat, MatMut, Plan, for_each_part, gemm, gemm_in};
use crate::parallel::scratch::with_buffer;
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use corten_core::{Result, Scalar, match_dtype};
use corten_gemm::MAX_SKINNY;
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use num_complex::ComplexFloat;
use std::ops::Range;

/// Rows that are solved for by substitution; the rest is matrix products.
const BLOCK: usize = 16;

/// Bytes of a row that are solved for at a time: with those of a block they fit a first-level cache.
const CHUNK: usize = 2 << 10;

/// Right-hand sides that are solved for one after the other, as they lie.
const VECTORS: usize = 4;

/// `c -= a b`.
pub(super) const SUBTRACT: Factors = Factors { alpha: Scalar::Int(-1), beta: Scalar::Int(1) };

/// A triangular matrix.
#[derive(Clone, Copy)]
pub(super) struct Triangle<'a, T> {
    /// The matrix that holds it, what else that holds is not looked at.
    pub(super) factors: Mat<'a, T>,
    pub(super) upper: bool,
    pub(super) unit: bool,
    pub(super) conjugated: bool,
}

impl<'a, T: Number> Triangle<'a, T> {
    fn at(&self, row: usize, col: usize) -> T {
        let value = self.factors.get(row, col);
        if self.conjugated { ComplexFloat::conj(value) } else { value }
    }

    fn block(&self, rows: Range<usize>, cols: Range<usize>) -> Mat<'a, T> {
        let found = self.factors.rows(rows).cols(cols);
        if self.conjugated { found.conj() } else { found }
    }

    /// The part that some rows and the columns of the same numbers have.
    pub(super) fn part(&self, range: Range<usize>) -> Self {
        Self { factors: self.factors.rows(range.clone()).cols(range), ..*self }
    }

    fn size(&self) -> usize {
        self.factors.shape()[0]
    }

    /// Multiplications for every column that is solved for.
    pub(super) fn work(&self) -> usize {
        self.size() * self.size() / 2
    }

    /// Replaces a matrix, whose rows are rows of numbers side by side, by the solution: for one half
    /// of the rows, whose part in the other half is a matrix product, then for the other half.
    pub(super) fn solve(&self, x: MatMut<'_, T>) -> Result<()> {
        let [n, cols] = x.shape();
        if n == 0 || cols == 0 {
            return Ok(());
        }
        if n <= BLOCK {
            return self.substitute(x);
        }
        let half = (n / 2).next_multiple_of(BLOCK);
        let (first, last) = (0..half, half..n);
        let [mut top, mut bottom] = x.split_rows(half);
        // Many columns may be a part of more, which may not be told from results.
        let take_out = |from: MatMut<'_, T>, factors: Mat<'_, T>, solved: Mat<'_, T>| match cols
            > MAX_SKINNY
        {
            true => gemm_in(Plan::BLOCKED, from, factors, solved, SUBTRACT),
            false => gemm(from, factors, solved, SUBTRACT),
        };
        if self.upper {
            self.part(last.clone()).solve(bottom.reborrow())?;
            take_out(top.reborrow(), self.block(first.clone(), last), bottom.read())?;
            self.part(first).solve(top)
        } else {
            self.part(first.clone()).solve(top.reborrow())?;
            take_out(bottom.reborrow(), self.block(last.clone(), first), top.read())?;
            self.part(last).solve(bottom)
        }
    }

    /// Solves for at most [`BLOCK`] rows.
    fn substitute(&self, x: MatMut<'_, T>) -> Result<()> {
        let n = self.size();
        let mut factors = [T::zero(); BLOCK * BLOCK];
        for (row, values) in factors.chunks_exact_mut(BLOCK).enumerate().take(n) {
            let known = if self.upper { row..n } else { 0..row + 1 };
            known.for_each(|col| values[col] = self.at(row, col));
        }
        let mut rows: [&mut [T]; BLOCK] = Default::default();
        let mut rest = x;
        for slot in rows.iter_mut().take(n) {
            let [row, others] = rest.split_rows(1);
            (*slot, rest) = (row.into_elements()?, others);
        }
        let (upper, unit) = (self.upper, self.unit);
        f32::run(Substitution { factors: &factors, rows: &mut rows[..n], upper, unit });
        Ok(())
    }

    /// Whether columns can be solved for as they lie, by [`Self::solve_columns`].
    pub(super) fn takes_columns(&self, count: usize) -> bool {
        count <= VECTORS && !self.conjugated && self.factors.t().row_slice(0).is_some()
    }

    /// Replaces columns, each as long as the matrix, by the solution. See [`Self::takes_columns`].
    pub(super) fn solve_columns(&self, columns: &mut [T]) {
        let (n, by_columns) = (self.size(), self.factors.t());
        let factors = |col: usize| by_columns.row_slice(col).unwrap_or_default();
        for x in columns.chunks_exact_mut(n) {
            f32::run(Column { factors, x, upper: self.upper, unit: self.unit });
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

impl<T: Number> RowKernel<f32> for Substitution<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
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

impl<'f, T: Number, F: Fn(usize) -> &'f [T]> RowKernel<f32> for Column<'_, T, F> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
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

/// Calls `body` with columns of `height` numbers turned, so that numbers of a row lie side by side, and
/// brings back what becomes of them.
///
/// # Errors
/// Those of `body`.
pub(super) fn turned<T: Number>(
    columns: &mut [T],
    height: usize,
    body: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<()> {
    let width = columns.len() / height;
    with_buffer(columns.len(), |rows| {
        let as_rows = Mat::row_major(columns, width, height)?.t();
        MatMut::row_major(rows, height, width)?.copy_of(as_rows)?;
        body(rows)?;
        let as_columns = Mat::row_major(rows, height, width)?.t();
        MatMut::row_major(columns, width, height)?.copy_of(as_columns)
    })
}

/// `A X = B` for a triangular `A`, or `X A = B`.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for other numbers than floats and complex ones.
pub fn linalg_solve_triangular(
    self_: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    let out = shapes::linalg_solve_triangular(self_, b, upper, left, unitriangular)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    op::copy_(&out, b, false)?;
    let sizes = out.sizes();
    let a = fitted(self_, &sizes[..sizes.len() - 2])?;
    let by_rows = a.is_contiguous() && !a.is_conj();
    let a = if by_rows { op::transpose_int(&a, -2, -1)? } else { in_columns(&a)? };
    let [size, _] = shape(&a)?;
    let [rows, cols] = shape(&out)?;
    match_dtype!(out.dtype(), "triangular_solve_cpu", Blas, T => {
        reading_columns::<T, _>(&a, |matrices| {
            each::<T>(&out, |i, x| {
                let factors = Mat::strided(matrices.get(i), [size, size], [1, size])?;
                // `X A = B` is solved as `Aᵀ Xᵀ = Bᵀ`.
                let factors = if by_rows == left { factors.t() } else { factors };
                let (upper, unit) = (upper == left, unitriangular);
                let triangle = Triangle { factors, upper, unit, conjugated: false };
                if left { by_columns(&triangle, x, cols) } else { in_place(&triangle, x, rows) }
            })
        })
    })?;
    Ok(out)
}

/// Replaces columns by the solution.
fn by_columns<T: Number>(triangle: &Triangle<'_, T>, x: &mut [T], cols: usize) -> Result<()> {
    let size = triangle.size();
    over_columns([(x, size)], cols, triangle.work(), |columns, [x]| {
        if triangle.takes_columns(columns.len()) {
            triangle.solve_columns(x);
            return Ok(());
        }
        turned(x, size, |x| triangle.solve(MatMut::row_major(x, size, columns.len())?))
    })
}

/// Replaces a matrix by rows, which is one of other columns turned, by the solution.
fn in_place<T: Number>(triangle: &Triangle<'_, T>, x: &mut [T], cols: usize) -> Result<()> {
    if cols == 1 && triangle.takes_columns(1) {
        triangle.solve_columns(x);
        return Ok(());
    }
    let x = MatMut::row_major(x, triangle.size(), cols)?;
    for_each_part(x, part_width(cols, triangle.work()), |_, part| triangle.solve(part))
}
