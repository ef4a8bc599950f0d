//! Eigenvalues and singular values of dense matrices, by way of `faer`.
//!
//! The algorithms are large once compiled, and slow to compile. They live in a crate of their own,
//! for `f64` and `Complex<f64>` alone; narrower numbers are widened by the caller.
//!
//! Matrices are slices of columns.

use faer::{MatRef, Side};
use num_complex::Complex;

/// The iteration found no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoConvergence;

/// Eigenvalues, and the eigenvectors as columns; none where they were not wanted.
pub type Eigen<V, T> = (Vec<V>, Vec<T>);

/// A singular value decomposition.
pub struct Svd<T> {
    /// The left singular vectors as columns.
    pub u: Vec<T>,
    /// The singular values, the largest first.
    pub s: Vec<f64>,
    /// The right singular vectors as columns.
    pub v: Vec<T>,
}

/// Which singular vectors are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// None.
    No,
    /// As many as there are singular values.
    Thin,
    /// A basis.
    Full,
}

/// The numbers of a matrix.
pub trait Spectral: Copy + Send + Sync + 'static {
    /// The eigenvalues of a Hermitian matrix, the smallest first, from its lower triangle.
    ///
    /// # Errors
    /// Where the iteration does not converge.
    fn eigh(n: usize, a: &[Self], vectors: bool) -> Result<Eigen<f64, Self>, NoConvergence>;

    /// The singular values of a matrix with `m` rows and `n` columns.
    ///
    /// # Errors
    /// Where the iteration does not converge.
    fn svd(m: usize, n: usize, a: &[Self], vectors: Vectors) -> Result<Svd<Self>, NoConvergence>;

    /// The eigenvalues of a square matrix.
    ///
    /// # Errors
    /// Where the iteration does not converge.
    fn eig(
        n: usize,
        a: &[Self],
        vectors: bool,
    ) -> Result<Eigen<Complex<f64>, Complex<f64>>, NoConvergence>;
}

fn columns<T: Copy>(matrix: MatRef<'_, T>) -> Vec<T> {
    let (rows, cols) = matrix.shape();
    (0..cols).flat_map(|j| (0..rows).map(move |i| matrix[(i, j)])).collect()
}

macro_rules! spectral {
    ($t:ty, $real:expr) => {
        impl Spectral for $t {
            fn eigh(
                n: usize,
                a: &[Self],
                vectors: bool,
            ) -> Result<Eigen<f64, Self>, NoConvergence> {
                let a = MatRef::from_column_major_slice(a, n, n);
                if !vectors {
                    let values = a.self_adjoint_eigenvalues(Side::Lower);
                    return Ok((values.map_err(|_| NoConvergence)?, Vec::new()));
                }
                let found = a.self_adjoint_eigen(Side::Lower).map_err(|_| NoConvergence)?;
                let values = found.S().column_vector().iter().map($real).collect();
                Ok((values, columns(found.U())))
            }

            fn svd(
                m: usize,
                n: usize,
                a: &[Self],
                vectors: Vectors,
            ) -> Result<Svd<Self>, NoConvergence> {
                let a = MatRef::from_column_major_slice(a, m, n);
                let found = match vectors {
                    Vectors::No => {
                        let s = a.singular_values().map_err(|_| NoConvergence)?;
                        return Ok(Svd { u: Vec::new(), s, v: Vec::new() });
                    }
                    Vectors::Thin => a.thin_svd(),
                    Vectors::Full => a.svd(),
                }
                .map_err(|_| NoConvergence)?;
                let s = found.S().column_vector().iter().map($real).collect();
                Ok(Svd { u: columns(found.U()), s, v: columns(found.V()) })
            }

            fn eig(
                n: usize,
                a: &[Self],
                vectors: bool,
            ) -> Result<Eigen<Complex<f64>, Complex<f64>>, NoConvergence> {
                let a = MatRef::from_column_major_slice(a, n, n);
                if !vectors {
                    return Ok((a.eigenvalues().map_err(|_| NoConvergence)?, Vec::new()));
                }
                let found = a.eigen().map_err(|_| NoConvergence)?;
                let values = found.S().column_vector().iter().copied().collect();
                Ok((values, columns(found.U())))
            }
        }
    };
}

spectral!(f64, |&x| x);
spectral!(Complex<f64>, |x| x.re);

#[cfg(test)]
mod tests {
    use super::{Spectral, Vectors};

    #[test]
    fn values_of_a_small_matrix() {
        let a = [2.0, 1.0, 1.0, 2.0];
        let (values, vectors) = f64::eigh(2, &a, true).unwrap();
        assert!((values[0] - 1.0).abs() < 1e-12 && (values[1] - 3.0).abs() < 1e-12);
        assert!((vectors[0].abs() - 0.5_f64.sqrt()).abs() < 1e-12);
        let found = f64::svd(2, 2, &a, Vectors::Full).unwrap();
        assert!((found.s[0] - 3.0).abs() < 1e-12);
        assert_eq!(f64::eig(2, &a, false).unwrap().0.len(), 2);
    }
}
