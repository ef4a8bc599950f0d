//! Products of matrices and vectors.

use super::{Batch, first, items};
use crate::boxed::Stack;
use crate::registry::OpKind;
use crate::{Tensor, op};
use corten_core::{Complex, Result, Scalar};

/// The products with and without something added, by `matmul`, which takes batches.
pub(crate) fn matmul(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let name = batch.op.def().name.trim_end_matches('_');
    let result = match name {
        "mm" | "bmm" | "mv" | "dot" | "vdot" => product(batch, name, &stack[0], &stack[1])?,
        "addmm" | "addmv" | "baddbmm" | "addbmm" | "addr" => added(name, stack)?,
        _ => return items(batch, stack),
    };
    if batch.op.def().kind == OpKind::Inplace {
        let written = first(stack)?.clone();
        op::copy_(&written, &result, false)?;
        stack.replace(written);
        return Ok(());
    }
    stack.replace(result);
    Ok(())
}

fn product(
    batch: &Batch,
    name: &str,
    left: &crate::IValue,
    right: &crate::IValue,
) -> Result<Tensor> {
    let left = batch.front(left.get()?)?;
    let (given, right) = (right.get::<&Tensor>()?, batch.front(right.get()?)?);
    let column = |right: &Tensor| op::unsqueeze(right, -1);
    let result = match name {
        "mv" if !batch.has(given) => op::matmul(&left, &right)?,
        "mv" => op::squeeze_dim(&op::matmul(&left, &column(&right)?)?, -1)?,
        "dot" | "vdot" => {
            let left = if name == "vdot" { op::conj(&left)? } else { left };
            let row = op::unsqueeze(&left, -2)?;
            let one = op::matmul(&row, &column(&right)?)?;
            op::squeeze_dims(&one, &[-2, -1])?
        }
        _ => op::matmul(&left, &right)?,
    };
    batch.wrap(result)
}

/// beta · self + alpha · product, in terms of items.
fn added(name: &str, stack: &Stack) -> Result<Tensor> {
    let (left, right): (&Tensor, &Tensor) = (stack[1].get()?, stack[2].get()?);
    let (beta, alpha): (Scalar, Scalar) = (stack[3].get()?, stack[4].get()?);
    let product = match name {
        "addmm" => op::mm(left, right)?,
        "addmv" => op::mv(left, right)?,
        "baddbmm" => op::bmm(left, right)?,
        "addbmm" => op::sum_dim_intlist(&op::bmm(left, right)?, Some(&[0]), false, None)?,
        _ => op::mul_tensor(&op::unsqueeze(left, 1)?, right)?,
    };
    let is_one = |factor: Scalar| factor.to_complex() == Complex::new(1.0, 0.0);
    let product = if is_one(alpha) { product } else { op::mul_scalar(&product, alpha)? };
    let start = first(stack)?;
    // A factor of zero stands for an absent tensor, also where that holds NaN.
    let start = match beta.to_complex() == Complex::new(0.0, 0.0) {
        true => op::zeros_like(start, None, None, None, None, None)?,
        false if is_one(beta) => start.clone(),
        false => op::mul_scalar(start, beta)?,
    };
    op::add_tensor(&start, &product, 1.into())
}
