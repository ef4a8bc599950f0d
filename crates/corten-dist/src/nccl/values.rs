//! Dtypes and reductions in NCCL's numbers.

use std::ffi::c_int;

use corten_core::{DType, ErrorKind, bf16, f16};
use corten_ops::{Tensor, op};

use crate::error::{DistError, DistErrorKind, Result};
use crate::reduce_op::{Factor, ReduceOp};

/// Bytes, which is what calls that only move elements move.
pub(super) const BYTE: c_int = 1;

const SUM: c_int = 0;
const PRODUCT: c_int = 1;
const MAX: c_int = 2;
const MIN: c_int = 3;
const AVERAGE: c_int = 4;

/// What a reduction computes.
#[derive(Clone)]
pub(super) enum Operation {
    /// One of the library's own.
    Known(c_int),
    /// The sum of elements times a number, in the bytes of the dtype.
    Scaled([u8; 8]),
    /// The sum of elements times what a tensor of one element on the device holds.
    ScaledBy(Tensor),
}

/// A reduction of elements of a dtype.
#[derive(Clone)]
pub(super) struct Reduced {
    /// The dtype of what is combined.
    pub(super) dtype: c_int,
    /// How many of these an element has: 2 for complex numbers.
    pub(super) parts: usize,
    /// What is computed.
    pub(super) operation: Operation,
}

impl Reduced {
    /// The reduction `op` of elements of `dtype`, for a library of this version.
    ///
    /// # Errors
    /// `Value` for reductions that NCCL has not got, `Type` for dtypes that it does not reduce.
    pub(super) fn of(op: &ReduceOp, dtype: DType, version: (u32, u32, u32)) -> Result<Self> {
        let parts = if dtype.is_complex() { 2 } else { 1 };
        let number = number(dtype, version)?;
        let operation = match op {
            _ if dtype == DType::Bool => of_bools(op)?,
            ReduceOp::Sum => Operation::Known(SUM),
            ReduceOp::Avg if version >= (2, 10, 0) => Operation::Known(AVERAGE),
            ReduceOp::Avg => {
                return Err(DistError::value("ReduceOp.AVG needs NCCL 2.10 or newer"));
            }
            ReduceOp::PremulSum(factor) => scaled(factor, dtype)?,
            ReduceOp::Product | ReduceOp::Min | ReduceOp::Max if parts == 2 => {
                return Err(DistError::value(format!(
                    "all_reduce does not support {op} on complex tensors"
                )));
            }
            ReduceOp::Product => Operation::Known(PRODUCT),
            ReduceOp::Min => Operation::Known(MIN),
            ReduceOp::Max => Operation::Known(MAX),
            ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => return Err(no_bits(op)),
        };
        Ok(Self { dtype: number, parts, operation })
    }
}

fn no_bits(op: &ReduceOp) -> DistError {
    DistError::value(format!("Cannot use ReduceOp.{op} with NCCL"))
}

/// Reductions of bools, which NCCL sees as bytes: the sum is whether any is true.
fn of_bools(op: &ReduceOp) -> Result<Operation> {
    match op {
        ReduceOp::Sum | ReduceOp::Max => Ok(Operation::Known(MAX)),
        ReduceOp::Product | ReduceOp::Min => Ok(Operation::Known(MIN)),
        ReduceOp::Avg => Err(type_error("Cannot use ReduceOp.AVG with boolean inputs".into())),
        ReduceOp::PremulSum(_) => {
            Err(type_error("Cannot use ReduceOp.PREMUL_SUM with boolean inputs".into()))
        }
        ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => Err(no_bits(op)),
    }
}

fn type_error(message: String) -> DistError {
    DistError::new(DistErrorKind::Core(ErrorKind::Type), message)
}

/// The number of a dtype that is reduced; of complex ones, that of their parts.
fn number(dtype: DType, version: (u32, u32, u32)) -> Result<c_int> {
    Ok(match dtype {
        DType::Int8 => 0,
        DType::UInt8 | DType::Bool => BYTE,
        DType::Int32 => 2,
        DType::UInt32 => 3,
        DType::Int64 => 4,
        DType::UInt64 => 5,
        DType::Float16 | DType::Complex32 => 6,
        DType::Float32 | DType::Complex64 => 7,
        DType::Float64 | DType::Complex128 => 8,
        DType::BFloat16 => 9,
        DType::Float8E4m3fn if version >= (2, 24, 0) => 10,
        DType::Float8E5m2 if version >= (2, 24, 0) => 11,
        DType::Float8E4m3fn | DType::Float8E5m2 => {
            return Err(type_error(format!(
                "NCCL {}.{}.{} does not reduce {}: 2.24 or newer does",
                version.0,
                version.1,
                version.2,
                dtype.name()
            )));
        }
        _ => {
            return Err(type_error(format!(
                "Input tensor data type is not supported for NCCL process group: {}",
                dtype.name()
            )));
        }
    })
}

/// A sum of products with a factor, which is of the dtype.
fn scaled(factor: &Factor, dtype: DType) -> Result<Operation> {
    let number = match factor {
        Factor::Tensor(tensor) if tensor.numel() != 1 => {
            return Err(DistError::value(format!(
                "PREMUL_SUM expects a factor of one element, but got {}",
                tensor.numel()
            )));
        }
        Factor::Tensor(tensor)
            if tensor.device().is_cuda() && tensor.dtype() == dtype && !dtype.is_complex() =>
        {
            return Ok(Operation::ScaledBy(tensor.clone()));
        }
        Factor::Tensor(tensor) => op::item(tensor)?.to_f64(),
        Factor::Number(number) => *number,
    };
    let mut bytes = [0; 8];
    match dtype {
        DType::Float16 => bytes[..2].copy_from_slice(&f16::from_f64(number).to_ne_bytes()),
        DType::BFloat16 => bytes[..2].copy_from_slice(&bf16::from_f64(number).to_ne_bytes()),
        DType::Float32 | DType::Complex64 => {
            bytes[..4].copy_from_slice(&(number as f32).to_ne_bytes());
        }
        DType::Float64 | DType::Complex128 => bytes = number.to_ne_bytes(),
        _ => {
            return Err(type_error(format!(
                "PREMUL_SUM expects elements of float16, bfloat16, float32 or float64, but got {}",
                dtype.name()
            )));
        }
    }
    Ok(Operation::Scaled(bytes))
}
