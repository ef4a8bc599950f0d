//! Triangular systems.

use super::matrices::{
    Number, by_columns, each, fitted, in_columns, match_number, reading_columns, shape,
};
use crate::gemm::{Factors, Mat, MatMut, gemm};
use crate::row_loops::compiled;
use corten_core::{Result, Scalar};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};

/// Rows that are solved for at a time; the rest is a matrix product.
const BLOCK: usize = 32;

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

    fn block(
        &self,
        rows: std::ops::Range<usize>,
        cols: std::ops::Range<usize>,
    ) -> Result<Mat<'_, T>> {
        let (first, second) = if self.transposed { (cols, rows) } else { (rows, cols) };
        let start = second.start * self.stride + first.start;
        let data = self.data.get(start..).unwrap_or_default();
        let found = Mat::strided(data, [first.len(), second.len()], [1, self.stride])?;
        let found = if self.transposed { found.t() } else { found };
        Ok(if self.conjugated { found.conj() } else { found })
    }

    /// Replaces every column of `b`, at distances of `stride`, by the solution.
    pub(super) fn solve(&self, b: &mut [T], cols: usize, stride: usize) -> Result<()> {
        if self.size == 0 || cols == 0 {
            return Ok(());
        }
        let backward = self.upper != self.transposed;
        let blocks = self.size.div_ceil(BLOCK);
        for step in 0..blocks {
            let block = if backward { blocks - 1 - step } else { step };
            let rows = block * BLOCK..((block + 1) * BLOCK).min(self.size);
            compiled(|| self.solve_block(rows.clone(), backward, b, cols, stride));
            let rest = if backward { 0..rows.start } else { rows.end..self.size };
            if rest.is_empty() {
                continue;
            }
            let width = rows.len();
            let mut solved = Vec::with_capacity(width * cols);
            for col in 0..cols {
                solved.extend_from_slice(&b[col * stride..][rows.clone()]);
            }
            let shape = [rest.len(), cols];
            let target = MatMut::strided(&mut b[rest.start..], shape, [1, stride])?;
            let solved = Mat::strided(&solved, [width, cols], [1, width])?;
            gemm(target, self.block(rest, rows)?, solved, SUBTRACT)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn solve_block(
        &self,
        rows: std::ops::Range<usize>,
        backward: bool,
        b: &mut [T],
        cols: usize,
        stride: usize,
    ) {
        let width = rows.len();
        let mut own = Vec::with_capacity(width * width);
        for col in rows.clone() {
            own.extend(rows.clone().map(|row| self.at(row, col)));
        }
        for col in 0..cols {
            let x = &mut b[col * stride..][rows.clone()];
            for step in 0..width {
                let j = if backward { width - 1 - step } else { step };
                let column = &own[j * width..][..width];
                if !self.unit {
                    x[j] = x[j] / column[j];
                }
                let value = x[j];
                let rest = if backward { 0..j } else { j + 1..width };
                for i in rest {
                    x[i] = x[i] - column[i] * value;
                }
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
                triangle.solve(x, cols, size)
            })
        })
    })?;
    if left { Ok(out) } else { op::copy_(&out, &op::transpose_int(&work, -2, -1)?, false) }
}
