//! QR factorisations, and products with their orthogonal factors.

use super::blas::Cpu;
use super::matrices::{
    adjoint, by_columns, each, each_with, fitted, fitted_vectors, in_columns, reading,
    reading_columns, shape,
};
use crate::kernels::support::contiguous;
use corten_core::{Result, Scalar, match_dtype};
use corten_linalg::Lapack;
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};

/// `R` on and above the diagonal, and the reflections that lead to it below.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn geqrf(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let (out, tau) = shapes::geqrf(self_)?;
    op::copy_(&out, self_, false)?;
    let [rows, cols] = shape(self_)?;
    match_dtype!(self_.dtype(), "geqrf_cpu", Blas, T => {
        each_with::<T, T>(&out, (&tau, rows.min(cols)), |_, a, tau| {
            T::geqrf(&Cpu, a, rows, tau);
            Ok(())
        })
    })?;
    Ok((out, tau))
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
    match_dtype!(out.dtype(), name, Blas, T => {
        reading::<T, _>(&tau, count, |tau| reading_columns::<T, _>(&vectors, |vectors| {
            each::<T>(out, |i, x| {
                T::ormqr(&Cpu, vectors.get(i), rows, tau.get(i), x, adjoint);
                Ok(())
            })
        }))
    })
}
