//! Reflections: `H = 1 - τ v vᴴ`, with `v` below the diagonal of a column and 1 on it.

use super::matrices::{
    Number, adjoint, by_columns, each, each_with, fitted, fitted_vectors, in_columns, match_number,
    reading, reading_columns, shape,
};
use crate::kernels::support::contiguous;
use corten_core::{Result, Scalar};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use num_complex::ComplexFloat;

/// `R` on and above the diagonal, and the reflections that lead to it below.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn geqrf(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let (out, tau) = shapes::geqrf(self_)?;
    op::copy_(&out, self_, false)?;
    let [rows, cols] = shape(self_)?;
    match_number!(self_.dtype(), "geqrf_cpu", T => {
        each_with::<T, T>(&out, (&tau, rows.min(cols)), |_, a, tau| {
            for (j, tau) in tau.iter_mut().enumerate() {
                let (column, rest) = a[j * rows..].split_at_mut(rows);
                *tau = reflect(&mut column[j..]);
                for other in rest.chunks_exact_mut(rows) {
                    apply(&column[j..], tau.conj(), &mut other[j..]);
                }
            }
            Ok(())
        })
    })?;
    Ok((out, tau))
}

/// Makes the reflection that takes a vector to a multiple of the first unit vector: the factor is
/// left in front, the reflection's vector behind it.
fn reflect<T: Number>(x: &mut [T]) -> T {
    let zero = <T::Real as num_complex::ComplexFloat>::re(T::zero().re());
    let alpha = x[0];
    let largest =
        x.iter().fold(zero, |most, value| if value.size() > most { value.size() } else { most });
    let tail = x[1..].iter().any(|&value| value != T::zero());
    if !tail && alpha.im() == zero {
        return T::zero();
    }
    // Scaled, so that no square leaves the range.
    let scaled = x.iter().map(|&value| ComplexFloat::abs(value / T::real(largest)));
    let norm = ComplexFloat::sqrt(scaled.fold(zero, |sum, size| sum + size * size)) * largest;
    let beta = T::real(if alpha.re() >= zero { -norm } else { norm });
    let tau = (beta - alpha) / beta;
    let divisor = alpha - beta;
    x[1..].iter_mut().for_each(|value| *value = *value / divisor);
    x[0] = beta;
    tau
}

/// `x = (1 - τ v vᴴ) x`, the first number of `v` taken as 1.
fn apply<T: Number>(v: &[T], tau: T, x: &mut [T]) {
    if tau == T::zero() {
        return;
    }
    let mut dot = x[0];
    for (&v, &x) in v[1..].iter().zip(&x[1..]) {
        dot = dot + v.conj() * x;
    }
    let factor = tau * dot;
    x[0] = x[0] - factor;
    for (&v, x) in v[1..].iter().zip(&mut x[1..]) {
        *x = *x - v * factor;
    }
}

/// The first columns of the product of reflections.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn linalg_householder_product(input: &Tensor, tau: &Tensor) -> Result<Tensor> {
    let out = shapes::linalg_householder_product(input, tau)?;
    op::zero_(&out)?;
    op::fill__scalar(&op::diagonal(&out, 0, -2, -1)?, Scalar::Int(1))?;
    multiply(input, tau, &out, false, "orgqr_cpu")?;
    Ok(out)
}

/// The product of reflections times other matrices, on the left or the right, or its adjoint.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn ormqr(
    self_: &Tensor,
    input2: &Tensor,
    input3: &Tensor,
    left: bool,
    transpose: bool,
) -> Result<Tensor> {
    let out = shapes::ormqr(self_, input2, input3, left, transpose)?;
    if left {
        op::copy_(&out, input3, false)?;
        multiply(self_, input2, &out, transpose, "ormqr_cpu")?;
        return Ok(out);
    }
    // `C Q` is `(Qᴴ Cᴴ)ᴴ`.
    let work = by_columns(&adjoint(input3)?)?;
    multiply(self_, input2, &work, !transpose, "ormqr_cpu")?;
    op::copy_(&out, &adjoint(&work)?, false)
}

/// Multiplies matrices that lie by columns with `H1 H2 …` or its adjoint.
fn multiply(
    input: &Tensor,
    tau: &Tensor,
    out: &Tensor,
    adjoint: bool,
    name: &'static str,
) -> Result<()> {
    if out.numel() == 0 || tau.numel() == 0 {
        return Ok(());
    }
    let sizes = out.sizes();
    let batch = &sizes[..sizes.len() - 2];
    let rows = shape(out)?[0];
    let vectors = in_columns(&fitted(input, batch)?)?;
    let count = tau.size(-1)? as usize;
    let tau = contiguous(&fitted_vectors(tau, batch)?)?;
    match_number!(out.dtype(), name, T => {
        reading::<T, _>(&tau, count, |tau| reading_columns::<T, _>(&vectors, |vectors| {
            each::<T>(out, |i, x| {
                let (vectors, tau) = (vectors.get(i), tau.get(i));
                for step in 0..count {
                    let j = if adjoint { step } else { count - 1 - step };
                    let factor = if adjoint { tau[j].conj() } else { tau[j] };
                    for column in x.chunks_exact_mut(rows) {
                        apply(&vectors[j * rows + j..][..rows - j], factor, &mut column[j..]);
                    }
                }
                Ok(())
            })
        }))
    })
}
