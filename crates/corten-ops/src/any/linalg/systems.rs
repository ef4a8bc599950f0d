//! Linear systems and determinants.

use super::adjoint;
use crate::meta::linalg::{
    batch_of, check_dtypes, check_info, check_kernel, check_matrix, check_numbers,
    check_solve_inputs, check_square, check_system, columns,
};
use crate::{Tensor, op};
use corten_core::{DType, Dims, Result, Scalar, ensure};

/// The solution for matrices of which the Cholesky factor is given.
///
/// # Errors
/// `Runtime` for shapes or dtypes that do not fit.
pub fn cholesky_solve(self_: &Tensor, input2: &Tensor, upper: bool) -> Result<Tensor> {
    for (name, tensor) in [("b", self_), ("u", input2)] {
        ensure!(
            tensor.dim() >= 2,
            Runtime,
            "{name} should have at least 2 dimensions, but has {} dimensions instead",
            tensor.dim()
        );
    }
    check_solve_inputs("cholesky_solve", self_, input2)?;
    batch_of(self_, input2)?;
    check_kernel(self_, "cholesky_solve_cpu")?;
    let lower = if upper { adjoint(input2)? } else { input2.clone() };
    let half = op::linalg_solve_triangular(&lower, self_, false, true, false)?;
    op::linalg_solve_triangular(&adjoint(&lower)?, &half, true, true, false)
}

/// Whether a right-hand side is a vector, or a batch of them, to these matrices.
pub(crate) fn is_vector(a: &Tensor, b: &Tensor) -> bool {
    let expected = &a.sizes()[..a.dim().saturating_sub(1)];
    b.dim() == 1 || (a.dim() == b.dim() + 1 && b.sizes().as_slice() == expected)
}

/// `A X = B` or `X A = B`, with the factors of `A`, the rows exchanged and the first zero pivot.
///
/// # Errors
/// `Runtime` for shapes or dtypes that do not fit, `NotImplemented` for integers; `LinAlg` for a
/// singular matrix, if that is checked.
pub fn _linalg_solve_ex(
    a: &Tensor,
    b: &Tensor,
    left: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    check_numbers(a, "linalg.solve", true)?;
    check_dtypes("linalg.solve", "A", a, "B", b)?;
    check_square(a, "linalg.solve")?;
    let vector = is_vector(a, b);
    let right = if vector { op::unsqueeze(b, -1)? } else { b.clone() };
    check_matrix(&right, "linalg.solve", "B")?;
    check_system("linalg.solve", a, &right, left)?;
    ensure!(
        left || !vector,
        Runtime,
        "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. \
         In this case linalg.solve is equivalent to B / A.squeeze(-1)"
    );
    let (factors, pivots, info) = op::linalg_lu_factor_ex(a, true, false)?;
    let mut result = op::linalg_lu_solve(&factors, &pivots, &right, left, false)?;
    if vector {
        result = op::squeeze_dim(&result, -1)?;
        let lying = columns(&result.sizes(), result.dtype(), result.device())?;
        result = op::copy_(&lying, &result, false)?;
    }
    if check_errors {
        check_info(&info, "torch.linalg.solve_ex")?;
    }
    Ok((result, factors, pivots, info))
}

/// 1 or -1 for every matrix: the sign of the exchanges.
fn exchanges(pivots: &Tensor, dtype: DType) -> Result<Tensor> {
    let size = pivots.size(-1)?;
    let (int, device) = (Some(DType::Int32), Some(pivots.device()));
    let own = op::arange_start(Scalar::Int(1), Scalar::Int(size + 1), int, None, device, None)?;
    let count = op::sum_dim_intlist(&op::ne_tensor(pivots, &own)?, Some(&[-1]), false, None)?;
    let odd = op::remainder_scalar(&count, Scalar::Int(2))?;
    op::to_dtype(
        &op::rsub_scalar(&(odd * 2)?, Scalar::Int(1), Scalar::Int(1))?,
        dtype,
        false,
        false,
        None,
    )
}

/// The determinants of matrices, and their factors.
///
/// # Errors
/// `Runtime` for other than square matrices, `NotImplemented` for integers.
pub fn _linalg_det(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    check_square(a, "linalg.det")?;
    check_numbers(a, "linalg.det", true)?;
    let (factors, pivots, _) = op::linalg_lu_factor_ex(a, true, false)?;
    let product = op::prod_dim_int(&op::diagonal(&factors, 0, -2, -1)?, -1, false, None)?;
    let result = op::mul_tensor(&product, &exchanges(&pivots, a.dtype())?)?;
    Ok((result, factors, pivots))
}

/// The signs of the determinants, the logarithms of their absolute values, and the factors.
///
/// # Errors
/// As [`_linalg_det`].
pub fn _linalg_slogdet(a: &Tensor) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    check_square(a, "linalg.slogdet")?;
    check_numbers(a, "linalg.slogdet", false)?;
    let (factors, pivots, _) = op::linalg_lu_factor_ex(a, true, false)?;
    let diagonal = op::diagonal(&factors, 0, -2, -1)?;
    let signs = op::prod_dim_int(&op::sgn(&diagonal)?, -1, false, None)?;
    let sign = op::mul_tensor(&signs, &exchanges(&pivots, a.dtype())?)?;
    let logs = op::log(&op::abs(&diagonal)?)?;
    let sum = op::sum_dim_intlist(&logs, Some(&[-1]), false, None)?;
    Ok((sign, sum, factors, pivots))
}

/// The batch of two tensors of matrices.
pub(super) fn broadcast_batch(a: &Tensor, b: &Tensor) -> Result<Dims> {
    batch_of(a, b)
}
