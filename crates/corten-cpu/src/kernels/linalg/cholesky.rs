//! Cholesky factors.

use super::blas::Cpu;
use super::matrices::{adjoint, by_columns, each_with, shape};
use corten_core::{Result, match_dtype};
use corten_linalg::Lapack;
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};

/// `A = L Lᴴ` or `Uᴴ U`, and the order of the first minor that is not positive.
///
/// # Errors
/// Those of the shapes; `LinAlg` where a matrix is not positive-definite, if that is checked;
/// `NotImplemented` for half precision.
pub fn linalg_cholesky_ex(
    self_: &Tensor,
    upper: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor)> {
    let (out, info) = shapes::linalg_cholesky_ex(self_, upper, check_errors)?;
    op::zero_(&info)?;
    let n = shape(self_)?[0];
    let work = if upper { by_columns(&adjoint(self_)?)? } else { op::copy_(&out, self_, false)? };
    match_dtype!(self_.dtype(), "cholesky_cpu", Blas, T => {
        each_with::<T, i32>(&work, (&info, 1), |_, a, info| {
            info[0] = T::potrf(&Cpu, n, a);
            Ok(())
        })
    })?;
    if upper {
        op::copy_(&out, &adjoint(&work)?, false)?;
    }
    if check_errors {
        shapes::check_info(&info, "linalg.cholesky_ex")?;
    }
    Ok((out, info))
}
