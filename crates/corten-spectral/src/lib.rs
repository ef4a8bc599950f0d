//! Eigenvalues and singular values of dense matrices, by way of `faer`.
//!
//! The algorithms are large once compiled, and slow to compile. They live in a crate of their own,
//! for `f64` and `Complex<f64>` alone; narrower numbers are widened by the caller.
//!
//! Matrices are slices of columns.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::{evd, svd};
use faer::{MatMut, MatRef, Par};
use num_complex::Complex;
use std::ops::Mul;

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
    fn eigh(n: usize, a: Vec<Self>, vectors: bool) -> Result<Eigen<f64, Self>, NoConvergence>;

    /// The singular values of a matrix with `m` rows and `n` columns.
    ///
    /// # Errors
    /// Where the iteration does not converge.
    fn svd(m: usize, n: usize, a: Vec<Self>, vectors: Vectors) -> Result<Svd<Self>, NoConvergence>;

    /// The eigenvalues of a square matrix.
    ///
    /// # Errors
    /// Where the iteration does not converge.
    fn eig(
        n: usize,
        a: Vec<Self>,
        vectors: bool,
    ) -> Result<Eigen<Complex<f64>, Complex<f64>>, NoConvergence>;
}

fn columns<T: Copy>(matrix: MatRef<'_, T>) -> Vec<T> {
    let (rows, cols) = matrix.shape();
    (0..cols).flat_map(|j| (0..rows).map(move |i| matrix[(i, j)])).collect()
}

/// Brings the largest number of a matrix between 1 and 2, and returns what its values are multiplied
/// by then.
///
/// The iterations stop at differences that are small beside 1 as well as beside the matrix, and
/// square its numbers: without this those of small matrices stop too early, and squares leave the
/// range. Powers of two change no digit.
fn bring_to_size_one<T: Copy + Mul<f64, Output = T>>(a: &mut [T], size: impl Fn(T) -> f64) -> f64 {
    let largest = a.iter().map(|&value| size(value)).fold(0.0, f64::max);
    if largest == 0.0 || !largest.is_finite() {
        return 1.0;
    }
    // The reciprocals of such powers are normal numbers too.
    let most = f64::MAX_EXP - 2;
    let exponent = (largest.log2().floor() as i32).clamp(-most, most);
    let down = 2_f64.powi(-exponent);
    a.iter_mut().for_each(|value| *value = *value * down);
    2_f64.powi(exponent)
}

macro_rules! spectral {
    ($t:ty, $size:expr, $re:expr, $zero:expr) => {
        impl Spectral for $t {
            fn eigh(
                n: usize,
                mut a: Vec<Self>,
                vectors: bool,
            ) -> Result<Eigen<f64, Self>, NoConvergence> {
                let unit = bring_to_size_one(&mut a, $size);
                let a = MatRef::from_column_major_slice(&a, n, n);
                let wanted = match vectors {
                    true => evd::ComputeEigenvectors::Yes,
                    false => evd::ComputeEigenvectors::No,
                };
                let (mut s, mut u) = (vec![$zero; n], vec![$zero; if vectors { n * n } else { 0 }]);
                let basis = vectors.then(|| MatMut::from_column_major_slice_mut(&mut u, n, n));
                let stack =
                    evd::self_adjoint_evd_scratch::<Self>(n, wanted, Par::Seq, Default::default());
                let (values, mut stack) = (DiagMut::from_slice_mut(&mut s), MemBuffer::new(stack));
                let stack = MemStack::new(&mut stack);
                evd::self_adjoint_evd(a, values, basis, Par::Seq, stack, Default::default())
                    .map_err(|_| NoConvergence)?;
                Ok((s.into_iter().map(|value| $re(value) * unit).collect(), u))
            }

            fn svd(
                m: usize,
                n: usize,
                mut a: Vec<Self>,
                vectors: Vectors,
            ) -> Result<Svd<Self>, NoConvergence> {
                let unit = bring_to_size_one(&mut a, $size);
                let a = MatRef::from_column_major_slice(&a, m, n);
                let least = m.min(n);
                let (wanted, [left, right]) = match vectors {
                    Vectors::No => (svd::ComputeSvdVectors::No, [0, 0]),
                    Vectors::Thin => (svd::ComputeSvdVectors::Thin, [least; 2]),
                    Vectors::Full => (svd::ComputeSvdVectors::Full, [m, n]),
                };
                let mut s = vec![$zero; least];
                let (mut u, mut v) = (vec![$zero; m * left], vec![$zero; n * right]);
                let with = vectors != Vectors::No;
                let basis = |data, rows, cols| {
                    with.then(|| MatMut::from_column_major_slice_mut(data, rows, cols))
                };
                let (u_basis, v_basis) = (basis(&mut u[..], m, left), basis(&mut v[..], n, right));
                let stack =
                    svd::svd_scratch::<Self>(m, n, wanted, wanted, Par::Seq, Default::default());
                let (values, mut stack) = (DiagMut::from_slice_mut(&mut s), MemBuffer::new(stack));
                let stack = MemStack::new(&mut stack);
                svd::svd(a, values, u_basis, v_basis, Par::Seq, stack, Default::default())
                    .map_err(|_| NoConvergence)?;
                Ok(Svd { u, s: s.into_iter().map(|value| $re(value) * unit).collect(), v })
            }

            fn eig(
                n: usize,
                mut a: Vec<Self>,
                vectors: bool,
            ) -> Result<Eigen<Complex<f64>, Complex<f64>>, NoConvergence> {
                let unit = bring_to_size_one(&mut a, $size);
                let a = MatRef::from_column_major_slice(&a, n, n);
                if !vectors {
                    let values = a.eigenvalues().map_err(|_| NoConvergence)?;
                    return Ok((
                        values.into_iter().map(|value| value * unit).collect(),
                        Vec::new(),
                    ));
                }
                let found = a.eigen().map_err(|_| NoConvergence)?;
                let values = found.S().column_vector().iter().map(|value| value * unit).collect();
                Ok((values, columns(found.U())))
            }
        }
    };
}

spectral!(f64, f64::abs, |x: f64| x, 0.0);
spectral!(
    Complex<f64>,
    |x: Complex<f64>| x.re.abs().max(x.im.abs()),
    |x: Complex<f64>| x.re,
    Complex::new(0.0, 0.0)
);

#[cfg(test)]
mod tests {
    use super::{Spectral, Vectors};

    #[test]
    fn values_of_a_small_matrix() {
        let a = vec![2.0, 1.0, 1.0, 2.0];
        let (values, vectors) = f64::eigh(2, a.clone(), true).unwrap();
        assert!((values[0] - 1.0).abs() < 1e-12 && (values[1] - 3.0).abs() < 1e-12);
        assert!((vectors[0].abs() - 0.5_f64.sqrt()).abs() < 1e-12);
        let found = f64::svd(2, 2, a.clone(), Vectors::Full).unwrap();
        assert!((found.s[0] - 3.0).abs() < 1e-12);
        assert_eq!(f64::eig(2, a, false).unwrap().0.len(), 2);
    }

    /// Numbers between -1 and 1 without a pattern.
    fn scattered(count: usize) -> Vec<f64> {
        let mut state = 1_u32;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f64::from(state >> 8) / f64::from(1 << 23) - 1.0
            })
            .collect()
    }

    #[test]
    fn the_size_of_a_matrix_changes_no_digit() {
        for n in [5, 200] {
            let a = scattered(n * n);
            let (values, vectors) = f64::eigh(n, a.clone(), true).unwrap();
            let found = f64::svd(n, n, a.clone(), Vectors::Full).unwrap();
            let general = f64::eig(n, a.clone(), false).unwrap().0;
            for exponent in [-1000, -500, -70, 70, 500, 1000] {
                let unit = 2_f64.powi(exponent);
                let sized: Vec<_> = a.iter().map(|value| value * unit).collect();
                let back = |values: Vec<f64>| values.iter().map(|v| v / unit).collect::<Vec<_>>();
                let (again, basis) = f64::eigh(n, sized.clone(), true).unwrap();
                assert_eq!((back(again), basis), (values.clone(), vectors.clone()));
                let again = f64::svd(n, n, sized.clone(), Vectors::Full).unwrap();
                assert_eq!((back(again.s), &again.u), (found.s.clone(), &found.u));
                let again = f64::eig(n, sized, false).unwrap().0;
                assert!(again.iter().zip(&general).all(|(a, b)| a / unit == *b));
            }
        }
    }
}
