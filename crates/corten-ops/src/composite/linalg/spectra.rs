//! Eigenvalues and singular values.

use crate::composite::support::requires_grad;
use crate::{Tensor, op};
use corten_core::{Result, ensure, grad_mode_enabled};

/// Whether derivatives may be asked for, which need the vectors.
fn followed(tensor: &Tensor) -> bool {
    grad_mode_enabled() && requires_grad(tensor)
}

/// Eigenvalues and eigenvectors of Hermitian matrices.
///
/// # Errors
/// Those of `_linalg_eigh`; for the functions below likewise.
pub fn linalg_eigh(self_: &Tensor, uplo: &str) -> Result<(Tensor, Tensor)> {
    op::_linalg_eigh(self_, uplo, true)
}

/// Eigenvalues of Hermitian matrices.
///
/// # Errors
/// As there.
pub fn linalg_eigvalsh(self_: &Tensor, uplo: &str) -> Result<Tensor> {
    Ok(op::_linalg_eigh(self_, uplo, followed(self_))?.0)
}

/// Eigenvalues of square matrices.
///
/// # Errors
/// Those of `linalg_eig`.
pub fn linalg_eigvals(self_: &Tensor) -> Result<Tensor> {
    match followed(self_) {
        true => Ok(op::linalg_eig(self_)?.0),
        false => op::_linalg_eigvals(self_),
    }
}

/// The singular value decomposition.
///
/// # Errors
/// Those of `_linalg_svd`; for the functions below likewise.
pub fn linalg_svd(
    a: &Tensor,
    full_matrices: bool,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor)> {
    op::_linalg_svd(a, full_matrices, true, driver)
}

/// Singular values.
///
/// # Errors
/// As there.
pub fn linalg_svdvals(a: &Tensor, driver: Option<&str>) -> Result<Tensor> {
    Ok(op::_linalg_svd(a, false, followed(a), driver)?.1)
}

/// The singular value decomposition with `V` itself; zeros for bases that are not wanted.
///
/// # Errors
/// As there.
pub fn svd(self_: &Tensor, some: bool, compute_uv: bool) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(
        self_.dim() >= 2,
        Runtime,
        "linalg.svd: input should have at least 2 dimensions, but has {} dimensions instead",
        self_.dim()
    );
    if compute_uv {
        let (u, s, vh) = op::linalg_svd(self_, !some, None)?;
        return Ok((u, s, op::conj(&op::transpose_int(&vh, -2, -1)?)?));
    }
    let s = op::linalg_svdvals(self_, None)?;
    let zeros = |size: i64| {
        let mut sizes = self_.sizes();
        let last = sizes.len() - 1;
        (sizes[last - 1], sizes[last]) = (size, size);
        op::new_zeros(self_, &sizes, None, None, None, None)
    };
    let v = op::transpose_int(&zeros(self_.size(-1)?)?, -2, -1)?;
    Ok((zeros(self_.size(-2)?)?, s, v))
}
