//! Eigenvalues and singular values, computed in double precision, and those of large symmetric matrices
//! and singular values of large real ones in their own.

use super::blas::Cpu;
use super::matrices::{Number, by_columns, reading_columns, shape};
use crate::kernels::support::contiguous;
use corten_core::{
    Access, AccessSet, Complex, Element, Result, Scalar, bail, cast, check_memory, ensure,
    match_dtype, try_to_vec, unwinding,
};
use corten_linalg::{Eigen, General, NoConvergence, Spectral, Svd, Vectors};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use num_complex::ComplexFloat;

/// From so many rows and columns on double precision takes noticeably longer. Single precision has its
/// digits where vectors are wanted, since matrices are divided then; values alone take double precision,
/// which costs them little.
const LARGE: usize = 96;

type Real<T> = <T as ComplexFloat>::Real;

/// Singular values, the largest first, between the left singular vectors and the right ones.
type Parts<T> = (Vec<T>, Vec<Real<T>>, Vec<T>);

/// A number and the same in double precision.
trait Widened: Number {
    type Wide: General<Real = f64> + Number + ComplexFloat<Real = f64>;

    /// The eigenvalues and eigenvectors of a Hermitian matrix; with `turned`, the last number of every
    /// vector is made real.
    fn eigh(n: usize, a: Vec<Self>, vectors: bool, turned: bool) -> Found<Eigen<Real<Self>, Self>> {
        wide_eigh(n, &a, vectors, turned)
    }

    fn svd(m: usize, n: usize, a: &[Self], vectors: Vectors) -> Found<Parts<Self>> {
        wide_svd(m, n, a, vectors)
    }
}

fn wide_eigh<T: Widened>(
    n: usize,
    a: &[T],
    vectors: bool,
    turned: bool,
) -> Found<Eigen<Real<T>, T>> {
    let (values, mut basis) = T::Wide::heevd(n, cast_all(a), vectors, &Cpu)?;
    if turned {
        basis.chunks_exact_mut(n).for_each(turn);
    }
    Ok((cast_all(&values), cast_all(&basis)))
}

fn wide_svd<T: Widened>(m: usize, n: usize, a: &[T], vectors: Vectors) -> Found<Parts<T>> {
    let Svd { u, s, v } = T::Wide::gesdd(m, n, cast_all(a), vectors, &Cpu)?;
    Ok((cast_all(&u), cast_all(&s), cast_all(&v)))
}

type Found<T> = std::result::Result<T, NoConvergence>;

impl Widened for f32 {
    type Wide = f64;

    fn eigh(n: usize, a: Vec<f32>, vectors: bool, turned: bool) -> Found<Eigen<f32, f32>> {
        match n >= LARGE && vectors {
            true => Spectral::heevd(n, a, vectors, &Cpu),
            false => wide_eigh(n, &a, vectors, turned),
        }
    }

    fn svd(m: usize, n: usize, a: &[f32], vectors: Vectors) -> Found<Parts<f32>> {
        // Those of long matrices begin with a factorisation that loses digits of small columns.
        let (short, long) = (m.min(n), m.max(n));
        if short < LARGE || 2 * long > 3 * short || vectors == Vectors::No {
            return wide_svd(m, n, a, vectors);
        }
        let Svd { u, s, v } = Spectral::gesdd(m, n, unwinding::to_vec(a), vectors, &Cpu)?;
        Ok((u, s, v))
    }
}
impl Widened for f64 {
    type Wide = f64;
}
impl Widened for Complex<f32> {
    type Wide = Complex<f64>;
}
impl Widened for Complex<f64> {
    type Wide = Complex<f64>;
}

/// Fails where a decomposition finds no memory to work in: the libraries allocate without asking.
fn check_room<T: Widened>(m: usize, n: usize, vectors: Vectors) -> Result<()> {
    /// Copies, reflections and bases, each of the size of a matrix or of a square one.
    const MATRICES: usize = 8;
    let wide = if vectors == Vectors::Full { m.max(n) } else { m.min(n) };
    let numbers = m.max(n).saturating_mul(wide).saturating_mul(MATRICES);
    check_memory(numbers.saturating_mul(size_of::<T::Wide>()))
}

fn cast_all<A: Element, B: Element>(values: &[A]) -> Vec<B> {
    unwinding::collect(values.iter().map(|&value| cast(value)))
}

/// Writes one part of a batch.
fn put<A: Element, B: Element>(out: &Tensor, index: usize, values: &[A]) -> Result<()> {
    let set = AccessSet::acquire(&[(out.base(), Access::Write)])?;
    let data = set.write::<B>(0)?;
    let start = index * values.len();
    for (place, &value) in data[start..][..values.len()].iter_mut().zip(values) {
        *place = cast(value);
    }
    Ok(())
}

fn count(tensor: &Tensor) -> usize {
    let sizes = tensor.sizes();
    sizes[..sizes.len() - 2].iter().product::<i64>() as usize
}

/// ` (Batch element i):` for the matrices of a batch.
fn place(tensor: &Tensor, index: usize) -> String {
    if tensor.dim() > 2 { format!("(Batch element {index}): ") } else { String::new() }
}

fn all_finite<T: Number>(matrix: &[T]) -> bool {
    matrix.iter().all(|value| value.re().is_finite() && value.im().is_finite())
}

/// The eigenvalues of Hermitian matrices, the smallest first, and their eigenvectors.
///
/// # Errors
/// Those of the shapes; `LinAlg` where the iteration does not converge; `NotImplemented` for half
/// precision.
pub fn _linalg_eigh(a: &Tensor, uplo: &str, compute_v: bool) -> Result<(Tensor, Tensor)> {
    let (values, vectors) = shapes::_linalg_eigh(a, uplo, compute_v)?;
    let n = shape(a)?[0];
    if a.numel() == 0 {
        return Ok((values, vectors));
    }
    let lower = uplo.eq_ignore_ascii_case("L");
    let work = if lower { by_columns(a)? } else { by_columns(&super::matrices::adjoint(a)?)? };
    let flat = if compute_v { op::transpose_int(&vectors, -2, -1)? } else { vectors.clone() };
    match_dtype!(a.dtype(), "linalg_eigh_cpu", Blas, T => {
        reading_columns::<T, _>(&work, |matrices| {
            check_room::<T>(n, n, Vectors::Thin)?;
            for i in 0..count(a) {
                let mut matrix = try_to_vec(matrices.get(i))?;
                // The diagonal of a Hermitian matrix is real, whatever stands there.
                matrix.iter_mut().step_by(n + 1).for_each(|value| *value = cast(value.re()));
                let found = match all_finite(matrices.get(i)) {
                    true => <T as Widened>::eigh(n, matrix, compute_v, !lower),
                    false => Err(NoConvergence),
                };
                match found {
                    Ok((found, basis)) => {
                        put::<_, Real<T>>(&values, i, &found)?;
                        if compute_v {
                            put::<_, T>(&flat, i, &basis)?;
                        }
                    }
                    _ => bail!(
                        LinAlg,
                        "linalg.eigh: {}The algorithm failed to converge because the input matrix \
                         is ill-conditioned or has too many repeated eigenvalues (error code: {}).",
                        place(a, i),
                        if compute_v { n.saturating_sub(1).max(1) } else { 1 }
                    ),
                }
            }
            Ok(())
        })
    })?;
    Ok((values, vectors))
}

/// The singular values, the largest first, with both bases.
///
/// # Errors
/// Those of the shapes; `LinAlg` where the iteration does not converge; `NotImplemented` for half
/// precision.
pub fn _linalg_svd(
    a: &Tensor,
    full_matrices: bool,
    compute_uv: bool,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (u, s, vh) = shapes::_linalg_svd(a, full_matrices, compute_uv, driver)?;
    if a.numel() == 0 {
        for basis in [&u, &vh] {
            if compute_uv && basis.numel() > 0 {
                op::zero_(basis)?;
                op::fill__scalar(&op::diagonal(basis, 0, -2, -1)?, Scalar::Int(1))?;
            }
        }
        return Ok((u, s, vh));
    }
    let [m, n] = shape(a)?;
    let work = by_columns(a)?;
    let wanted = match (compute_uv, full_matrices) {
        (false, _) => Vectors::No,
        (true, false) => Vectors::Thin,
        (true, true) => Vectors::Full,
    };
    // What comes as columns of V is put down as rows of its adjoint.
    let v = if compute_uv {
        op::empty_like(&contiguous(&vh)?, None, None, None, None, None)?
    } else {
        vh.clone()
    };
    let flat = if compute_uv { op::transpose_int(&u, -2, -1)? } else { u.clone() };
    match_dtype!(a.dtype(), "linalg_svd_cpu", Blas, T => {
        reading_columns::<T, _>(&work, |matrices| {
            check_room::<T>(m, n, wanted)?;
            for i in 0..count(a) {
                let fine = all_finite(matrices.get(i));
                ensure!(fine, LinAlg, "{}", diverged(a, i, fine, m.min(n)));
                let found = <T as Widened>::svd(m, n, matrices.get(i), wanted);
                let Ok((left, found, right)) = found else {
                    bail!(LinAlg, "{}", diverged(a, i, fine, m.min(n)))
                };
                put::<_, Real<T>>(&s, i, &found)?;
                if compute_uv {
                    put::<_, T>(&flat, i, &left)?;
                    put::<_, T>(&v, i, &right)?;
                }
            }
            Ok(())
        })
    })?;
    if compute_uv {
        op::copy_(&vh, &op::conj_physical(&v)?, false)?;
    }
    Ok((u, s, vh))
}

fn diverged(a: &Tensor, index: usize, finite: bool, size: usize) -> String {
    let place = place(a, index);
    match finite {
        true => format!(
            "linalg.svd: {place}The algorithm failed to converge because the input matrix is \
             ill-conditioned or has too many repeated singular values (error code: {size})."
        ),
        false => format!(
            "linalg.svd: {place}The algorithm failed to converge because the input matrix \
             contained non-finite values."
        ),
    }
}

/// The eigenvalues of square matrices, and their eigenvectors of length 1.
///
/// # Errors
/// Those of the shapes; `Runtime` for numbers that are not finite; `LinAlg` where the iteration
/// does not converge; `NotImplemented` for half precision.
pub fn linalg_eig(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let (values, vectors) = shapes::linalg_eig(self_)?;
    eig(self_, &values, Some(&vectors))?;
    Ok((values, vectors))
}

/// The eigenvalues of square matrices.
///
/// # Errors
/// As [`linalg_eig`].
pub fn _linalg_eigvals(self_: &Tensor) -> Result<Tensor> {
    let values = shapes::_linalg_eigvals(self_)?;
    eig(self_, &values, None)?;
    Ok(values)
}

fn eig(a: &Tensor, values: &Tensor, vectors: Option<&Tensor>) -> Result<()> {
    if a.numel() == 0 {
        return Ok(());
    }
    let n = shape(a)?[0];
    let work = by_columns(a)?;
    let flat = vectors.map(|vectors| op::transpose_int(vectors, -2, -1)).transpose()?;
    match_dtype!(a.dtype(), "linalg_eig_out_cpu", Blas, T => {
        reading_columns::<T, _>(&work, |matrices| {
            ensure!(
                (0..count(a)).all(|i| all_finite(matrices.get(i))),
                Runtime,
                "torch.linalg.eig: input tensor should not contain infs or NaNs."
            );
            check_room::<T>(n, n, Vectors::Full)?;
            for i in 0..count(a) {
                let matrix = cast_all(matrices.get(i));
                let Ok((found, mut basis)) = <T as Widened>::Wide::geev(n, matrix, flat.is_some())
                else {
                    bail!(
                        LinAlg,
                        "linalg.eig: {}The algorithm failed to converge because the input matrix \
                         is ill-conditioned or has too many repeated eigenvalues (error code: \
                         {n}).",
                        place(a, i)
                    )
                };
                put::<_, Complex<Real<T>>>(values, i, &found)?;
                if let Some(flat) = &flat {
                    basis.chunks_exact_mut(n).for_each(normalise);
                    put::<_, Complex<Real<T>>>(flat, i, &basis)?;
                }
            }
            Ok(())
        })
    })
}

/// The last number real, as LAPACK leaves it where it reads the upper triangle.
fn turn<W: Element + ComplexFloat<Real = f64>>(vector: &mut [W]) {
    let Some(last) = vector.last().copied().filter(|last| last.im() != 0.0) else { return };
    let phase = last.conj() / cast::<f64, W>(ComplexFloat::abs(last));
    vector.iter_mut().for_each(|value| *value = *value * phase);
}

/// Length 1, and the largest number real.
fn normalise(vector: &mut [Complex<f64>]) {
    let largest = vector.iter().fold(Complex::new(0.0, 0.0), |most: Complex<f64>, &value| {
        if value.norm_sqr() > most.norm_sqr() { value } else { most }
    });
    let norm = vector.iter().map(|value| value.norm_sqr()).sum::<f64>().sqrt();
    let size = largest.norm();
    if size == 0.0 || !norm.is_finite() {
        return;
    }
    // A vector that is real stays as it is.
    let phase = match vector.iter().all(|value| value.im == 0.0) {
        true => Complex::new(1.0, 0.0),
        false => largest.conj() / size,
    };
    vector.iter_mut().for_each(|value| *value = *value * phase / norm);
}
