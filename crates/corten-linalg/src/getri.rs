//! Inverses from LU factors: LAPACK's `getri`, here by two triangular solves in place.
//!
//! One thread, microseconds and errors in epsilons of this, of faer (both with its products) and of PyTorch:
//!
//! | numbers | rows | time | error |
//! |---|---|---|---|
//! | `f32` | 8 | 3.0, 6.0, 43 | 3.0, 6.5, 2.4 |
//! | `f32` | 64 | 81, 114, 293 | 18, 26, 18 |
//! | `f32` | 512 | 10784, 16820, 32173 | 554, 682, 444 |
//! | `f64` | 8 | 2.9, 5.8, 32 | 2.7, 3.0, 2.0 |
//! | `f64` | 64 | 118, 147, 235 | 17, 19, 26 |
//! | `f64` | 512 | 25558, 25336, 40778 | 536, 773, 551 |
//! | `Complex<f64>` | 8 | 4.1, 8.3, 36 | 2.8, 2.5, 3.0 |
//! | `Complex<f64>` | 64 | 292, 576, 547 | 29, 33, 33 |
//! | `Complex<f64>` | 512 | 87441, 78919, 112210 | 1136, 1008, 543 |

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
