//! Factorisations, systems, eigenvalues and singular values of dense matrices, under LAPACK's names.
//!
//! The algorithms are large once compiled, and slow to compile. They live in a crate of their own, compiled for
//! each type of numbers here. What they multiply matrices with, on which threads, and where memory comes from,
//! is for the program they are part of to say ([`Blas`]).
//!
//! Matrices are slices of columns unless rows are spoken of.

mod bidiagonal_dc;
mod bidiagonal_qr;
mod bidiagonalize;
mod blas;
mod dqds;
mod general;
mod geqrf;
mod getrf;
mod getri;
mod householder;
mod lapack;
mod merge;
mod number;
mod parallel;
mod potrf;
mod secular;
mod simd_columns;
mod spectral;
mod sterf;
mod sytrf;
#[cfg(test)]
mod test_matrices;
mod tridiagonal_dc;
mod tridiagonalize;
mod trtrs;

pub use blas::{Blas, Operand, Product, Run};
pub use faer::{MatMut, MatRef};
pub use lapack::{Lapack, RightHandSides, Triangular};
pub use number::Number;
pub use spectral::{Eigen, General, NoConvergence, Spectral, Svd, Vectors};
pub use sytrf::PivotRows;
