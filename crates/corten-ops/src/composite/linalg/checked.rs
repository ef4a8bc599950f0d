//! Factorisations and solutions that fail loudly, and powers.

use crate::meta::linalg::{check_info, check_numbers, check_solve_inputs, check_square};
use crate::{Tensor, op};
use corten_core::{MemoryFormat, Result, Scalar, ensure, geometry};

/// The Cholesky factor.
///
/// # Errors
/// `LinAlg` where a matrix is not positive-definite; those of `linalg_cholesky_ex`.
pub fn linalg_cholesky(self_: &Tensor, upper: bool) -> Result<Tensor> {
    let (factor, info) = op::linalg_cholesky_ex(self_, upper, false)?;
    check_info(&info, "linalg.cholesky")?;
    Ok(factor)
}

/// The solution of triangular systems, and a copy of their matrices.
///
/// # Errors
/// `Runtime` for shapes or dtypes that do not fit.
pub fn triangular_solve(
    self_: &Tensor,
    a: &Tensor,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> Result<(Tensor, Tensor)> {
    for (name, tensor) in [("b", self_), ("A", a)] {
        ensure!(
            tensor.dim() >= 2,
            Runtime,
            "torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {} \
             dimensions instead",
            tensor.dim()
        );
    }
    check_solve_inputs("triangular_solve", self_, a)?;
    let turned = if transpose { op::transpose_int(a, -2, -1)? } else { a.clone() };
    let found =
        op::linalg_solve_triangular(&turned, self_, upper != transpose, true, unitriangular)?;
    let mut sizes = found.sizes();
    let last = sizes.len() - 1;
    sizes[last] = a.size(-1)?;
    // The copy must remember where it comes from, so it is not written into fresh memory.
    let by_columns = op::transpose_int(&op::expand(a, &sizes, false)?, -2, -1)?;
    let copy = op::clone(&by_columns, Some(MemoryFormat::Contiguous))?;
    Ok((found, op::transpose_int(&copy, -2, -1)?))
}

/// The LU factors in one matrix.
///
/// # Errors
/// `Runtime` for a zero pivot; those of `linalg_lu_factor_ex`.
pub fn linalg_lu_factor(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor)> {
    let (factors, pivots, info) = op::linalg_lu_factor_ex(a, pivot, false)?;
    check_info(&info, "torch.linalg.lu_factor")?;
    Ok((factors, pivots))
}

/// The LU factors in one matrix, with the first zero pivot.
///
/// # Errors
/// Those of `linalg_lu_factor_ex`.
pub fn _lu_with_info(
    self_: &Tensor,
    pivot: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    op::linalg_lu_factor_ex(self_, pivot, check_errors)
}

/// The solution for matrices of which the factors are known.
///
/// # Errors
/// Those of `linalg_lu_solve`.
pub fn lu_solve(self_: &Tensor, lu_data: &Tensor, lu_pivots: &Tensor) -> Result<Tensor> {
    op::linalg_lu_solve(lu_data, lu_pivots, self_, true, false)
}

/// The factors of symmetric matrices.
///
/// # Errors
/// `Runtime` for a zero on the diagonal; those of `linalg_ldl_factor_ex`.
pub fn linalg_ldl_factor(self_: &Tensor, hermitian: bool) -> Result<(Tensor, Tensor)> {
    let (factors, pivots, info) = op::linalg_ldl_factor_ex(self_, hermitian, false)?;
    check_info(&info, "torch.linalg.ldl_factor")?;
    Ok((factors, pivots))
}

/// The solution of linear systems, with the first zero pivot.
///
/// # Errors
/// Those of `_linalg_solve_ex`.
pub fn linalg_solve_ex(
    a: &Tensor,
    b: &Tensor,
    left: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor)> {
    let (result, _, _, info) = op::_linalg_solve_ex(a, b, left, check_errors)?;
    Ok((result, info))
}

/// The solution of linear systems.
///
/// # Errors
/// `LinAlg` for a singular matrix; those of `_linalg_solve_ex`.
pub fn linalg_solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    let (result, _, _, info) = op::_linalg_solve_ex(a, b, left, false)?;
    check_info(&info, "torch.linalg.solve")?;
    Ok(result)
}

/// The inverses.
///
/// # Errors
/// `LinAlg` for a singular matrix; those of `linalg_inv_ex`.
pub fn linalg_inv(a: &Tensor) -> Result<Tensor> {
    let (inverse, info) = op::linalg_inv_ex(a, false)?;
    check_info(&info, "linalg.inv")?;
    Ok(inverse)
}

fn product(sizes: &[i64]) -> Result<i64> {
    geometry::checked_numel(sizes)
}

/// The inverse with respect to `tensordot` over the last `ind` dimensions.
///
/// # Errors
/// `Runtime` for sizes that do not fit, `LinAlg` where there is no inverse.
pub fn linalg_tensorinv(self_: &Tensor, ind: i64) -> Result<Tensor> {
    ensure!(ind > 0, Runtime, "Expected a strictly positive integer for 'ind', but got {ind}");
    let sizes = self_.sizes();
    let (first, last) = sizes.split_at((ind as usize).min(sizes.len()));
    let (rows, cols) = (product(first)?, product(last)?);
    ensure!(
        rows == cols,
        Runtime,
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), \
         but got {cols} != {rows}"
    );
    let (inverse, info) = op::linalg_inv_ex(&op::reshape(self_, &[cols, cols])?, false)?;
    check_info(&info, "inv")?;
    op::reshape(&inverse, &[last, first].concat())
}

/// The solution with respect to `tensordot`.
///
/// # Errors
/// `Runtime` for sizes that do not fit, `LinAlg` for a singular tensor.
pub fn linalg_tensorsolve(self_: &Tensor, other: &Tensor, dims: Option<&[i64]>) -> Result<Tensor> {
    let mut a = self_.clone();
    if let Some(dims) = dims {
        let rank = a.dim() as i64;
        let ends: Vec<i64> = (rank - dims.len() as i64..rank).collect();
        a = op::movedim_intlist(&a, dims, &ends)?;
    }
    let sizes = a.sizes();
    let result = &sizes[other.dim().min(sizes.len())..];
    let (count, wanted) = (product(result)?, other.numel());
    ensure!(
        count == wanted,
        Runtime,
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == \
         prod(self.shape[:other.ndim]), but got {count} != {wanted}"
    );
    let matrix = op::reshape(&a, &[count, count])?;
    let found = op::linalg_solve(&matrix, &op::reshape(other, &[-1])?, true)?;
    op::reshape(&found, result)
}

/// The determinants.
///
/// # Errors
/// Those of `_linalg_det`.
pub fn linalg_det(a: &Tensor) -> Result<Tensor> {
    Ok(op::_linalg_det(a)?.0)
}

/// The signs of the determinants, and the logarithms of their absolute values.
///
/// # Errors
/// Those of `_linalg_slogdet`.
pub fn linalg_slogdet(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let (sign, log, _, _) = op::_linalg_slogdet(a)?;
    Ok((sign, log))
}

/// The logarithms of the determinants; NaN for negative ones.
///
/// # Errors
/// As [`linalg_slogdet`].
pub fn logdet(self_: &Tensor) -> Result<Tensor> {
    check_square(self_, "logdet")?;
    check_numbers(self_, "logdet", false)?;
    let (sign, log) = op::linalg_slogdet(self_)?;
    if self_.dtype().is_complex() {
        return op::add_tensor(&op::log(&sign)?, &log, Scalar::Int(1));
    }
    let negative = op::eq_scalar(&sign, Scalar::Int(-1))?;
    op::where_scalarself(&negative, Scalar::Float(f64::NAN), &log)
}

/// An integral power, by repeated squaring.
///
/// # Errors
/// `Runtime` for other than square matrices; `LinAlg` for negative powers of singular ones.
pub fn linalg_matrix_power(self_: &Tensor, n: i64) -> Result<Tensor> {
    check_square(self_, "linalg.matrix_power")?;
    match n {
        0 => {
            // Written over a copy, so that the result has a history.
            let copy = op::clone(self_, Some(MemoryFormat::Contiguous))?;
            return op::copy_(&copy, &crate::any::linalg::identity(self_)?, false);
        }
        1 => return op::clone(self_, None),
        -1 => return op::linalg_inv(self_),
        _ => {}
    }
    let mut square = if n < 0 { op::linalg_inv(self_)? } else { self_.clone() };
    let mut left = n.unsigned_abs();
    let mut result: Option<Tensor> = None;
    loop {
        if left & 1 == 1 {
            result = Some(match result {
                None => square.clone(),
                Some(result) => op::matmul(&result, &square)?,
            });
        }
        left >>= 1;
        match result {
            Some(result) if left == 0 => return Ok(result),
            _ => square = op::matmul(&square, &square)?,
        }
    }
}
