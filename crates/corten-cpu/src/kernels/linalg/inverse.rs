//! Inverses.

use super::blas::Cpu;
use super::matrices::{each_with, in_rows, reading, shape};
use corten_core::{Result, match_dtype, try_vec};
use corten_linalg::Lapack;
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};

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
            info[0] = T::getri(&Cpu, n, source.get(i), out, &mut pivots);
            Ok(())
        })
    }))?;
    if check_errors {
        shapes::check_info(&info, "linalg.inv_ex")?;
    }
    Ok((out, info))
}
