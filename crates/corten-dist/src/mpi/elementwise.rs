//! What reductions do to elements before or after MPI sums them.

use corten_core::{
    Complex, DType, Element, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, Scalar, bf16, cast, f16,
};

use super::ffi::{Buffer, Reduced};
use crate::{DistError, Result};

/// What each element becomes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The element divided by the number of ranks; integers are rounded to zero.
    Divide(usize),
    /// The element times a factor.
    Multiply(Scalar),
}

macro_rules! integers {
    ($integer:ty, $buffer:expr, $change:expr) => {
        match $change {
            Change::Divide(by) => {
                // A divisor that the dtype cannot hold is larger than every element.
                let by = <$integer>::try_from(by).ok();
                $buffer
                    .update(|value: $integer| by.and_then(|by| value.checked_div(by)).unwrap_or(0));
            }
            Change::Multiply(factor) => {
                let factor = <$integer>::from_scalar(factor);
                $buffer.update(|value: $integer| value.wrapping_mul(factor));
            }
        }
    };
}

/// Changes the elements of a buffer, which are of `dtype`.
///
/// # Errors
/// `Runtime` for dtypes without arithmetic.
pub(super) fn change(buffer: &Buffer, dtype: DType, change: Change) -> Result<()> {
    match dtype {
        DType::Float16 => floats::<f16>(buffer, change),
        DType::BFloat16 => floats::<bf16>(buffer, change),
        DType::Float32 => floats::<f32>(buffer, change),
        DType::Float64 => floats::<f64>(buffer, change),
        DType::Float8E5m2 => floats::<F8E5M2>(buffer, change),
        DType::Float8E4m3fn => floats::<F8E4M3FN>(buffer, change),
        DType::Float8E5m2fnuz => floats::<F8E5M2FNUZ>(buffer, change),
        DType::Float8E4m3fnuz => floats::<F8E4M3FNUZ>(buffer, change),
        DType::Complex32 => floats::<Complex<f16>>(buffer, change),
        DType::BComplex32 => floats::<Complex<bf16>>(buffer, change),
        DType::Complex64 => floats::<Complex<f32>>(buffer, change),
        DType::Complex128 => floats::<Complex<f64>>(buffer, change),
        DType::UInt8 => integers!(u8, buffer, change),
        DType::Int8 => integers!(i8, buffer, change),
        DType::Int16 => integers!(i16, buffer, change),
        DType::Int32 => integers!(i32, buffer, change),
        DType::Int64 => integers!(i64, buffer, change),
        DType::UInt16 => integers!(u16, buffer, change),
        DType::UInt32 => integers!(u32, buffer, change),
        DType::UInt64 => integers!(u64, buffer, change),
        _ => {
            return Err(DistError::runtime(format!(
                "tensors of dtype {dtype} cannot be averaged or multiplied by the mpi back end"
            )));
        }
    }
    Ok(())
}

fn floats<T: Reduced>(buffer: &Buffer, change: Change) {
    match change {
        Change::Divide(by) => {
            let by = T::Wide::from_scalar(Scalar::Int(by as i64));
            buffer.update(|value: T| cast(cast::<T, T::Wide>(value) / by));
        }
        Change::Multiply(factor) => {
            // The factor is of the dtype of the elements, as in a tensor.
            let factor: T::Wide = cast(T::from_scalar(factor));
            buffer.update(|value: T| cast(cast::<T, T::Wide>(value) * factor));
        }
    }
}
