//! Reductions of several tensors to one on the CPU, for every dtype. Engines that have reductions of
//! their own use this for what those lack.

use corten_core::{DType, Scalar};
use corten_ops::{Tensor, op};

use crate::error::{DistError, Result};
use crate::reduce_op::{Factor, ReduceOp};

/// The reduction of tensors of one size and dtype, each with the operation of its rank, as a new tensor.
/// Floats of 16 bits are summed and multiplied in 32 bits.
///
/// # Errors
/// `Runtime` where the operators do not support the dtype, or there is no tensor.
pub fn reduce(inputs: &[(Tensor, &ReduceOp)]) -> Result<Tensor> {
    let Some((first, operation)) = inputs.first() else {
        return Err(DistError::runtime("a reduction needs at least one tensor"));
    };
    operation.check(first.dtype())?;
    let (dtype, wide) = (first.dtype(), wide(first.dtype(), operation));
    let mut result: Option<Tensor> = None;
    for (tensor, operation) in inputs {
        let input = prepared(&converted(tensor, wide)?, operation)?;
        result = Some(match result {
            None => input,
            Some(so_far) => combined(&so_far, &input, operation)?,
        });
    }
    let Some(mut result) = result else { return Err(DistError::runtime("nothing to reduce")) };
    if matches!(operation, ReduceOp::Avg) {
        let count = Scalar::Int(inputs.len() as i64);
        let mode = if is_integral(wide) { Some("trunc") } else { None };
        result = op::div_scalar_mode(&result, count, mode)?;
    }
    converted(&result, dtype)
}

fn is_integral(dtype: DType) -> bool {
    !dtype.is_floating_point() && !dtype.is_complex()
}

/// The dtype that is computed in.
fn wide(dtype: DType, operation: &ReduceOp) -> DType {
    let sums = !matches!(operation, ReduceOp::Min | ReduceOp::Max);
    match dtype {
        DType::Float16 | DType::BFloat16 if sums => DType::Float32,
        other => other,
    }
}

fn converted(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    Ok(op::to_dtype(tensor, dtype, false, false, None)?)
}

/// An input as it enters the sum.
fn prepared(input: &Tensor, operation: &ReduceOp) -> Result<Tensor> {
    Ok(match operation {
        ReduceOp::PremulSum(Factor::Number(factor)) => {
            op::mul_scalar(input, Scalar::Float(*factor))?
        }
        ReduceOp::PremulSum(Factor::Tensor(factor)) => {
            op::mul_tensor(input, &converted(&crate::memory::flat(factor)?, input.dtype())?)?
        }
        _ => input.clone(),
    })
}

fn combined(a: &Tensor, b: &Tensor, operation: &ReduceOp) -> Result<Tensor> {
    let is_bool = a.dtype() == DType::Bool;
    Ok(match operation {
        ReduceOp::Sum | ReduceOp::Avg if is_bool => op::bitwise_or_tensor(a, b)?,
        ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum(_) => {
            op::add_tensor(a, b, Scalar::Int(1))?
        }
        ReduceOp::Product => op::mul_tensor(a, b)?,
        ReduceOp::Min => op::minimum(a, b)?,
        ReduceOp::Max => op::maximum(a, b)?,
        ReduceOp::BitAnd => op::bitwise_and_tensor(a, b)?,
        ReduceOp::BitOr => op::bitwise_or_tensor(a, b)?,
        ReduceOp::BitXor => op::bitwise_xor_tensor(a, b)?,
    })
}
