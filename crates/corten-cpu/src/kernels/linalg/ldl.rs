//! Factors `L D Lᵀ` or `L D Lᴴ` of indefinite matrices, and systems solved with them.

use super::blas::Cpu;
use super::matrices::{
    each, each_with_two, fitted, fitted_vectors, in_columns, reading, reading_columns, shape,
};
use crate::kernels::support::contiguous;
use corten_core::{Result, ensure, match_dtype, try_with_capacity};
use corten_linalg::{Lapack, PivotRows};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};

/// The factors in one matrix, the pivots, and the first zero of the diagonal of `D`.
///
/// # Errors
/// Those of the shapes; `Runtime` where there is a zero, if that is checked; `NotImplemented` for
/// half precision.
pub fn linalg_ldl_factor_ex(
    self_: &Tensor,
    hermitian: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (out, pivots, info) = shapes::linalg_ldl_factor_ex(self_, hermitian, check_errors)?;
    op::copy_(&out, self_, false)?;
    op::zero_(&info)?;
    let n = shape(self_)?[0];
    let hermitian = hermitian && self_.dtype().is_complex();
    match_dtype!(self_.dtype(), "ldl_factor_kernel_cpu", Blas, T => {
        each_with_two::<T, i32, i32>(&out, (&pivots, n), (&info, 1), |_, a, pivots, info| {
            info[0] = T::sytrf(n, a, pivots, hermitian);
            Ok(())
        })
    })?;
    if check_errors {
        shapes::check_info(&info, "torch.linalg.ldl_factor_ex")?;
    }
    Ok((out, pivots, info))
}

/// Systems with matrices of which the factors are known.
///
/// # Errors
/// Those of the shapes; `Runtime` for pivots that are no rows.
pub fn linalg_ldl_solve(
    ld: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    hermitian: bool,
) -> Result<Tensor> {
    let out = shapes::linalg_ldl_solve(ld, pivots, b, hermitian)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    op::copy_(&out, b, false)?;
    let sizes = out.sizes();
    let batch = &sizes[..sizes.len() - 2];
    let factors = in_columns(&fitted(ld, batch)?)?;
    let pivots = op::to_dtype(pivots, corten_core::DType::Int32, false, false, None)?;
    let pivots = contiguous(&fitted_vectors(&pivots, batch)?)?;
    let n = shape(&out)?[0];
    let hermitian = hermitian && out.dtype().is_complex();
    match_dtype!(out.dtype(), "ldl_solve_cpu", Blas, T => {
        reading::<i32, _>(&pivots, n, |pivots| reading_columns::<T, _>(&factors, |factors| {
            each::<T>(&out, |i, x| {
                let blocks = blocks(pivots.get(i))?;
                T::sytrs(&Cpu, n, factors.get(i), &blocks, x, hermitian);
                Ok(())
            })
        }))
    })?;
    Ok(out)
}

/// The blocks of `D`.
fn blocks(pivots: &[i32]) -> Result<Vec<PivotRows>> {
    let mut found = try_with_capacity(pivots.len())?;
    let mut k = 0;
    while k < pivots.len() {
        let width = if pivots[k] > 0 { 1 } else { 2 };
        let row = pivots[k].unsigned_abs() as usize;
        ensure!(
            (1..=pivots.len()).contains(&row) && k + width <= pivots.len(),
            Runtime,
            "Pivots given to ldl_solve must be those of ldl_factor."
        );
        found.push(PivotRows { k, width, row: row - 1 });
        k += width;
    }
    Ok(found)
}
