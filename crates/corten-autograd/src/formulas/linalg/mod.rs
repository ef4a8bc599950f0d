//! Gradients of factorisations of matrices and of what is solved with them.

pub mod factors;
pub mod functions;
pub mod householder;
pub mod spectra;
pub mod systems;

use corten_core::{Result, Scalar};
use corten_ops::{Tensor, op};

/// The adjoints of matrices.
fn adjoint(a: &Tensor) -> Result<Tensor> {
    op::conj(&op::transpose_int(a, -2, -1)?)
}

fn transpose(a: &Tensor) -> Result<Tensor> {
    op::transpose_int(a, -2, -1)
}

/// `a - b`.
fn minus(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::sub_tensor(a, b, Scalar::Int(1))
}

/// `a + b`.
fn plus(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::add_tensor(a, b, Scalar::Int(1))
}

/// The sum of what there is.
fn total(parts: &[Option<Tensor>]) -> Result<Option<Tensor>> {
    let mut sum: Option<Tensor> = None;
    for part in parts.iter().flatten() {
        sum = Some(match sum {
            Some(sum) => plus(&sum, part)?,
            None => part.clone(),
        });
    }
    Ok(sum)
}

/// A gradient that may be missing.
fn given(grad: &Tensor) -> Option<&Tensor> {
    Some(grad).filter(|grad| grad.defined())
}

/// The product of several matrices.
fn product(factors: &[&Tensor]) -> Result<Tensor> {
    let mut result = factors[0].clone();
    for factor in &factors[1..] {
        result = op::matmul(&result, factor)?;
    }
    Ok(result)
}

fn diagonal(a: &Tensor) -> Result<Tensor> {
    op::diagonal(a, 0, -2, -1)
}

fn diagonal_matrix(values: &Tensor) -> Result<Tensor> {
    op::diag_embed(values, 0, -2, -1)
}

/// `X` with `A X = B` for a triangle: upper or lower, on the left or the right.
fn triangle_solve(a: &Tensor, b: &Tensor, upper: bool, left: bool) -> Result<Tensor> {
    op::linalg_solve_triangular(a, b, upper, left, false)
}

/// [`triangle_solve`] with ones on the diagonal.
fn unit_solve(a: &Tensor, b: &Tensor, upper: bool, left: bool) -> Result<Tensor> {
    op::linalg_solve_triangular(a, b, upper, left, true)
}

/// One triangle of a matrix, its diagonal left out for `unit`.
fn triangle_of(a: &Tensor, upper: bool, unit: bool) -> Result<Tensor> {
    let shift = i64::from(unit);
    if upper { op::triu(a, shift) } else { op::tril(a, -shift) }
}
