//! Triangular systems.

use super::blas::Cpu;
use super::matrices::{each, fitted, in_columns, reading_columns, shape};
use corten_core::{Result, match_dtype};
use corten_linalg::{Lapack, RightHandSides, Triangular};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};

/// `A X = B` for a triangular `A`, or `X A = B`.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for other numbers than floats and complex ones.
pub fn linalg_solve_triangular(
    self_: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    let out = shapes::linalg_solve_triangular(self_, b, upper, left, unitriangular)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    op::copy_(&out, b, false)?;
    let sizes = out.sizes();
    let a = fitted(self_, &sizes[..sizes.len() - 2])?;
    let by_rows = a.is_contiguous() && !a.is_conj();
    let a = if by_rows { op::transpose_int(&a, -2, -1)? } else { in_columns(&a)? };
    let [size, _] = shape(&a)?;
    let rows = shape(&out)?[0];
    match_dtype!(out.dtype(), "triangular_solve_cpu", Blas, T => {
        reading_columns::<T, _>(&a, |matrices| {
            each::<T>(&out, |i, x| {
                // `X A = B` is solved as `Aᵀ Xᵀ = Bᵀ`.
                let (upper, unit, transposed) = (upper == left, unitriangular, by_rows == left);
                let triangle = Triangular { upper, unit, transposed };
                let x = match left {
                    true => RightHandSides::Columns(x),
                    false => RightHandSides::Rows(x, rows),
                };
                T::trtrs(&Cpu, size, matrices.get(i), triangle, x);
                Ok(())
            })
        })
    })?;
    Ok(out)
}
