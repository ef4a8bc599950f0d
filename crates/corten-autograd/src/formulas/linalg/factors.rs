//! Gradients of the factors of Cholesky, LU and QR.

use super::{
    adjoint, diagonal, given, minus, plus, product, total, transpose, triangle_solve, unit_solve,
};
use corten_core::{Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// $\tfrac12 L^{-H}SL^{-1}$ where $S$ is the lower triangle of $L^H g$, and above the diagonal the
/// adjoint of it (Murray, "Differentiation of the Cholesky decomposition", 2016).
///
/// # Errors
/// Those of the operators; for the functions below likewise.
pub fn cholesky_backward(grad: &Tensor, upper: bool, factor: &Tensor) -> Result<Tensor> {
    let (lower, grad) = match upper {
        true => (adjoint(factor)?, adjoint(grad)?),
        false => (factor.clone(), grad.clone()),
    };
    let phi = op::tril(&product(&[&adjoint(&lower)?, &grad])?, 0)?;
    let strict = op::tril(&phi, -1)?;
    let symmetric = (plus(&phi, &adjoint(&strict)?)? * 0.5)?;
    let half = triangle_solve(&adjoint(&lower)?, &symmetric, true, true)?;
    triangle_solve(&lower, &half, false, false)
}

/// $-A^{-1}(g + g^H)A^{-1}L$.
///
/// # Errors
/// As there.
pub fn cholesky_inverse_backward(
    grad: &Tensor,
    factor: &Tensor,
    upper: bool,
    inverse: &Tensor,
) -> Result<Tensor> {
    let both = plus(grad, &adjoint(grad)?)?;
    let common = product(&[inverse, &both, inverse])?;
    let grad = if upper { product(&[factor, &common])? } else { product(&[&common, factor])? };
    op::neg(&grad)
}

/// $A^{-1}g$ for the right-hand side, and from it that of the factor.
///
/// # Errors
/// As there.
pub fn cholesky_solve_backward(
    needs: &[bool],
    grad: &Tensor,
    _b: &Tensor,
    factor: &Tensor,
    result: &Tensor,
    upper: bool,
) -> Result<Vec<Tensor>> {
    let of_b = op::cholesky_solve(grad, factor, upper)?;
    let mut of_factor = Tensor::undefined();
    if needs[1] {
        let outer = product(&[&of_b, &adjoint(result)?])?;
        let common = plus(&outer, &adjoint(&outer)?)?;
        let grad = if upper { product(&[factor, &common])? } else { product(&[&common, factor])? };
        of_factor = op::neg(&grad)?;
    }
    Ok(vec![of_b, of_factor])
}

/// [`linalg_lu_backward`] for factors in one matrix.
///
/// # Errors
/// As there.
pub fn lu_factor_backward(grad: &Tensor, factors: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let (p, l, u) = op::lu_unpack(factors, pivots, true, true)?;
    let steps = grad.size(-2)?.min(grad.size(-1)?);
    let of_l = op::narrow(grad, -1, 0, steps)?;
    let of_u = op::narrow(grad, -2, 0, steps)?;
    linalg_lu_backward(&of_l, &of_u, &p, &l, &u)
}

fn lower_part(parts: &[Option<Tensor>], like: &Tensor) -> Result<Tensor> {
    match total(parts)? {
        Some(sum) => op::tril(&sum, -1),
        None => op::zeros_like(like, None, None, None, None, None),
    }
}

fn upper_part(parts: &[Option<Tensor>], like: &Tensor) -> Result<Tensor> {
    match total(parts)? {
        Some(sum) => op::triu(&sum, 0),
        None => op::zeros_like(like, None, None, None, None, None),
    }
}

/// $P L^{-H}[\mathrm{tril}(L^H g_L, -1) + \mathrm{triu}(g_U U^H)]U^{-H}$ for square matrices; for
/// others what is beyond the square takes part.
///
/// # Errors
/// As there.
pub fn linalg_lu_backward(
    grad_l: &Tensor,
    grad_u: &Tensor,
    p: &Tensor,
    l: &Tensor,
    u: &Tensor,
) -> Result<Tensor> {
    let (m, n) = (l.size(-2)?, u.size(-1)?);
    let k = m.min(n);
    if !grad_l.defined() && !grad_u.defined() {
        return Ok(Tensor::undefined());
    }
    let of_l = given(grad_l).map(|grad| op::tril(grad, -1)).transpose()?;
    let of_u = given(grad_u).map(|grad| op::triu(grad, 0)).transpose()?;
    let (top, rest_l) = (op::narrow(l, -2, 0, k)?, op::narrow(l, -2, k, m - k)?);
    let (left, rest_u) = (op::narrow(u, -1, 0, k)?, op::narrow(u, -1, k, n - k)?);
    let part = |grad: &Option<Tensor>, dim: i64, start: i64, length: i64| {
        grad.as_ref().map(|grad| op::narrow(grad, dim, start, length)).transpose()
    };
    let (l1, l2) = (part(&of_l, -2, 0, k)?, part(&of_l, -2, k, m - k)?);
    let (u1, u2) = (part(&of_u, -1, 0, k)?, part(&of_u, -1, k, n - k)?);
    let times = |a: Option<&Tensor>, b: Option<&Tensor>| match (a, b) {
        (Some(a), Some(b)) => product(&[a, b]).map(Some),
        _ => Ok(None),
    };
    let negative = |a: Option<Tensor>| a.map(|a| op::neg(&a)).transpose();
    let beyond_u =
        if n > k { negative(times(u2.as_ref(), Some(&adjoint(&rest_u)?))?)? } else { None };
    let beyond_l =
        if m > k { negative(times(Some(&adjoint(&rest_l)?), l2.as_ref())?)? } else { None };
    let low = lower_part(&[times(Some(&adjoint(&top)?), l1.as_ref())?, beyond_u], &top)?;
    let high = upper_part(&[times(u1.as_ref(), Some(&adjoint(&left)?))?, beyond_l], &left)?;
    let middle = plus(&low, &high)?;
    let square = triangle_solve(&adjoint(&left)?, &middle, false, false)?;
    let square = unit_solve(&adjoint(&top)?, &square, true, true)?;
    let mut whole = square;
    if let (true, Some(u2)) = (n > k, &u2) {
        let beside = unit_solve(&adjoint(&top)?, u2, true, true)?;
        whole = op::cat(&[whole, beside], -1)?;
    } else if n > k {
        whole = op::constant_pad_nd(&whole, &[0, n - k], Scalar::Int(0))?;
    }
    if let (true, Some(l2)) = (m > k, &l2) {
        let below = triangle_solve(&adjoint(&left)?, l2, false, false)?;
        whole = op::cat(&[whole, below], -2)?;
    } else if m > k {
        whole = op::constant_pad_nd(&whole, &[0, 0, 0, m - k], Scalar::Int(0))?;
    }
    product(&[p, &whole])
}

/// The gradients of both factors put back into one matrix.
///
/// # Errors
/// As there.
pub fn lu_unpack_backward(grad_l: &Tensor, grad_u: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let [.., m, n] = *sizes else { return Ok(Tensor::undefined()) };
    let k = m.min(n);
    let zero = Scalar::Int(0);
    let of_l = given(grad_l)
        .map(|grad| op::constant_pad_nd(&op::tril(grad, -1)?, &[0, n - k], zero))
        .transpose()?;
    let of_u = given(grad_u)
        .map(|grad| op::constant_pad_nd(&op::triu(grad, 0)?, &[0, 0, 0, m - k], zero))
        .transpose()?;
    Ok(total(&[of_l, of_u])?.unwrap_or_else(Tensor::undefined))
}

/// The gradient of the factors in one matrix with which systems were solved.
///
/// # Errors
/// As there.
pub fn lu_solve_factors_backward(
    grad: &Tensor,
    factors: &Tensor,
    pivots: &Tensor,
    result: &Tensor,
    left: bool,
    adjoint_: bool,
) -> Result<Tensor> {
    let (p, l, u) = op::lu_unpack(factors, pivots, true, left == adjoint_)?;
    if left != adjoint_ {
        let outer = match left {
            true => product(&[grad, &adjoint(result)?])?,
            false => product(&[&adjoint(grad)?, result])?,
        };
        let whole = triangle_solve(&adjoint(&u)?, &op::neg(&outer)?, false, true)?;
        let low = product(&[&whole, &adjoint(&u)?])?;
        let low = unit_solve(&adjoint(&l)?, &low, true, true)?;
        return plus(&op::tril(&low, -1)?, &op::triu(&whole, 0)?);
    }
    let outer = match left {
        true => product(&[result, &adjoint(grad)?])?,
        false => product(&[&adjoint(result)?, grad])?,
    };
    let whole = op::neg(&product(&[&transpose(&p)?, &outer, &p])?)?;
    let whole = unit_solve(&adjoint(&l)?, &whole, true, false)?;
    let high = product(&[&adjoint(&l)?, &whole])?;
    let high = triangle_solve(&adjoint(&u)?, &high, false, false)?;
    plus(&op::tril(&whole, -1)?, &op::triu(&high, 0)?)
}

/// $[g_Q + Q\,\mathrm{sym}(\mathrm{triu}(g_R R^H - Q^H g_Q))]R^{-H}$ for matrices that are not
/// wide, else that of [`wide`].
///
/// # Errors
/// `Runtime` for modes that have no derivative; as there.
pub fn linalg_qr_backward(
    grad_q: &Tensor,
    grad_r: &Tensor,
    q: &Tensor,
    r: &Tensor,
    mode: &str,
) -> Result<Tensor> {
    ensure!(
        mode != "r",
        Runtime,
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use \
         linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
    );
    let (m, n) = (q.size(-2)?, r.size(-1)?);
    ensure!(
        mode == "reduced" || m <= n,
        Runtime,
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
    );
    let (of_q, of_r) = (given(grad_q), given(grad_r));
    if of_q.is_none() && of_r.is_none() {
        return Ok(Tensor::undefined());
    }
    if m >= n {
        return tall(of_q, of_r, q, r);
    }
    wide(of_q, of_r, q, r)
}

/// With $R = [X|Y]$, and $\Omega = Q^H dQ$, of which the part below the diagonal is that of
/// $Q^H dA\,[X^{-1}|0]$: $dR = Q^H dA - \Omega R$, so that the gradient is
/// $Q g_R + [Q\,\mathrm{low}(M^H - M)X^{-H}|0]$ for $M = g_R R^H - Q^H g_Q$, where
/// $\mathrm{low}$ keeps half of the diagonal, which is imaginary.
fn wide(of_q: Option<&Tensor>, of_r: Option<&Tensor>, q: &Tensor, r: &Tensor) -> Result<Tensor> {
    let (m, n) = (q.size(-1)?, r.size(-1)?);
    let Some(pulled) = pulled(of_q, of_r, q, r)? else { return Ok(Tensor::undefined()) };
    let skew = minus(&adjoint(&pulled)?, &pulled)?;
    let low = if skew.dtype().is_complex() {
        let half = op::diag_embed(&(&diagonal(&skew)? * 0.5)?, 0, -2, -1)?;
        minus(&op::tril(&skew, 0)?, &half)?
    } else {
        op::tril(&skew, -1)?
    };
    let left = op::narrow(r, -1, 0, m)?;
    let square = product(&[q, &triangle_solve(&adjoint(&left)?, &low, false, false)?])?;
    let square = op::constant_pad_nd(&square, &[0, n - m], Scalar::Int(0))?;
    match of_r {
        Some(grad) => plus(&square, &product(&[q, grad])?),
        None => Ok(square),
    }
}

/// $g_R R^H - Q^H g_Q$, of the gradients that there are.
fn pulled(
    of_q: Option<&Tensor>,
    of_r: Option<&Tensor>,
    q: &Tensor,
    r: &Tensor,
) -> Result<Option<Tensor>> {
    let through_r = of_r.map(|grad| product(&[grad, &adjoint(r)?])).transpose()?;
    let through_q = of_q.map(|grad| op::neg(&product(&[&adjoint(q)?, grad])?)).transpose()?;
    total(&[through_r, through_q])
}

fn tall(of_q: Option<&Tensor>, of_r: Option<&Tensor>, q: &Tensor, r: &Tensor) -> Result<Tensor> {
    let Some(pulled) = pulled(of_q, of_r, q, r)? else { return Ok(Tensor::undefined()) };
    let upper = op::triu(&pulled, 0)?;
    let both = plus(&upper, &adjoint(&upper)?)?;
    let once = op::diag_embed(&diagonal(&(&both * 0.5)?)?, 0, -2, -1)?;
    let mut grad = product(&[q, &minus(&both, &once)?])?;
    if let Some(of_q) = of_q {
        grad = plus(&grad, of_q)?;
    }
    triangle_solve(&adjoint(r)?, &grad, false, false)
}
