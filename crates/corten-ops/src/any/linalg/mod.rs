//! Functions of matrices that are made of the kernels and have derivatives of their own.

mod exponential;
mod factors;
mod least_squares;
mod roots;
mod systems;

pub use exponential::linalg_matrix_exp;
pub use factors::{cholesky_inverse, linalg_lu, linalg_qr};
pub use least_squares::{linalg_lstsq, linalg_pinv_tensors};
pub use roots::{linalg_matrix_sqrth, linalg_polar};
pub use systems::{_linalg_det, _linalg_slogdet, _linalg_solve_ex, cholesky_solve};

pub(crate) use least_squares::tolerances;

use crate::meta::linalg::columns;
use crate::{Tensor, op};
use corten_core::Result;

/// The adjoints of matrices, conjugated at once: these functions may run where lazy conjugation is
/// not seen.
fn adjoint(a: &Tensor) -> Result<Tensor> {
    op::conj_physical(&op::transpose_int(a, -2, -1)?)
}

/// Identity matrices in the shape of `like`, which holds square ones.
pub(crate) fn identity(like: &Tensor) -> Result<Tensor> {
    let one = op::eye(like.size(-1)?, Some(like.dtype()), None, Some(like.device()), None)?;
    op::expand(&one, &like.sizes(), false)
}

/// A copy by columns.
fn in_columns(a: &Tensor) -> Result<Tensor> {
    op::copy_(&columns(&a.sizes(), a.dtype(), a.device())?, a, false)
}
