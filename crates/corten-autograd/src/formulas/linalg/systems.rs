//! Gradients of the solutions of linear systems, of inverses and determinants.

use super::{adjoint, diagonal_matrix, given, minus, product, triangle_of};
use crate::formulas::any::has_any;
use corten_core::{Result, Scalar, grad_mode_enabled};
use corten_ops::{Tensor, op};

/// $A^{-H}g$ for the right-hand side, $-g_B X^H$ for the matrix.
///
/// # Errors
/// Those of the operators; for the functions below likewise.
pub fn linalg_solve_triangular_backward(
    needs: &[bool],
    grad: &Tensor,
    a: &Tensor,
    result: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Vec<Tensor>> {
    let of_b = op::linalg_solve_triangular(&adjoint(a)?, grad, !upper, left, unitriangular)?;
    let mut of_a = Tensor::undefined();
    if needs[0] {
        of_a = triangle_of(&op::neg(&outer(&of_b, result, left)?)?, upper, unitriangular)?;
    }
    Ok(vec![of_a, of_b])
}

/// What a change of the matrix does, up to its sign.
fn outer(of_b: &Tensor, x: &Tensor, left: bool) -> Result<Tensor> {
    match left {
        true => product(&[of_b, &adjoint(x)?]),
        false => product(&[&adjoint(x)?, of_b]),
    }
}

/// As [`linalg_solve_triangular_backward`]; without a further derivative the factors serve again.
///
/// # Errors
/// As there.
pub fn linalg_solve_backward(
    needs: &[bool],
    grad: &Tensor,
    a: &Tensor,
    result: &Tensor,
    factors: &Tensor,
    pivots: &Tensor,
    left: bool,
    b_sizes: &[i64],
) -> Result<Vec<Tensor>> {
    let sizes = a.sizes();
    let vector = b_sizes.len() == 1
        || (sizes.len() == b_sizes.len() + 1 && *b_sizes == sizes[..sizes.len() - 1]);
    let matrix = |t: &Tensor| if vector { op::unsqueeze(t, -1) } else { Ok(t.clone()) };
    let (grad, x) = (matrix(grad)?, matrix(result)?);
    let of_b = match grad_mode_enabled() {
        true => op::linalg_solve(&adjoint(a)?, &grad, left)?,
        false => op::linalg_lu_solve(factors, pivots, &grad, left, true)?,
    };
    let mut of_a = Tensor::undefined();
    if needs[0] {
        of_a = op::neg(&outer(&of_b, &x, left)?)?;
    }
    let of_b = if vector { op::squeeze_dim(&of_b, -1)? } else { of_b };
    Ok(vec![of_a, of_b])
}

/// $-A^{-H}gA^{-H}$.
///
/// # Errors
/// As there.
pub fn inverse_backward(grad: &Tensor, inverse: &Tensor) -> Result<Tensor> {
    let turned = adjoint(inverse)?;
    op::neg(&product(&[&turned, grad, &turned])?)
}

fn smallest(a: &Tensor) -> f64 {
    if a.dtype().to_real().itemsize() == 8 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// $g\,\overline{\det A}\,A^{-H}$; for singular matrices the limit.
///
/// # Errors
/// As there.
pub fn det_backward(
    grad: &Tensor,
    det: &Tensor,
    a: &Tensor,
    factors: &Tensor,
    pivots: &Tensor,
) -> Result<Tensor> {
    let scale = op::mul_tensor(grad, &op::conj(det)?)?;
    if !grad_mode_enabled() {
        // A change of the factors in the last digit makes them invertible.
        let zero = op::eq_scalar(&super::diagonal(factors)?, Scalar::Int(0))?;
        let shift = op::to_dtype(&zero, factors.dtype(), false, false, None)?;
        let shift = diagonal_matrix(&op::mul_scalar(&shift, Scalar::Float(smallest(a)))?)?;
        let factors = super::plus(factors, &shift)?;
        let scale = match has_any(&zero)? {
            true => op::mul_tensor(grad, &op::conj(&det_of(&factors, pivots, a)?)?)?,
            false => scale,
        };
        let right = scaled_identity(&scale, a)?;
        return op::linalg_lu_solve(&factors, pivots, &right, true, true);
    }
    if has_any(&op::eq_scalar(det, Scalar::Int(0))?)? {
        return det_by_values(grad, a);
    }
    let right = scaled_identity(&scale, a)?;
    Ok(op::linalg_solve_ex(&adjoint(a)?, &right, true, false)?.0)
}

/// The determinant of changed factors, with the sign of the exchanges.
fn det_of(factors: &Tensor, pivots: &Tensor, like: &Tensor) -> Result<Tensor> {
    let (p, _, _) = op::lu_unpack(factors, pivots, false, true)?;
    let sign = op::det(&p)?;
    let product = op::prod_dim_int(&super::diagonal(factors)?, -1, false, None)?;
    op::mul_tensor(&product, &op::to_dtype(&sign, like.dtype(), false, false, None)?)
}

/// Multiples of identity matrices.
fn scaled_identity(scale: &Tensor, a: &Tensor) -> Result<Tensor> {
    let sizes = a.sizes();
    let values = op::expand(&op::unsqueeze(scale, -1)?, &sizes[..sizes.len() - 1], false)?;
    diagonal_matrix(&values)
}

/// By singular values, of which one may be zero.
fn det_by_values(grad: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (u, s, vh) = op::linalg_svd(a, false, None)?;
    let phase = op::conj(&op::mul_tensor(&op::det(&u)?, &op::det(&vh)?)?)?;
    let alpha = op::mul_tensor(&phase, grad)?;
    let others = products_of_others(&s)?;
    let scaled = op::mul_tensor(&op::unsqueeze(&alpha, -1)?, &others)?;
    product(&[&op::mul_tensor(&u, &op::unsqueeze(&scaled, -2)?)?, &vh])
}

/// For every value the product of the other ones.
fn products_of_others(s: &Tensor) -> Result<Tensor> {
    let one = op::ones_like(&op::narrow(s, -1, 0, 1)?, None, None, None, None, None)?;
    let count = s.size(-1)?;
    let before = op::cat(&[one.clone(), op::narrow(s, -1, 0, count - 1)?], -1)?;
    let after = op::flip(&op::narrow(s, -1, 1, count - 1)?, &[-1])?;
    let after = op::cat(&[one, after], -1)?;
    let after = op::flip(&op::cumprod(&after, -1, None)?, &[-1])?;
    op::mul_tensor(&op::cumprod(&before, -1, None)?, &after)
}

/// $(g_l - i\,\mathrm{Im}(\bar g_s s))A^{-H}$, the sign taking part for complex matrices alone.
///
/// # Errors
/// As there.
pub fn slogdet_backward(
    grad_sign: &Tensor,
    grad_log: &Tensor,
    a: &Tensor,
    sign: &Tensor,
    factors: &Tensor,
    pivots: &Tensor,
) -> Result<Tensor> {
    let complex = a.dtype().is_complex();
    let of_sign = match given(grad_sign).filter(|_| complex) {
        Some(grad) => Some(op::imag(&op::mul_tensor(&op::conj(grad)?, sign)?)?),
        None => None,
    };
    let scale = match (given(grad_log), of_sign) {
        (None, None) => return Ok(Tensor::undefined()),
        (Some(log), None) => op::to_dtype(log, a.dtype(), false, false, None)?,
        (None, Some(angle)) => {
            let none = op::zeros_like(&angle, None, None, None, None, None)?;
            op::complex(&none, &op::neg(&angle)?)?
        }
        (Some(log), Some(angle)) => op::complex(log, &op::neg(&angle)?)?,
    };
    let right = scaled_identity(&scale, a)?;
    if !grad_mode_enabled() {
        return op::linalg_lu_solve(factors, pivots, &right, true, true);
    }
    Ok(op::linalg_solve_ex(&adjoint(a)?, &right, true, false)?.0)
}

/// The gradient of the pseudoinverse (Golub and Pereyra, 1973).
///
/// # Errors
/// As there.
pub fn pinv_backward(grad: &Tensor, pinv: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (m, n) = (a.size(-2)?, a.size(-1)?);
    let (pinv_h, grad_h) = (adjoint(pinv)?, adjoint(grad)?);
    if m <= n {
        let k = product(&[&grad_h, pinv])?;
        let turned = product(&[&k, &pinv_h])?;
        let first = adjoint(&product(&[pinv, &k])?)?;
        let second = product(&[&product(&[a, pinv])?, &turned])?;
        let rest = minus(&grad_h, &product(&[&k, a])?)?;
        let third = product(&[&product(&[&pinv_h, pinv])?, &rest])?;
        return super::plus(&minus(&minus(&turned, &first)?, &second)?, &third);
    }
    let k = product(&[pinv, &grad_h])?;
    let turned = product(&[&pinv_h, &k])?;
    let first = adjoint(&product(&[&k, pinv])?)?;
    let rest = minus(&grad_h, &product(&[a, &k])?)?;
    let second = product(&[&rest, &product(&[pinv, &pinv_h])?])?;
    let third = product(&[&product(&[&turned, pinv])?, a])?;
    minus(&super::plus(&minus(&second, &first)?, &turned)?, &third)
}

/// By way of the pseudoinverse, of which the solution is the product with the right-hand side.
///
/// # Errors
/// As there.
pub fn linalg_lstsq_backward(
    needs: &[bool],
    grad_x: &Tensor,
    grad_residuals: &Tensor,
    a: &Tensor,
    b: &Tensor,
) -> Result<Vec<Tensor>> {
    let sizes = a.sizes();
    let vector = b.dim() == 1
        || (a.dim() == b.dim() + 1 && b.sizes().as_slice() == &sizes[..sizes.len() - 1]);
    let right = if vector { op::unsqueeze(b, -1)? } else { b.clone() };
    let pinv = op::linalg_pinv_atol_rtol_float(a, None, None, false)?;
    let (mut of_a, mut of_b) = ([None, None], [None, None]);
    if let Some(grad) = given(grad_x) {
        let grad = if vector { op::unsqueeze(grad, -1)? } else { grad.clone() };
        if needs[0] {
            let of_pinv = product(&[&grad, &adjoint(&right)?])?;
            of_a[0] = Some(pinv_backward(&of_pinv, &pinv, a)?);
        }
        of_b[0] = Some(product(&[&adjoint(&pinv)?, &grad])?);
    }
    if let Some(grad) = given(grad_residuals).filter(|grad| grad.numel() > 0) {
        let x = product(&[&pinv, &right])?;
        let rest = minus(&product(&[a, &x])?, &right)?;
        let scaled = op::mul_tensor(&(&rest * 2)?, &op::unsqueeze(grad, -2)?)?;
        of_a[1] = Some(product(&[&scaled, &adjoint(&x)?])?);
        of_b[1] = Some(op::neg(&scaled)?);
    }
    let of_a = super::total(&of_a)?.unwrap_or_else(Tensor::undefined);
    let of_b = match super::total(&of_b)? {
        Some(grad) if vector => op::squeeze_dim(&grad, -1)?,
        Some(grad) => grad,
        None => Tensor::undefined(),
    };
    Ok(vec![of_a, of_b])
}
