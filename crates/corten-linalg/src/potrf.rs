//! Cholesky factors `L Lᴴ` of positive-definite matrices, left-looking in blocks of columns that are factored
//! in halves: LAPACK's `potrf`, after E. Anderson and J. Dongarra, "Evaluating block algorithm variants in
//! LAPACK", 1990.

use crate::blas::{Blas, Kernel, Product, adjoint, in_columns, in_columns_mut, vectorised};
use crate::number::Number;
use num_complex::ComplexFloat;
use std::ops::Range;

/// Columns that are factored at a time; what is left of them is a matrix product.
const BLOCK: usize = 64;

/// Columns that are factored one by one.
const NARROW: usize = 16;

/// Replaces a matrix by columns, of which only the lower triangle is read, by its factor. Gives the order of
/// the first minor that is not positive, or 0.
pub(crate) fn potrf<T: Number>(blas: &dyn Blas<T>, n: usize, a: &mut [T]) -> i32 {
    let mut info = 0;
    for start in (0..n).step_by(BLOCK) {
        let width = BLOCK.min(n - start);
        let (left, rest) = a.split_at_mut(start * n);
        let panel = &mut rest[..width * n];
        if start > 0 {
            subtract(blas, n, start, left, panel);
        }
        info = factor_columns(blas, n, start..start + width, panel);
        if info != 0 {
            break;
        }
    }
    for col in 1..n {
        a[col * n..][..col].fill(T::zero());
    }
    info
}

/// Factors some columns from which the earlier ones are subtracted: the left half, then the right half,
/// from which the left one is subtracted. Gives the order of the minor that fails, or 0.
fn factor_columns<T: Number>(
    blas: &dyn Blas<T>,
    n: usize,
    range: Range<usize>,
    columns: &mut [T],
) -> i32 {
    let (start, width) = (range.start, range.len());
    if width <= NARROW {
        let failed = vectorised(Panel { n, start, width, panel: columns });
        return failed.map_or(0, |failed| failed as i32 + 1);
    }
    let half = (width / 2).next_multiple_of(NARROW);
    let middle = start + half;
    let (left, right) = columns.split_at_mut(half * n);
    let info = factor_columns(blas, n, start..middle, left);
    if info != 0 {
        return info;
    }
    subtract(blas, n, middle, left, right);
    factor_columns(blas, n, middle..range.end, right)
}

/// Subtracts what columns have of the earlier ones, from the row on that their first one has on the
/// diagonal.
fn subtract<T: Number>(blas: &dyn Blas<T>, n: usize, row: usize, earlier: &[T], columns: &mut [T]) {
    let (depth, width) = (earlier.len() / n, columns.len() / n);
    let rows = in_columns(&earlier[row..], [n - row, depth], n);
    let target = in_columns_mut(&mut columns[row..], [n - row, width], n);
    blas.gemm(target, rows.into(), adjoint(rows.subrows(0, width)), Product::Subtract);
}

/// `potf2`: factors columns from which the earlier ones are subtracted; gives the column that fails.
struct Panel<'a, T> {
    n: usize,
    start: usize,
    width: usize,
    panel: &'a mut [T],
}

impl<T: Number> Kernel for Panel<'_, T> {
    type Out = Option<usize>;

    #[inline(always)]
    fn run(self) -> Option<usize> {
        let Self { n, start, width, panel } = self;
        for j in 0..width {
            let row = start + j;
            let (before, current) = panel.split_at_mut(j * n);
            let column = &mut current[..n];
            for earlier in before.chunks_exact(n) {
                let factor = earlier[row].conj();
                for (x, &y) in column[row..].iter_mut().zip(&earlier[row..]) {
                    *x = *x - y * factor;
                }
            }
            let pivot = column[row].re();
            if pivot <= T::Real::default() || ComplexFloat::is_nan(pivot) {
                return Some(row);
            }
            let root = ComplexFloat::sqrt(T::real(pivot));
            column[row] = root;
            for x in &mut column[row + 1..] {
                *x = x.over(root);
            }
        }
        None
    }
}
