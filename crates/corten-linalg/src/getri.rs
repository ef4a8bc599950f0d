//! Inverses from LU factors: LAPACK's `getri`, here by two triangular solves in place.

use crate::blas::{Blas, for_each_part, in_columns, in_rows_mut};
use crate::getrf::{Rows, exchange_rows_back, factor, with_copy};
use crate::number::Number;
use crate::trtrs::Triangle;

/// Columns of a triangle's inverse that are solved for at a time, from the first row on that is not
/// zero in all of them.
const WIDTH: usize = 64;

/// The inverse by columns of a matrix by rows, with room for `n` pivots. Gives the first zero of the diagonal
/// of `U`, counted from 1, or 0.
pub(crate) fn getri<T: Number>(
    blas: &dyn Blas<T>,
    n: usize,
    source: &[T],
    out: &mut [T],
    pivots: &mut [i32],
) -> i32 {
    let mut info = 0;
    with_copy(blas, source, [n, n], |mut matrix| {
        info = factor(blas, &mut matrix, pivots);
        invert(blas, &matrix, pivots, out);
    });
    info
}

/// The inverse by columns of a matrix that is given by its factors, `P A = L U`: the columns are the rows
/// of a matrix `Z` for which `Lᵀ Z' = U⁻ᵀ`, where `Z'` has the rows of `Z` in the order of `P`.
fn invert<T: Number>(blas: &dyn Blas<T>, factors: &Rows<'_, T>, pivots: &[i32], out: &mut [T]) {
    let n = factors.shape[0];
    out.fill(T::zero());
    out.iter_mut().step_by(n + 1).for_each(|x| *x = T::one());
    // The rows of the factors are the columns of the transpose.
    let transposed = in_columns(factors.data, [n, n], factors.stride);
    let of_upper = Triangle { factors: transposed, upper: false, unit: false, conjugated: false };
    let of_lower = Triangle { upper: true, unit: true, ..of_upper };
    for_each_part(blas, in_rows_mut(out, [n, n], n), WIDTH, |columns, part| {
        let (_, below) = part.split_at_row_mut(columns.start);
        of_upper.part(columns.start..n).solve(blas, below);
    });
    let width = blas.part_width(n, of_lower.work());
    for_each_part(blas, in_rows_mut(out, [n, n], n), width, |_, part| of_lower.solve(blas, part));
    exchange_rows_back(out, n, pivots);
}
