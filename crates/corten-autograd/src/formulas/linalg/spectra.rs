//! Gradients of eigenvalues, eigenvectors and singular values.

use super::{adjoint, diagonal, diagonal_matrix, given, minus, plus, product};
use corten_core::{Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// `x_j - x_i` at row `i` and column `j`, and 1 on the diagonal.
fn differences(values: &Tensor) -> Result<Tensor> {
    let gaps = minus(&op::unsqueeze(values, -2)?, &op::unsqueeze(values, -1)?)?;
    let size = values.size(-1)?;
    let one = op::eye(size, Some(values.dtype()), None, Some(values.device()), None)?;
    plus(&gaps, &one)
}

/// A matrix without its diagonal.
fn hollow(a: &Tensor) -> Result<Tensor> {
    minus(a, &diagonal_matrix(&diagonal(a)?)?)
}

/// That a loss does not depend on what is arbitrary in complex vectors, their phases.
fn check_phase(values: &Tensor, what: &str) -> Result<()> {
    if !values.dtype().is_complex() || values.device().is_meta() || values.numel() == 0 {
        return Ok(());
    }
    let phase = op::imag(&op::detach(values)?)?;
    let none = op::zeros_like(&phase, None, None, None, None, None)?;
    ensure!(op::allclose(&phase, &none, 1e-2, 1e-2, false)?, Runtime, "{what}");
    Ok(())
}

/// $V(\mathrm{diag}(g_L) + K / E)V^H$ with the skew part $K$ of $V^H g_V$ and
/// $E_{ij} = L_j - L_i$.
///
/// # Errors
/// `Runtime` for losses that depend on the phase of the vectors; those of the operators. For the
/// functions below likewise.
pub fn linalg_eigh_backward(
    grad_l: &Tensor,
    grad_v: &Tensor,
    l: &Tensor,
    v: &Tensor,
) -> Result<Tensor> {
    ensure!(
        v.dim() >= 2,
        Runtime,
        "linalg_eigh: the derivative needs the eigenvectors, which were not computed"
    );
    let of_l = given(grad_l);
    let Some(of_v) = given(grad_v) else {
        let Some(of_l) = of_l else { return Ok(Tensor::undefined()) };
        let scaled = op::mul_tensor(v, &op::unsqueeze(of_l, -2)?)?;
        return product(&[&scaled, &adjoint(v)?]);
    };
    let turned = product(&[&adjoint(v)?, of_v])?;
    check_phase(
        &diagonal(&turned)?,
        "linalg_eigh_backward: The eigenvectors in the complex case are specified up to \
         multiplication by e^{i phi}. The specified loss function depends on this quantity, so it \
         is ill-defined.",
    )?;
    // Unitary matrices change in skew directions only.
    let skew = (minus(&turned, &adjoint(&turned)?)? * 0.5)?;
    let mut middle = op::div_tensor(&hollow(&skew)?, &differences(l)?)?;
    if let Some(of_l) = of_l {
        middle = plus(&middle, &diagonal_matrix(of_l)?)?;
    }
    product(&[v, &middle, &adjoint(v)?])
}

/// $V^{-H}(\mathrm{diag}(g_L) + (V^H g_V - V^H V\,\mathrm{diag}(\mathrm{Re}(V^H g_V))) / \bar E)V^H$.
///
/// # Errors
/// As there.
pub fn linalg_eig_backward(
    grad_l: &Tensor,
    grad_v: &Tensor,
    l: &Tensor,
    v: &Tensor,
) -> Result<Tensor> {
    let (of_l, vh) = (given(grad_l), adjoint(v)?);
    let middle = match given(grad_v) {
        None => match of_l {
            None => return Ok(Tensor::undefined()),
            Some(of_l) => op::mul_tensor(&op::unsqueeze(of_l, -1)?, &vh)?,
        },
        Some(of_v) => {
            let turned = product(&[&vh, of_v])?;
            let own = diagonal(&turned)?;
            check_phase(
                &own,
                "linalg_eig_backward: The eigenvectors in the complex case are specified up to \
                 multiplication by e^{i phi}. The specified loss function depends on this quantity, \
                 so it is ill-defined.",
            )?;
            let length = op::unsqueeze(&op::real(&own)?, -2)?;
            let tangent = minus(&turned, &op::mul_tensor(&product(&[&vh, v])?, &length)?)?;
            let mut middle = op::div_tensor(&hollow(&tangent)?, &op::conj(&differences(l)?)?)?;
            if let Some(of_l) = of_l {
                middle = plus(&middle, &diagonal_matrix(of_l)?)?;
            }
            product(&[&middle, &vh])?
        }
    };
    op::linalg_solve(&vh, &middle, true)
}

/// The gradient of the decomposition, of which only the singular vectors that belong to values
/// take part.
///
/// # Errors
/// As there.
pub fn linalg_svd_backward(
    grad_u: &Tensor,
    grad_s: &Tensor,
    grad_vh: &Tensor,
    u: &Tensor,
    s: &Tensor,
    vh: &Tensor,
    full_matrices: bool,
) -> Result<Tensor> {
    ensure!(
        u.dim() >= 2,
        Runtime,
        "linalg_svd: the derivative needs the singular vectors, which were not computed"
    );
    let k = s.size(-1)?;
    let cut = |t: &Tensor, dim: i64| match full_matrices && t.defined() {
        true => op::narrow(t, dim, 0, k),
        false => Ok(t.clone()),
    };
    let (u, vh) = (&cut(u, -1)?, &cut(vh, -2)?);
    let (grad_u, grad_vh) = (&cut(grad_u, -1)?, &cut(grad_vh, -2)?);
    let (of_u, of_s, of_vh) = (given(grad_u), given(grad_s), given(grad_vh));
    if of_u.is_none() && of_vh.is_none() {
        let Some(of_s) = of_s else { return Ok(Tensor::undefined()) };
        return product(&[&op::mul_tensor(u, &op::unsqueeze(of_s, -2)?)?, vh]);
    }
    let skew = |a: Tensor| minus(&a, &adjoint(&a)?);
    let left = of_u.map(|grad| skew(product(&[&adjoint(u)?, grad])?)).transpose()?;
    let right = of_vh.map(|grad| skew(product(&[vh, &adjoint(grad)?])?)).transpose()?;
    check_phases(left.as_ref(), right.as_ref())?;
    let core = core(left.as_ref(), right.as_ref(), of_s, s)?;
    beyond(&core, of_u, of_vh, u, s, vh)
}

fn check_phases(left: Option<&Tensor>, right: Option<&Tensor>) -> Result<()> {
    let own = |skew: Option<&Tensor>| skew.map(diagonal).transpose();
    let Some(sum) = super::total(&[own(left)?, own(right)?])? else { return Ok(()) };
    check_phase(
        &sum,
        "svd_backward: The singular vectors in the complex case are specified up to multiplication \
         by e^{i phi}. The specified loss function depends on this phase term, making it \
         ill-defined.",
    )
}

/// The gradient seen from both bases: $[U^H g_U / E]S + S[V^H g_V / E] + g_S$.
fn core(
    left: Option<&Tensor>,
    right: Option<&Tensor>,
    of_s: Option<&Tensor>,
    s: &Tensor,
) -> Result<Tensor> {
    let gaps = differences(&op::mul_tensor(s, s)?)?;
    let mut parts = [None, None, None, None];
    if let Some(left) = left {
        let ratio = op::div_tensor(left, &gaps)?;
        parts[0] = Some(op::mul_tensor(&hollow(&ratio)?, &op::unsqueeze(s, -2)?)?);
        if left.dtype().is_complex() {
            let phase = op::div_tensor(&diagonal(left)?, &(s * 2)?)?;
            parts[1] = Some(diagonal_matrix(&phase)?);
        }
    }
    if let Some(right) = right {
        let ratio = op::div_tensor(right, &gaps)?;
        parts[2] = Some(op::mul_tensor(&op::unsqueeze(s, -1)?, &hollow(&ratio)?)?);
    }
    if let Some(of_s) = of_s {
        parts[3] = Some(diagonal_matrix(of_s)?);
    }
    Ok(super::total(&parts)?.unwrap_or_else(Tensor::undefined))
}

/// The gradient itself: what lies outside the bases is added on the longer side.
fn beyond(
    core: &Tensor,
    of_u: Option<&Tensor>,
    of_vh: Option<&Tensor>,
    u: &Tensor,
    s: &Tensor,
    vh: &Tensor,
) -> Result<Tensor> {
    let (m, n) = (u.size(-2)?, vh.size(-1)?);
    match (of_u, of_vh) {
        (Some(of_u), _) if m > n => {
            let scaled = op::div_tensor(of_u, &op::unsqueeze(s, -2)?)?;
            let inside = product(&[u, &product(&[&adjoint(u)?, &scaled])?])?;
            let all = minus(&plus(&product(&[u, core])?, &scaled)?, &inside)?;
            product(&[&all, vh])
        }
        (_, Some(of_vh)) if m < n => {
            let scaled = op::div_tensor(of_vh, &op::unsqueeze(s, -1)?)?;
            let inside = product(&[&product(&[&scaled, &adjoint(vh)?])?, vh])?;
            let all = minus(&plus(&product(&[core, vh])?, &scaled)?, &inside)?;
            product(&[u, &all])
        }
        _ => product(&[u, core, vh]),
    }
}

/// `a / (x_i + x_j)`, 0 where both are zero.
fn over_sums(a: &Tensor, values: &Tensor) -> Result<Tensor> {
    let sums = plus(&op::unsqueeze(values, -1)?, &op::unsqueeze(values, -2)?)?;
    let empty = op::eq_scalar(&sums, Scalar::Int(0))?;
    let sums = op::masked_fill_scalar(&sums, &empty, Scalar::Int(1))?;
    op::masked_fill_scalar(&op::div_tensor(a, &sums)?, &empty, Scalar::Int(0))
}

/// $V((V^H g V) / (s_i + s_j))V^H$ with the eigenvalues $s$ of the root.
///
/// # Errors
/// As there.
pub fn matrix_sqrth_backward(grad: &Tensor, root: &Tensor) -> Result<Tensor> {
    let (values, v) = op::linalg_eigh(root, "L")?;
    let values = op::clamp_min(&values, Scalar::Int(0))?;
    let grad = (plus(grad, &adjoint(grad)?)? * 0.5)?;
    let turned = product(&[&adjoint(&v)?, &grad, &v])?;
    product(&[&v, &over_sums(&turned, &values)?, &adjoint(&v)?])
}

/// With $M = U^H g_U - g_H H$: $U g_H + U V((V^H(M - M^H)V) / (s_i + s_j))V^H$, and what lies
/// outside of $U$ divided by $H$.
///
/// # Errors
/// As there.
pub fn polar_backward(grad_u: &Tensor, grad_h: &Tensor, u: &Tensor, h: &Tensor) -> Result<Tensor> {
    let uh = adjoint(u)?;
    let (of_u, mut parts) = (given(grad_u), [None, None, None]);
    let of_h = given(grad_h).map(|grad| plus(grad, &adjoint(grad)?)? * 0.5).transpose()?;
    let first = of_u.map(|grad| product(&[&uh, grad])).transpose()?;
    let second = of_h.as_ref().map(|grad| op::neg(&product(&[grad, h])?)).transpose()?;
    let Some(sum) = super::total(&[first, second])? else { return Ok(Tensor::undefined()) };
    let (values, v) = op::linalg_eigh(h, "L")?;
    let values = op::clamp_min(&values, Scalar::Int(0))?;
    let skew = minus(&sum, &adjoint(&sum)?)?;
    let turned = product(&[&adjoint(&v)?, &skew, &v])?;
    let solved = over_sums(&turned, &values)?;
    parts[0] = Some(product(&[u, &v, &solved, &adjoint(&v)?])?);
    if let Some(of_h) = of_h {
        parts[1] = Some(product(&[u, &of_h])?);
    }
    if let Some(of_u) = of_u.filter(|_| u.size(-2).ok() > u.size(-1).ok()) {
        let outside = minus(of_u, &product(&[u, &product(&[&uh, of_u])?])?)?;
        parts[2] = Some(op::linalg_solve_ex(h, &outside, false, false)?.0);
    }
    Ok(super::total(&parts)?.unwrap_or_else(Tensor::undefined))
}
