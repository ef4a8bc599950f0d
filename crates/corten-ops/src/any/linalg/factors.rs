//! Factors that are made of other ones.

use super::{adjoint, identity, in_columns};
use crate::meta::linalg::{check_kernel, check_matrix, check_numbers, check_square, columns};
use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, bail};

/// The inverse of `L Lᴴ`, or `Uᴴ U`, of which one triangle is given.
///
/// # Errors
/// `Runtime` for other than square matrices, `LinAlg` for a zero on the diagonal.
pub fn cholesky_inverse(self_: &Tensor, upper: bool) -> Result<Tensor> {
    check_square(self_, "cholesky_inverse")?;
    check_kernel(self_, "cholesky_inverse_out_cpu")?;
    if self_.device().is_meta() {
        return columns(&self_.sizes(), self_.dtype(), self_.device());
    }
    let lower = if upper { adjoint(self_)? } else { self_.clone() };
    if !self_.device().is_meta() && self_.numel() > 0 {
        check_diagonal(&lower)?;
    }
    let inverse = op::new_zeros(&lower, &lower.sizes(), None, None, None, None)?;
    invert_lower(&lower, &inverse)?;
    in_columns(&gram_of_lower(&inverse)?)
}

/// Columns that are treated at once; what they leave of a triangle is products of matrices.
const BLOCK: i64 = 64;

/// The block of a matrix from a row and a column on.
fn block(a: &Tensor, row: i64, rows: i64, col: i64, cols: i64) -> Result<Tensor> {
    op::narrow(&op::narrow(a, -2, row, rows)?, -1, col, cols)
}

/// Puts the inverse of a lower triangle in place of zeros, by halves.
fn invert_lower(a: &Tensor, inverse: &Tensor) -> Result<()> {
    let n = a.size(-1)?;
    if n <= BLOCK {
        let found = op::linalg_solve_triangular(a, &identity(a)?, false, true, false)?;
        return op::copy_(inverse, &found, false).map(drop);
    }
    let (half, rest) = (n / 2, n - n / 2);
    let (first, last) =
        (block(inverse, 0, half, 0, half)?, block(inverse, half, rest, half, rest)?);
    invert_lower(&block(a, 0, half, 0, half)?, &first)?;
    invert_lower(&block(a, half, rest, half, rest)?, &last)?;
    let below = op::matmul(&block(a, half, rest, 0, half)?, &first)?;
    let below = op::neg(&op::matmul(&last, &below)?)?;
    op::copy_(&block(inverse, half, rest, 0, half)?, &below, false).map(drop)
}

/// `Lᴴ L`, of which the upper half is computed.
fn gram_of_lower(a: &Tensor) -> Result<Tensor> {
    let n = a.size(-1)?;
    let out = op::empty_like(a, None, None, None, None, None)?;
    let turned = adjoint(a)?;
    let mut start = 0;
    while start < n {
        let width = BLOCK.min(n - start);
        // Above row `start` the columns hold zeros.
        let left = block(&turned, 0, start + width, start, n - start)?;
        let found = op::matmul(&left, &block(a, start, n - start, start, width)?)?;
        op::copy_(&block(&out, 0, start + width, start, width)?, &found, false)?;
        let mirrored = adjoint(&op::narrow(&found, -2, 0, start)?)?;
        op::copy_(&block(&out, start, width, 0, start)?, &mirrored, false)?;
        start += width;
    }
    Ok(out)
}

fn check_diagonal(a: &Tensor) -> Result<()> {
    let zeros = op::eq_scalar(&op::diagonal(a, 0, -2, -1)?, Scalar::Int(0))?;
    if !op::item(&op::any(&zeros)?)?.to_bool() {
        return Ok(());
    }
    let zeros = op::to_dtype(&op::reshape(&zeros, &[-1])?, DType::Int32, false, false, None)?;
    let place = op::item(&op::argmax(&zeros, None, false)?)?.to_i64();
    let size = a.size(-1)?;
    let batch =
        if a.dim() > 2 { format!("(Batch element {}): ", place / size) } else { String::new() };
    bail!(
        LinAlg,
        "cholesky_inverse: {batch}The diagonal element {} is zero, the inversion could not be \
         completed because the input matrix is singular.",
        place % size + 1
    )
}

/// `A = P L U`.
///
/// # Errors
/// Those of `linalg_lu_factor_ex`.
pub fn linalg_lu(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let (factors, pivots, _) = op::linalg_lu_factor_ex(a, pivot, false)?;
    op::lu_unpack(&factors, &pivots, true, true)
}

/// `A = Q R`, reduced, complete, or `R` alone.
///
/// # Errors
/// `Runtime` for an unknown mode and below rank 2, `NotImplemented` for integers.
pub fn linalg_qr(a: &Tensor, mode: &str) -> Result<(Tensor, Tensor)> {
    check_matrix(a, "linalg.qr", "A")?;
    check_numbers(a, "linalg.qr", true)?;
    let complete = match mode {
        "reduced" | "r" => false,
        "complete" => true,
        other => bail!(
            Runtime,
            "qr received unrecognized mode '{other}' but expected one of 'reduced' (default), 'r', \
             or 'complete'"
        ),
    };
    let [rows, cols] = [a.size(-2)?, a.size(-1)?];
    let steps = rows.min(cols);
    let (packed, tau) = op::geqrf(a)?;
    let height = if complete { rows } else { steps };
    let r = in_columns(&op::triu(&op::narrow(&packed, -2, 0, height)?, 0)?)?;
    if mode == "r" {
        return Ok((op::new_empty(a, &[0], None, None, None, None)?, r));
    }
    let mut sizes = a.sizes();
    let last = sizes.len() - 1;
    sizes[last] = height;
    let reflections = if height == cols {
        packed
    } else {
        let wide = columns(&sizes, a.dtype(), a.device())?;
        op::zero_(&wide)?;
        let target = op::narrow(&wide, -1, 0, steps)?;
        op::copy_(&target, &op::narrow(&packed, -1, 0, steps)?, false)?;
        wide
    };
    Ok((op::linalg_householder_product(&reflections, &tau)?, r))
}
