//! Functions of matrices that are made of others: the checked forms of factorisations, norms,
//! powers, and what follows from singular values.

mod checked;
mod norms;
mod ranks;
mod spectra;

pub use checked::{
    _lu_with_info, linalg_cholesky, linalg_det, linalg_inv, linalg_ldl_factor, linalg_lu_factor,
    linalg_matrix_power, linalg_slogdet, linalg_solve, linalg_solve_ex, linalg_tensorinv,
    linalg_tensorsolve, logdet, lu_solve, triangular_solve,
};
pub use norms::{
    linalg_cond, linalg_cond_name, linalg_matrix_norm, linalg_matrix_norm_name, linalg_norm,
    linalg_norm_name, nuclear_norm, nuclear_norm_dim,
};
pub use ranks::{
    linalg_matrix_rank, linalg_matrix_rank_floats, linalg_matrix_rank_tensors,
    linalg_matrix_rank_tol, linalg_pinv, linalg_pinv_floats, linalg_pinv_rcond, pinverse,
};
pub use spectra::{linalg_eigh, linalg_eigvals, linalg_eigvalsh, linalg_svd, linalg_svdvals, svd};
