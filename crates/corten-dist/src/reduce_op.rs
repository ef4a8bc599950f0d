//! What a reduction computes.

use std::fmt;

use corten_core::DType;
use corten_ops::Tensor;

use crate::error::{DistError, Result};

/// How elements of the ranks become one.
///
/// ```
/// use corten_dist::ReduceOp;
///
/// assert_eq!(ReduceOp::Sum.to_string(), "SUM");
/// ```
#[derive(Clone, Debug, Default)]
pub enum ReduceOp {
    /// The sum. Of bools: whether any is true.
    #[default]
    Sum,
    /// The sum divided by the number of ranks.
    Avg,
    /// The product. Of bools: whether all are true.
    Product,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The bits that all have; integers and bools.
    BitAnd,
    /// The bits that any has; integers and bools.
    BitOr,
    /// The bits that an odd number has; integers and bools.
    BitXor,
    /// The sum of the elements times a factor that each rank has.
    PremulSum(Factor),
}

/// What elements are multiplied with before they are summed.
#[derive(Clone, Debug)]
pub enum Factor {
    /// A number.
    Number(f64),
    /// A tensor of one element, of the dtype of what is summed.
    Tensor(Tensor),
}

impl ReduceOp {
    /// The name in PyTorch's `ReduceOp`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sum => "SUM",
            Self::Avg => "AVG",
            Self::Product => "PRODUCT",
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::BitAnd => "BAND",
            Self::BitOr => "BOR",
            Self::BitXor => "BXOR",
            Self::PremulSum(_) => "PREMUL_SUM",
        }
    }

    /// Whether elements are seen as bits.
    pub fn is_bitwise(&self) -> bool {
        matches!(self, Self::BitAnd | Self::BitOr | Self::BitXor)
    }

    /// Says what cannot be reduced so.
    ///
    /// # Errors
    /// `Runtime` for bits of floats, averages of bools, and factors of integers; `Value` for the order of complex
    /// numbers.
    pub fn check(&self, dtype: DType) -> Result<()> {
        let is_float = dtype.is_floating_point() || dtype.is_complex();
        if self.is_bitwise() && is_float {
            return Err(DistError::runtime(format!(
                "Cannot use ReduceOp.{} with non-integral dtype",
                self.name()
            )));
        }
        if matches!(self, Self::Min | Self::Max) && dtype.is_complex() {
            return Err(DistError::value(format!(
                "all_reduce does not support ReduceOp.{} on complex tensors",
                self.name()
            )));
        }
        let is_refused = match self {
            Self::Avg => dtype == DType::Bool,
            // Of an integer and a factor that is none, there is no product of the dtype.
            Self::PremulSum(_) => !is_float,
            _ => false,
        };
        if is_refused {
            return Err(DistError::runtime(format!(
                "ReduceOp.{} is not supported for {}",
                self.name(),
                dtype.name()
            )));
        }
        Ok(())
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
