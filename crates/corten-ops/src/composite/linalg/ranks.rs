//! Ranks and pseudoinverses, with tolerances in all their forms.

use crate::any::linalg::tolerances;
use crate::meta::linalg::check_matrix;
use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar};

const RANK: &str = "torch.linalg.matrix_rank";

/// A number as a tensor of rank 0, real, beside `a`.
fn number(a: &Tensor, value: f64) -> Result<Tensor> {
    let dtype = Some(a.dtype().to_real());
    op::full(&[], Scalar::Float(value), dtype, None, Some(a.device()), None)
}

fn numbers(a: &Tensor, value: Option<f64>) -> Result<Option<Tensor>> {
    value.map(|value| number(a, value)).transpose()
}

/// The rank with an absolute tolerance.
///
/// # Errors
/// `Runtime` below rank 2 and for complex tolerances; those of the decomposition. For the
/// functions below likewise.
pub fn linalg_matrix_rank(self_: &Tensor, tol: f64, hermitian: bool) -> Result<Tensor> {
    linalg_matrix_rank_floats(self_, Some(tol), Some(0.0), hermitian)
}

/// The rank with absolute tolerances.
///
/// # Errors
/// As there.
pub fn linalg_matrix_rank_tol(input: &Tensor, tol: &Tensor, hermitian: bool) -> Result<Tensor> {
    check_matrix(input, RANK, "input")?;
    linalg_matrix_rank_tensors(input, Some(tol), Some(&number(input, 0.0)?), hermitian)
}

/// The rank with an absolute and a relative tolerance.
///
/// # Errors
/// As there.
pub fn linalg_matrix_rank_floats(
    self_: &Tensor,
    atol: Option<f64>,
    rtol: Option<f64>,
    hermitian: bool,
) -> Result<Tensor> {
    check_matrix(self_, RANK, "input")?;
    let (atol, rtol) = (numbers(self_, atol)?, numbers(self_, rtol)?);
    linalg_matrix_rank_tensors(self_, atol.as_ref(), rtol.as_ref(), hermitian)
}

/// The rank with absolute and relative tolerances.
///
/// # Errors
/// As there.
pub fn linalg_matrix_rank_tensors(
    input: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    check_matrix(input, RANK, "input")?;
    let (atol, rtol) = tolerances(RANK, input, atol, rtol)?;
    if input.numel() == 0 {
        let sizes = input.sizes();
        return op::new_zeros(
            input,
            &sizes[..sizes.len() - 2],
            Some(DType::Int64),
            None,
            None,
            None,
        );
    }
    let input = op::detach(input)?;
    let values = match hermitian {
        true => op::abs(&op::linalg_eigvalsh(&input, "L")?)?,
        false => op::linalg_svdvals(&input, None)?,
    };
    let largest = op::amax(&values, &[-1], true)?;
    let relative = op::mul_tensor(&op::unsqueeze(&rtol, -1)?, &largest)?;
    let tolerance = op::maximum(&op::unsqueeze(&atol, -1)?, &relative)?;
    op::sum_dim_intlist(&op::gt_tensor(&values, &tolerance)?, Some(&[-1]), false, None)
}

/// The pseudoinverse with an absolute and a relative tolerance.
///
/// # Errors
/// As there.
pub fn linalg_pinv_floats(
    self_: &Tensor,
    atol: Option<f64>,
    rtol: Option<f64>,
    hermitian: bool,
) -> Result<Tensor> {
    let (atol, rtol) = (numbers(self_, atol)?, numbers(self_, rtol)?);
    op::linalg_pinv_atol_rtol_tensor(self_, atol.as_ref(), rtol.as_ref(), hermitian)
}

/// The pseudoinverse with a relative tolerance.
///
/// # Errors
/// As there.
pub fn linalg_pinv(self_: &Tensor, rcond: f64, hermitian: bool) -> Result<Tensor> {
    linalg_pinv_floats(self_, Some(0.0), Some(rcond), hermitian)
}

/// The pseudoinverse with relative tolerances.
///
/// # Errors
/// As there.
pub fn linalg_pinv_rcond(self_: &Tensor, rcond: &Tensor, hermitian: bool) -> Result<Tensor> {
    let atol = number(self_, 0.0)?;
    op::linalg_pinv_atol_rtol_tensor(self_, Some(&atol), Some(rcond), hermitian)
}

/// The pseudoinverse under its older name.
///
/// # Errors
/// As there.
pub fn pinverse(self_: &Tensor, rcond: f64) -> Result<Tensor> {
    linalg_pinv(self_, rcond, false)
}
