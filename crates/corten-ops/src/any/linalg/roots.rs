//! Square roots of matrices, and the factors that come with them.

use super::adjoint;
use crate::meta::linalg::{check_matrix, check_numbers, check_square};
use crate::{Tensor, op};
use corten_core::{MemoryFormat, Result, Scalar, ensure};

/// The positive semidefinite square root of Hermitian matrices; what is negative counts as zero.
///
/// # Errors
/// `Runtime` for other than square matrices, `NotImplemented` for integers.
pub fn linalg_matrix_sqrth(self_: &Tensor) -> Result<Tensor> {
    check_square(self_, "linalg.matrix_sqrth")?;
    check_numbers(self_, "linalg.matrix_sqrth", false)?;
    if self_.device().is_meta() {
        return op::new_empty(self_, &self_.sizes(), None, None, None, None);
    }
    let finite = op::item(&op::all(&op::isfinite(self_)?)?)?.to_bool();
    if !finite {
        return op::full_like(self_, Scalar::Float(f64::NAN), None, None, None, None, None);
    }
    let (values, vectors) = op::linalg_eigh(self_, "L")?;
    let roots = op::sqrt(&op::clamp_min(&values, Scalar::Int(0))?)?;
    let scaled = op::mul_tensor(&vectors, &op::unsqueeze(&roots, -2)?)?;
    op::contiguous(&op::matmul(&scaled, &adjoint(&vectors)?)?, MemoryFormat::Contiguous)
}

/// `A = U H` with orthonormal columns and a positive semidefinite matrix.
///
/// # Errors
/// `Runtime` for fewer rows than columns, `NotImplemented` for integers.
pub fn linalg_polar(a: &Tensor) -> Result<(Tensor, Tensor)> {
    check_matrix(a, "linalg.polar", "A")?;
    check_numbers(a, "linalg.polar", true)?;
    let [rows, cols] = [a.size(-2)?, a.size(-1)?];
    ensure!(
        rows >= cols,
        Runtime,
        "linalg.polar: input must have at least as many rows as columns, but got {rows} by {cols} \
         matrices"
    );
    if a.device().is_meta() {
        let mut sizes = a.sizes();
        let u = op::new_empty(a, &sizes, None, None, None, None)?;
        let place = sizes.len() - 2;
        sizes[place] = cols;
        return Ok((u, op::new_empty(a, &sizes, None, None, None, None)?));
    }
    let (left, values, right) = op::linalg_svd(a, false, None)?;
    let scaled = op::mul_tensor(&adjoint(&right)?, &op::unsqueeze(&values, -2)?)?;
    let (u, h) = (op::matmul(&left, &right)?, op::matmul(&scaled, &right)?);
    let plain = MemoryFormat::Contiguous;
    Ok((op::contiguous(&u, plain)?, op::contiguous(&h, plain)?))
}
