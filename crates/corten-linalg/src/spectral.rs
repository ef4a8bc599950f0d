//! Eigenvalues and singular values: LAPACK's `heevd` (`syevd`), `gesdd` and `geev`. Real symmetric matrices and
//! singular values of real ones are ours, by Householder reductions (`tridiagonalize`, `bidiagonalize`) and by
//! divide and conquer (`tridiagonal_dc`, `bidiagonal_dc`); values alone come from QR and dqds iterations
//! (`sterf`, `dqds`). Nonsymmetric matrices and the vectors of complex ones are `faer`'s.
//!
//! Numbers are `f64`, `Complex<f64>` and, but for general eigenvalues, `f32`; others are widened by the caller.

use crate::blas::Blas;
use crate::{bidiagonal_dc, bidiagonalize, dqds, general, sterf, tridiagonal_dc, tridiagonalize};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::qr::no_pivoting::factor::recommended_block_size;
use faer::linalg::{evd, svd};
use faer::{Auto, Mat, MatMut, MatRef, Par, Spec};
use num_complex::Complex;

/// The iteration found no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoConvergence;

/// Eigenvalues, and the eigenvectors as columns; none where they were not wanted.
pub type Eigen<V, T> = (Vec<V>, Vec<T>);

/// Singular values, the largest first, and the left and the right singular vectors.
pub(crate) type Parts<T> = (Vec<f64>, [Vec<T>; 2]);

/// Matrices of fewer rows are not divided further. What is done with them undivided costs more digits
/// and more time than dividing them: with `faer`'s own 128, a matrix of 256 rows loses five times as much.
pub(crate) const QR_SIZE: usize = 24;

/// A singular value decomposition.
pub struct Svd<T: Spectral> {
    /// The left singular vectors as columns.
    pub u: Vec<T>,
    /// The singular values, the largest first.
    pub s: Vec<T::Real>,
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
    /// A real number of the same precision.
    type Real;

    /// The eigenvalues of a Hermitian matrix, the smallest first, from its lower triangle. Their vectors are
    /// the same, to the last digit, however many threads there are.
    ///
    /// # Errors
    /// Where the iteration does not converge.
    fn heevd(
        n: usize,
        a: Vec<Self>,
        vectors: bool,
        blas: &dyn Blas<Self>,
    ) -> Result<Eigen<Self::Real, Self>, NoConvergence>;

    /// The singular values of a matrix with `m` rows and `n` columns.
    ///
    /// # Errors
    /// Where the iteration does not converge.
    fn gesdd(
        m: usize,
        n: usize,
        a: Vec<Self>,
        vectors: Vectors,
        blas: &dyn Blas<Self>,
    ) -> Result<Svd<Self>, NoConvergence>;
}

/// Numbers of double precision.
pub trait General: Spectral {
    /// The eigenvalues of a square matrix.
    ///
    /// # Errors
    /// Where the iteration does not converge.
    fn geev(
        n: usize,
        a: Vec<Self>,
        vectors: bool,
    ) -> Result<Eigen<Complex<f64>, Complex<f64>>, NoConvergence>;
}

/// Brings the largest number of a matrix between 1 and 2, and returns what its values are multiplied
/// by then.
///
/// The iterations stop at differences that are small beside 1 as well as beside the matrix, and
/// square its numbers: without this those of small matrices stop too early, and squares leave the
/// range. Powers of two change no digit.
macro_rules! bring_to_size_one {
    ($a:ident, $real:ty, $size:expr) => {{
        let largest = $a.iter().map(|&value| $size(value)).fold(0.0, <$real>::max);
        if largest == 0.0 || !largest.is_finite() {
            1.0
        } else {
            // The reciprocals of such powers are normal numbers too.
            let most = <$real>::MAX_EXP - 2;
            let exponent = (largest.log2().floor() as i32).clamp(-most, most);
            let down = (2.0 as $real).powi(-exponent);
            $a.iter_mut().for_each(|value| *value *= down);
            (2.0 as $real).powi(exponent)
        }
    }};
}

/// The diagonal of the tridiagonal matrix with the eigenvalues of a Hermitian one of at least one row, and
/// the sizes of what is beside it.
fn tridiagonal_of(n: usize, a: &mut [Complex<f64>]) -> [Vec<f64>; 2] {
    type Number = Complex<f64>;
    let parameters = Spec::new(<evd::tridiag::TridiagParams as Auto<Number>>::auto());
    let stack = evd::tridiag::tridiag_in_place_scratch::<Number>(n, Par::Seq, parameters);
    let mut stack = MemBuffer::new(stack);
    let mut reflections = Mat::<Number>::zeros(recommended_block_size::<Number>(n, n), n - 1);
    evd::tridiag::tridiag_in_place(
        MatMut::from_column_major_slice_mut(a, n, n),
        reflections.as_mut(),
        Par::Seq,
        MemStack::new(&mut stack),
        parameters,
    );
    let beside = (1..n).map(|k| a[(k - 1) * n + k].norm());
    [(0..n).map(|k| a[k * n + k].re).collect(), beside.collect()]
}

/// The same of a symmetric one.
fn real_tridiagonal_of<T: tridiagonal_dc::Real>(n: usize, a: &mut [T]) -> [Vec<f64>; 2] {
    let reduced = tridiagonalize::to_tridiagonal(n, a);
    [reduced.diagonal, reduced.beside]
}

/// The eigenvalues and eigenvectors of a symmetric matrix of at least one row.
fn symmetric<T: tridiagonal_dc::Real>(
    n: usize,
    a: &[T],
    blas: &dyn Blas<T>,
) -> Result<Eigen<f64, T>, NoConvergence> {
    let reduced = tridiagonalize::to_tridiagonal(n, a);
    let (values, mut basis) =
        tridiagonal_dc::tridiagonal::<T>(reduced.diagonal, reduced.beside, blas.runner())?;
    reduced.reflections.apply(blas, &mut basis);
    Ok((values, basis))
}

/// The same of a Hermitian matrix, from `faer`.
fn hermitian(n: usize, a: &[Complex<f64>]) -> Result<Eigen<f64, Complex<f64>>, NoConvergence> {
    type Number = Complex<f64>;
    let zero = Number::new(0.0, 0.0);
    let (mut s, mut u) = (vec![zero; n], vec![zero; n * n]);
    let mut parameters = <evd::SelfAdjointEvdParams as Auto<Number>>::auto();
    parameters.recursion_threshold = QR_SIZE;
    let parameters = Spec::new(parameters);
    let wanted = evd::ComputeEigenvectors::Yes;
    let stack = evd::self_adjoint_evd_scratch::<Number>(n, wanted, Par::Seq, parameters);
    let mut stack = MemBuffer::new(stack);
    evd::self_adjoint_evd(
        MatRef::from_column_major_slice(a, n, n),
        DiagMut::from_slice_mut(&mut s),
        Some(MatMut::from_column_major_slice_mut(&mut u, n, n)),
        Par::Seq,
        MemStack::new(&mut stack),
        parameters,
    )
    .map_err(|_| NoConvergence)?;
    Ok((s.into_iter().map(|value| value.re).collect(), u))
}

/// The diagonal of the bidiagonal matrix with the singular values of one of `m` rows and at most as many
/// columns `n`, and the sizes of what is beside it.
fn bidiagonal_of([m, n]: [usize; 2], a: &[Complex<f64>]) -> [Vec<f64>; 2] {
    type Number = Complex<f64>;
    let mut a = a.to_vec();
    let parameters = Spec::new(<svd::bidiag::BidiagParams as Auto<Number>>::auto());
    let stack = svd::bidiag::bidiag_in_place_scratch::<Number>(m, n, Par::Seq, parameters);
    let (block, mut stack) = (recommended_block_size::<Number>(m, n), MemBuffer::new(stack));
    let mut left = Mat::<Number>::zeros(block, n);
    let mut right = Mat::<Number>::zeros(block, n.saturating_sub(1));
    svd::bidiag::bidiag_in_place(
        MatMut::from_column_major_slice_mut(&mut a, m, n),
        left.as_mut(),
        right.as_mut(),
        Par::Seq,
        MemStack::new(&mut stack),
        parameters,
    );
    let beside = (1..n).map(|k| a[k * m + k - 1].norm());
    [(0..n).map(|k| a[k * m + k].norm()).collect(), beside.collect()]
}

/// The same of a real one.
fn real_bidiagonal_of<T: tridiagonal_dc::Real>(sizes: [usize; 2], a: &[T]) -> [Vec<f64>; 2] {
    let reduced = bidiagonalize::to_bidiagonal(sizes, a);
    [reduced.diagonal, reduced.above]
}

/// The decomposition of a real matrix with `m` rows and `n` columns, at least one of each.
fn real_svd<T: tridiagonal_dc::Real>(
    [m, n]: [usize; 2],
    a: &[T],
    vectors: Vectors,
    blas: &dyn Blas<T>,
) -> Result<Parts<T>, NoConvergence> {
    if m < n {
        let (s, [v, u]) = real_svd([n, m], &transpose([m, n], a), vectors, blas)?;
        return Ok((s, [u, v]));
    }
    let reduced = bidiagonalize::to_bidiagonal([m, n], a);
    let (s, [left, mut v]) =
        bidiagonal_dc::bidiagonal::<T>(reduced.diagonal, reduced.above, blas.runner())?;
    let count = if vectors == Vectors::Full { m } else { n };
    let mut u = vec![T::of(0.0); m * count];
    for (column, left) in u.chunks_exact_mut(m).zip(left.chunks_exact(n)) {
        column[..n].copy_from_slice(left);
    }
    for (k, column) in u.chunks_exact_mut(m).enumerate().skip(n) {
        column[k] = T::of(1.0);
    }
    reduced.left.apply(blas, &mut u);
    reduced.right.apply(blas, &mut v);
    Ok((s, [u, v]))
}

/// The columns of the transpose of a matrix with `m` rows and `n` columns.
fn transpose<T: Copy>([m, n]: [usize; 2], a: &[T]) -> Vec<T> {
    (0..m * n).map(|at| a[at % n * m + at / n]).collect()
}

macro_rules! spectral {
    ($t:ty as $real:ty, $size:expr, $re:expr, $zero:expr,
     [$tridiagonal_of:expr, $bidiagonal_of:expr], [$eigh:expr, $svd:expr]) => {
        impl Spectral for $t {
            type Real = $real;

            fn heevd(
                n: usize,
                mut a: Vec<Self>,
                vectors: bool,
                blas: &dyn Blas<Self>,
            ) -> Result<Eigen<$real, Self>, NoConvergence> {
                let unit = bring_to_size_one!(a, $real, $size);
                if n == 0 {
                    return Ok((Vec::new(), Vec::new()));
                }
                let (values, basis) = if vectors {
                    $eigh(n, &a, blas)?
                } else {
                    let [d, e] = $tridiagonal_of(n, &mut a);
                    (sterf::eigenvalues(d, e)?, Vec::new())
                };
                let sized = values.into_iter().map(|value| value as $real * unit);
                Ok((sized.collect(), basis))
            }

            fn gesdd(
                m: usize,
                n: usize,
                mut a: Vec<Self>,
                vectors: Vectors,
                blas: &dyn Blas<Self>,
            ) -> Result<Svd<Self>, NoConvergence> {
                if vectors == Vectors::No && m < n {
                    return Self::gesdd(n, m, transpose([m, n], &a), vectors, blas);
                }
                let unit = bring_to_size_one!(a, $real, $size);
                let least = m.min(n);
                // Long matrices are reduced to square ones first.
                let found = match vectors {
                    _ if least == 0 || 2 * m.max(n) > 3 * least => None,
                    Vectors::No => {
                        let [d, e] = $bidiagonal_of([m, n], &a);
                        dqds::singular_values(d, e).ok().map(|s| (s, [(); 2].map(|()| Vec::new())))
                    }
                    _ => $svd([m, n], &a, vectors, blas),
                };
                if let Some((s, [u, v])) = found {
                    let s = s.into_iter().map(|value| value as $real * unit).collect();
                    return Ok(Svd { u, s, v });
                }
                let a = MatRef::from_column_major_slice(&a, m, n);
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
                let mut parameters = <svd::SvdParams as Auto<Self>>::auto();
                parameters.recursion_threshold = QR_SIZE;
                let parameters = Spec::new(parameters);
                let stack = svd::svd_scratch::<Self>(m, n, wanted, wanted, Par::Seq, parameters);
                let (values, mut stack) = (DiagMut::from_slice_mut(&mut s), MemBuffer::new(stack));
                let stack = MemStack::new(&mut stack);
                svd::svd(a, values, u_basis, v_basis, Par::Seq, stack, parameters)
                    .map_err(|_| NoConvergence)?;
                Ok(Svd { u, s: s.into_iter().map(|value| $re(value) * unit).collect(), v })
            }
        }
    };
}

macro_rules! general {
    ($t:ty, $size:expr) => {
        impl General for $t {
            fn geev(
                n: usize,
                mut a: Vec<Self>,
                vectors: bool,
            ) -> Result<Eigen<Complex<f64>, Complex<f64>>, NoConvergence> {
                let unit = bring_to_size_one!(a, f64, $size);
                let (mut values, basis) = general::eigen(n, &a, vectors)?;
                values.iter_mut().for_each(|value| *value *= unit);
                Ok((values, basis))
            }
        }
    };
}

macro_rules! real {
    ($t:ty, $size:expr) => {
        spectral!(
            $t as $t,
            $size,
            |x: $t| x,
            0.0,
            [real_tridiagonal_of, real_bidiagonal_of],
            [symmetric, |sizes, a: &[$t], vectors, blas| real_svd(sizes, a, vectors, blas).ok()]
        );
    };
}

real!(f32, f32::abs);
real!(f64, f64::abs);
spectral!(
    Complex<f64> as f64,
    size,
    |x: Complex<f64>| x.re,
    Complex::new(0.0, 0.0),
    [tridiagonal_of, bidiagonal_of],
    [|n, a: &[Complex<f64>], _| hermitian(n, a), |_, _: &[Complex<f64>], _, _| None]
);
general!(f64, f64::abs);
general!(Complex<f64>, size);

/// A measure of a number's size.
fn size(x: Complex<f64>) -> f64 {
    x.re.abs().max(x.im.abs())
}

#[cfg(test)]
mod tests {
    use super::{General, Spectral, Vectors};
    use crate::test_matrices::{
        ABREAST, ALONE, TestBlas, farthest_from_orthogonal, scattered_from,
    };

    #[test]
    fn threads_change_no_digit() {
        for n in [1, 30, 65, 150, 300] {
            let a = scattered(n * n);
            let of = |blas: TestBlas| f64::heevd(n, a.clone(), true, &blas).unwrap();
            assert_eq!(of(ALONE), of(ABREAST), "{n}");
        }
    }

    #[test]
    fn values_of_a_small_matrix() {
        let a = vec![2.0, 1.0, 1.0, 2.0];
        let (values, vectors) = f64::heevd(2, a.clone(), true, &ALONE).unwrap();
        assert!((values[0] - 1.0).abs() < 1e-12 && (values[1] - 3.0).abs() < 1e-12);
        assert!((vectors[0].abs() - 0.5_f64.sqrt()).abs() < 1e-12);
        let found = f64::gesdd(2, 2, a.clone(), Vectors::Full, &ALONE).unwrap();
        assert!((found.s[0] - 3.0).abs() < 1e-12);
        assert_eq!(f64::geev(2, a, false).unwrap().0.len(), 2);
    }

    /// Numbers between -1 and 1 without a pattern.
    fn scattered(count: usize) -> Vec<f64> {
        scattered_from(1, count)
    }

    #[test]
    fn matrices_of_every_shape() {
        let shapes =
            [[1, 1], [3, 2], [2, 3], [5, 4], [17, 16], [16, 17], [30, 25], [48, 64], [75, 50]];
        for [m, n] in shapes.into_iter().chain([[50, 75], [40, 8], [8, 40]]) {
            for a in [scattered(m * n), vec![1.0; m * n], vec![0.0; m * n]] {
                for vectors in [Vectors::Thin, Vectors::Full] {
                    let found = f64::gesdd(m, n, a.clone(), vectors, &ALONE).unwrap();
                    let count = |all| if vectors == Vectors::Full { all } else { m.min(n) };
                    assert_eq!((found.u.len(), found.v.len()), (m * count(m), n * count(n)));
                    assert!(farthest_from_orthogonal(m, &found.u) < 1e-13, "{m} {n}");
                    assert!(farthest_from_orthogonal(n, &found.v) < 1e-13, "{m} {n}");
                    let value = |i: usize, j: usize| -> f64 {
                        let of = |k: usize| found.s[k] * found.u[k * m + i] * found.v[k * n + j];
                        (0..m.min(n)).map(of).sum()
                    };
                    let near = |at: usize| (value(at % m, at / m) - a[at]).abs() < 1e-12;
                    assert!((0..m * n).all(near), "{m} {n}");
                }
            }
        }
    }

    #[test]
    fn single_precision_keeps_its_digits() {
        let n = 130;
        let a: Vec<f32> = scattered(n * n).into_iter().map(|value| value as f32).collect();
        let dot = |x: &[f32], y: &[f32]| -> f64 {
            x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
        };
        let column = |data: &[f32], j: usize| data[j * n..][..n].to_vec();
        let is_orthogonal = |basis: &[f32]| {
            let basis: Vec<_> = basis.iter().copied().map(f64::from).collect();
            farthest_from_orthogonal(n, &basis) < 5e-6
        };
        let found = f32::gesdd(n, n, a.clone(), Vectors::Full, &ALONE).unwrap();
        assert!(is_orthogonal(&found.u) && is_orthogonal(&found.v));
        let value = |i: usize, j: usize| -> f64 {
            let term = |k: usize| f64::from(found.u[k * n + i]) * f64::from(found.v[k * n + j]);
            (0..n).map(|k| f64::from(found.s[k]) * term(k)).sum()
        };
        assert!((0..n * n).all(|at| (value(at % n, at / n) - f64::from(a[at])).abs() < 1e-5));
        let symmetric: Vec<f32> = (0..n * n).map(|at| a[at] + a[at % n * n + at / n]).collect();
        let (values, vectors) = f32::heevd(n, symmetric.clone(), true, &ALONE).unwrap();
        assert!(is_orthogonal(&vectors) && values.is_sorted());
        for (k, &value) in values.iter().enumerate() {
            let vector = column(&vectors, k);
            for i in 0..n {
                let product = dot(&column(&symmetric, i), &vector);
                assert!((product - f64::from(value) * f64::from(vector[i])).abs() < 2e-5);
            }
        }
    }

    #[test]
    fn values_are_the_same_without_vectors() {
        for n in [1, 2, 3, 4, 7, 50, 130] {
            let graded = |(at, x): (usize, f64)| x * 0.8_f64.powi((at % n + at / n) as i32);
            let low = |at: usize| f64::from((at % n % 3) as u32) * f64::from((at / n % 4) as u32);
            let matrices = [
                scattered(n * n),
                scattered(n * n).into_iter().enumerate().map(graded).collect(),
                (0..n * n).map(low).collect(),
                (0..n * n).map(|at| f64::from(u8::from(at % (n + 1) == 0))).collect(),
                (0..n * n).map(|at| f64::from(u8::from((at % n).abs_diff(at / n) == 1))).collect(),
                vec![0.0; n * n],
                vec![1.0; n * n],
            ];
            for a in matrices {
                let symmetric: Vec<_> =
                    (0..n * n).map(|at| a[at] + a[at % n * n + at / n]).collect();
                let values = f64::heevd(n, symmetric.clone(), false, &ALONE).unwrap().0;
                let expected = f64::heevd(n, symmetric, true, &ALONE).unwrap().0;
                let largest = expected[n - 1].abs().max(expected[0].abs());
                let near = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-13 * largest;
                assert!(values.iter().zip(&expected).all(near), "{n} {values:?} {expected:?}");
                let values = f64::gesdd(n, n, a.clone(), Vectors::No, &ALONE).unwrap().s;
                let expected = f64::gesdd(n, n, a, Vectors::Full, &ALONE).unwrap().s;
                let near = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-13 * expected[0];
                assert!(values.iter().zip(&expected).all(near), "{n} {values:?} {expected:?}");
            }
        }
    }

    #[test]
    fn the_size_of_a_matrix_changes_no_digit() {
        for n in [5, 200] {
            let a = scattered(n * n);
            let (values, vectors) = f64::heevd(n, a.clone(), true, &ALONE).unwrap();
            let found = f64::gesdd(n, n, a.clone(), Vectors::Full, &ALONE).unwrap();
            let general = f64::geev(n, a.clone(), false).unwrap().0;
            for exponent in [-1000, -500, -70, 70, 500, 1000] {
                let unit = 2_f64.powi(exponent);
                let sized: Vec<_> = a.iter().map(|value| value * unit).collect();
                let back = |values: Vec<f64>| values.iter().map(|v| v / unit).collect::<Vec<_>>();
                let (again, basis) = f64::heevd(n, sized.clone(), true, &ALONE).unwrap();
                assert_eq!((back(again), basis), (values.clone(), vectors.clone()));
                let again = f64::gesdd(n, n, sized.clone(), Vectors::Full, &ALONE).unwrap();
                assert_eq!((back(again.s), &again.u), (found.s.clone(), &found.u));
                let again = f64::geev(n, sized, false).unwrap().0;
                assert!(again.iter().zip(&general).all(|(a, b)| a / unit == *b));
            }
        }
    }
}
