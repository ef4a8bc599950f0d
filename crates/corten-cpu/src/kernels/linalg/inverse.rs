//! Inverses.

use super::elimination::{Rows, exchange_rows_back, factor, with_copy};
use super::matrices::{Number, each_with, in_rows, part_width, reading, shape};
use super::triangular::Triangle;
use crate::gemm::{Mat, MatMut, for_each_part};
use corten_core::{Result, match_dtype, try_vec};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};

/// Columns of a triangle's inverse that are solved for at a time, from the first row on that is not
/// zero in all of them.
const WIDTH: usize = 64;

/// The inverses of matrices, and the first zero pivot.
///
/// # Errors
/// `Runtime` for other than square matrices, `NotImplemented` for half precision and integers;
/// `LinAlg` for a singular matrix, if that is checked.
pub fn linalg_inv_ex(a: &Tensor, check_errors: bool) -> Result<(Tensor, Tensor)> {
    let (out, info) = shapes::linalg_inv_ex(a, check_errors)?;
    op::zero_(&info)?;
    let n = shape(a)?[0];
    let source = in_rows(a)?;
    match_dtype!(a.dtype(), "lu_cpu", Blas, T => reading::<T, _>(&source, n * n, |source| {
        each_with::<T, i32>(&out, (&info, 1), |i, out, info| {
            let mut pivots = try_vec(0, n)?;
            with_copy(source.get(i), [n, n], |mut matrix| {
                info[0] = factor(&mut matrix, &mut pivots)?;
                invert(&matrix, &pivots, out)
            })
        })
    }))?;
    if check_errors {
        shapes::check_info(&info, "linalg.inv_ex")?;
    }
    Ok((out, info))
}

/// The inverse by columns of a matrix that is given by its factors, `P A = L U`: the columns are the rows
/// of a matrix `Z` for which `Lᵀ Z' = U⁻ᵀ`, where `Z'` has the rows of `Z` in the order of `P`.
fn invert<T: Number>(factors: &Rows<'_, T>, pivots: &[i32], out: &mut [T]) -> Result<()> {
    let n = factors.shape[0];
    out.fill(T::zero());
    out.iter_mut().step_by(n + 1).for_each(|x| *x = T::one());
    let transposed = Mat::strided(factors.data, [n, n], [factors.stride, 1])?.t();
    let of_upper = Triangle { factors: transposed, upper: false, unit: false, conjugated: false };
    let of_lower = Triangle { upper: true, unit: true, ..of_upper };
    for_each_part(MatMut::row_major(out, n, n)?, WIDTH, |columns, part| {
        let [_, below] = part.split_rows(columns.start);
        of_upper.part(columns.start..n).solve(below)
    })?;
    let width = part_width(n, of_lower.work());
    for_each_part(MatMut::row_major(out, n, n)?, width, |_, part| of_lower.solve(part))?;
    exchange_rows_back(out, n, pivots);
    Ok(())
}
