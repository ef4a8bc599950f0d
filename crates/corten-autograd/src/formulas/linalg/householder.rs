//! Gradients of products of reflections $H = 1 - \tau v v^H$.

use super::{adjoint, minus, plus, product};
use corten_core::{Result, Scalar};
use corten_ops::{Tensor, op};

/// Reflections, one after the other.
struct Reflections {
    /// The vectors as columns, with ones in their places.
    vectors: Vec<Tensor>,
    /// The factors, as matrices of one number.
    factors: Vec<Tensor>,
    /// From which row on every vector counts.
    first_rows: Vec<i64>,
}

impl Reflections {
    /// In the order in which they are written; the adjoints of the product in the opposite one.
    fn of(input: &Tensor, tau: &Tensor, adjoint_: bool) -> Result<Self> {
        let count = tau.size(-1)?;
        let mut all = Self { vectors: Vec::new(), factors: Vec::new(), first_rows: Vec::new() };
        let own = op::eye_m(
            input.size(-2)?,
            input.size(-1)?,
            Some(input.dtype()),
            None,
            Some(input.device()),
            None,
        )?;
        let columns = plus(&op::tril(input, -1)?, &own)?;
        for step in 0..count {
            let place = if adjoint_ { count - 1 - step } else { step };
            all.vectors.push(op::narrow(&columns, -1, place, 1)?);
            let factor = op::unsqueeze(&op::narrow(tau, -1, place, 1)?, -1)?;
            all.factors.push(if adjoint_ { op::conj(&factor)? } else { factor });
            all.first_rows.push(place);
        }
        Ok(all)
    }
}

/// `x - τ v (vᴴ x)`.
fn reflect(v: &Tensor, tau: &Tensor, x: &Tensor) -> Result<Tensor> {
    minus(x, &product(&[&op::mul_tensor(v, tau)?, &product(&[&adjoint(v)?, x])?])?)
}

/// The gradients of `H1 H2 … C` with respect to the vectors and the factors.
fn chain(
    grad: &Tensor,
    input: &Tensor,
    tau: &Tensor,
    c: &Tensor,
    adjoint_: bool,
) -> Result<[Tensor; 2]> {
    let all = Reflections::of(input, tau, adjoint_)?;
    let count = all.vectors.len();
    // What every reflection was applied to, from the last one to the first.
    let mut inputs = vec![c.clone()];
    for step in (1..count).rev() {
        let before = inputs[inputs.len() - 1].clone();
        inputs.push(reflect(&all.vectors[step], &all.factors[step], &before)?);
    }
    let mut grad = grad.clone();
    // Bounded: the columns of a matrix, each a tensor by then.
    let mut of_vectors = vec![Tensor::undefined(); count];
    let mut of_factors = of_vectors.clone();
    for (step, x) in (0..count).zip(inputs.iter().rev()) {
        let (v, factor) = (&all.vectors[step], &all.factors[step]);
        let to_grad = product(&[&adjoint(&grad)?, v])?;
        let to_input = product(&[&adjoint(x)?, v])?;
        let of_factor = op::neg(&product(&[&adjoint(&to_grad)?, &to_input])?)?;
        let first = op::mul_tensor(&product(&[&grad, &to_input])?, &op::conj(factor)?)?;
        let second = op::mul_tensor(&product(&[x, &to_grad])?, factor)?;
        let place = all.first_rows[step] as usize;
        of_vectors[place] = op::neg(&plus(&first, &second)?)?;
        of_factors[place] = if adjoint_ { op::conj(&of_factor)? } else { of_factor };
        grad = reflect(v, &op::conj(factor)?, &grad)?;
    }
    Ok([joined(&of_vectors, input)?, joined_factors(&of_factors)?])
}

/// The gradients of the columns below the diagonal; columns without a reflection have none.
fn joined(columns: &[Tensor], input: &Tensor) -> Result<Tensor> {
    if columns.is_empty() {
        return Ok(Tensor::undefined());
    }
    let together = op::cat(columns, -1)?;
    let missing = input.size(-1)? - columns.len() as i64;
    op::tril(&op::constant_pad_nd(&together, &[0, missing], Scalar::Int(0))?, -1)
}

fn joined_factors(factors: &[Tensor]) -> Result<Tensor> {
    match factors.is_empty() {
        true => Ok(Tensor::undefined()),
        false => op::squeeze_dim(&op::cat(factors, -1)?, -2),
    }
}

/// The gradients of the first columns of a product.
///
/// # Errors
/// Those of the operators.
pub fn householder_product_backward(
    _needs: &[bool],
    grad: &Tensor,
    input: &Tensor,
    tau: &Tensor,
) -> Result<Vec<Tensor>> {
    let one = op::eye_m(
        input.size(-2)?,
        input.size(-1)?,
        Some(input.dtype()),
        None,
        Some(input.device()),
        None,
    )?;
    let one = op::expand(&one, &input.sizes(), false)?;
    Ok(chain(grad, input, tau, &one, false)?.to_vec())
}

/// The gradients of a product times other matrices.
///
/// # Errors
/// Those of the operators.
pub fn ormqr_backward(
    _needs: &[bool],
    grad: &Tensor,
    input: &Tensor,
    tau: &Tensor,
    other: &Tensor,
    left: bool,
    transpose: bool,
) -> Result<Vec<Tensor>> {
    let of_other = op::ormqr(input, tau, grad, left, !transpose)?;
    // `C Q` is `(Qᴴ Cᴴ)ᴴ`.
    let [of_vectors, of_factors] = match left {
        true => chain(grad, input, tau, other, transpose)?,
        false => chain(&adjoint(grad)?, input, tau, &adjoint(other)?, !transpose)?,
    };
    Ok(vec![of_vectors, of_factors, of_other])
}
