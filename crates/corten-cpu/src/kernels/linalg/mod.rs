//! Factorisations of matrices and what is solved with them.
//!
//! The algorithms are those of `corten-linalg`. A kernel copies its matrices by columns, as LAPACK wants them
//! and PyTorch returns them, and works on one after the other in place.

mod blas;
mod cholesky;
mod inverse;
mod ldl;
mod lu;
mod matrices;
mod qr;
mod spectral;
mod triangular;

pub use cholesky::linalg_cholesky_ex;
pub use inverse::linalg_inv_ex;
pub use ldl::{linalg_ldl_factor_ex, linalg_ldl_solve};
pub use lu::{linalg_lu_factor_ex, linalg_lu_solve, lu_unpack};
pub use qr::{geqrf, linalg_householder_product, ormqr};
pub use spectral::{_linalg_eigh, _linalg_eigvals, _linalg_svd, linalg_eig};
pub use triangular::linalg_solve_triangular;
