//! What MPI is told for a reduction of a dtype.

use corten_core::DType;

use super::table::Datatype;
use crate::reduction::Combination;
use crate::{DistError, ReduceOp, Result};

/// Elements of a dtype, and how they are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi) struct Reduction {
    pub(super) dtype: DType,
    /// Of the same size as the dtype.
    pub(super) datatype: Datatype,
    pub(super) combination: Combination,
}

impl Reduction {
    /// How MPI does `op`. What comes before or after its sums is not part of it.
    ///
    /// # Errors
    /// `Runtime` for dtypes and reductions that make no sense.
    pub(in crate::mpi) fn of(op: &ReduceOp, dtype: DType) -> Result<Self> {
        let combination = Combination::of(op, dtype)?;
        let Some(datatype) = datatype(dtype) else {
            return Err(DistError::runtime(format!(
                "the mpi back end cannot reduce tensors of dtype {dtype}"
            )));
        };
        Ok(Self { dtype, datatype, combination })
    }

    /// Bytes per element.
    pub(in crate::mpi) fn itemsize(self) -> usize {
        self.dtype.itemsize()
    }
}

/// The datatype of elements; for dtypes that MPI does not know, one of the same size.
fn datatype(dtype: DType) -> Option<Datatype> {
    Some(match dtype {
        DType::Int8 => Datatype::Int8,
        DType::Int16 => Datatype::Int16,
        DType::Int32 => Datatype::Int32,
        DType::Int64 => Datatype::Int64,
        DType::UInt8 | DType::Bool => Datatype::UInt8,
        DType::UInt16 | DType::Float16 | DType::BFloat16 => Datatype::UInt16,
        DType::UInt32 | DType::Complex32 | DType::BComplex32 => Datatype::UInt32,
        DType::UInt64 => Datatype::UInt64,
        DType::Float32 => Datatype::Float,
        DType::Float64 => Datatype::Double,
        DType::Complex64 => Datatype::FloatComplex,
        DType::Complex128 => Datatype::DoubleComplex,
        DType::Float8E5m2 | DType::Float8E4m3fn | DType::Float8E5m2fnuz | DType::Float8E4m3fnuz => {
            Datatype::UInt8
        }
        _ => return None,
    })
}
