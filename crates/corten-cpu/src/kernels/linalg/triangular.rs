//! Triangular systems.

use super::matrices::{
    Number, by_columns, each, fitted, in_columns, match_number, over_columns, reading_columns,
    shape,
};
use crate::gemm::{Factors, Mat, MatMut, gemm};
use crate::row_loops::compiled;
use corten_core::{Result, Scalar};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use std::ops::Range;

/// Rows that are solved for by substitution; the rest is matrix products.
const BLOCK: usize = 32;
/// Columns that are solved for side by side.
const SIDE: usize = 32;

/// `c -= a b`.
pub(super) const SUBTRACT: Factors = Factors { alpha: Scalar::Int(-1), beta: Scalar::Int(1) };

/// A triangular matrix in columns of `stride` numbers, possibly seen transposed and conjugated.
#[derive(Clone, Copy)]
pub(super) struct Triangle<'a, T> {
    pub(super) data: &'a [T],
    pub(super) size: usize,
    pub(super) stride: usize,
    /// Whether it is the upper triangle of `data`.
    pub(super) upper: bool,
    pub(super) unit: bool,
    pub(super) transposed: bool,
    pub(super) conjugated: bool,
}

impl<T: Number> Triangle<'_, T> {
    fn at(&self, row: usize, col: usize) -> T {
        let (row, col) = if self.transposed { (col, row) } else { (row, col) };
        let value = self.data[col * self.stride + row];
        if self.conjugated { num_complex::ComplexFloat::conj(value) } else { value }
    }

    fn block(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Mat<'_, T>> {
        let (first, second) = if self.transposed { (cols, rows) } else { (rows, cols) };
        let start = second.start * self.stride + first.start;
        let data = self.data.get(start..).unwrap_or_default();
        let found = Mat::strided(data, [first.len(), second.len()], [1, self.stride])?;
        let found = if self.transposed { found.t() } else { found };
        Ok(if self.conjugated { found.conj() } else { found })
    }

    /// Multiplications for every column that is solved for.
    pub(super) fn work(&self) -> usize {
        self.size * self.size / 2
    }

    /// Replaces every column of `b`, at distances of `stride`, by the solution.
    pub(super) fn solve(&self, b: &mut [T], cols: usize, stride: usize) -> Result<()> {
        if self.size == 0 || cols == 0 {
            return Ok(());
        }
        self.solve_rows(0..self.size, b, cols, stride)
    }

    /// Solves for some rows, given that the others have no part in them any more: for one half,
    /// whose part in the other half is a matrix product, then for the other half.
    fn solve_rows(
        &self,
        rows: Range<usize>,
        b: &mut [T],
        cols: usize,
        stride: usize,
    ) -> Result<()> {
        let backward = self.upper != self.transposed;
        if rows.len() <= BLOCK {
            compiled(|| self.solve_block(rows, backward, b, cols, stride));
            return Ok(());
        }
        let middle = rows.start + rows.len().div_ceil(2).next_multiple_of(BLOCK);
        let (mut first, mut second) = (rows.start..middle, middle..rows.end);
        if backward {
            std::mem::swap(&mut first, &mut second);
        }
        self.solve_rows(first.clone(), b, cols, stride)?;
        let mut solved = Vec::with_capacity(first.len() * cols);
        for col in 0..cols {
            solved.extend_from_slice(&b[col * stride..][first.clone()]);
        }
        let solved = Mat::strided(&solved, [first.len(), cols], [1, first.len()])?;
        let shape = [second.len(), cols];
        let target = MatMut::strided(&mut b[second.start..], shape, [1, stride])?;
        gemm(target, self.block(second.clone(), first)?, solved, SUBTRACT)?;
        self.solve_rows(second, b, cols, stride)
    }

    /// Solves for a few rows by substitution, for several columns side by side.
    #[inline(always)]
    fn solve_block(
        &self,
        rows: Range<usize>,
        backward: bool,
        b: &mut [T],
        cols: usize,
        stride: usize,
    ) {
        let width = rows.len();
        let mut own = [T::zero(); BLOCK * BLOCK];
        for (col, values) in rows.clone().zip(own.chunks_exact_mut(width)) {
            for (row, value) in rows.clone().zip(values) {
                *value = self.at(row, col);
            }
        }
        let mut tile = [[T::zero(); SIDE]; BLOCK];
        for first in (0..cols).step_by(SIDE) {
            let count = SIDE.min(cols - first);
            for col in 0..count {
                let column = &b[(first + col) * stride..][rows.clone()];
                column.iter().zip(&mut tile).for_each(|(&value, row)| row[col] = value);
            }
            for step in 0..width {
                let j = if backward { width - 1 - step } else { step };
                let factors = &own[j * width..][..width];
                if !self.unit {
                    tile[j].iter_mut().for_each(|x| *x = *x / factors[j]);
                }
                let known = tile[j];
                let rest = if backward { 0..j } else { j + 1..width };
                for (row, &factor) in tile[rest.clone()].iter_mut().zip(&factors[rest]) {
                    row.iter_mut().zip(&known).for_each(|(x, &value)| *x = *x - factor * value);
                }
            }
            for col in 0..count {
                let column = &mut b[(first + col) * stride..][rows.clone()];
                column.iter_mut().zip(&tile).for_each(|(value, row)| *value = row[col]);
            }
        }
    }
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
    // `X A = B` is solved as `Aᵀ Xᵀ = Bᵀ`.
    let work = if left { out.clone() } else { by_columns(&op::transpose_int(&out, -2, -1)?)? };
    let sizes = out.sizes();
    let a = in_columns(&fitted(self_, &sizes[..sizes.len() - 2])?)?;
    let [size, _] = shape(&a)?;
    let cols = shape(&work)?[1];
    match_number!(out.dtype(), "triangular_solve_cpu", T => {
        reading_columns::<T, _>(&a, |matrices| {
            each::<T>(&work, |i, x| {
                let triangle = Triangle {
                    data: matrices.get(i),
                    size,
                    stride: size,
                    upper,
                    unit: unitriangular,
                    transposed: !left,
                    conjugated: false,
                };
                over_columns([(x, size)], cols, triangle.work(), |columns, [x]| {
                    triangle.solve(x, columns.len(), size)
                })
            })
        })
    })?;
    if left { Ok(out) } else { op::copy_(&out, &op::transpose_int(&work, -2, -1)?, false) }
}
