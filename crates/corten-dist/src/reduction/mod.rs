//! Reductions of memory, element by element: of every dtype, for every back end whose library lacks them.
//!
//! All of them commute. Floats of 16 and 8 bits are combined in 32 bits and rounded once. The smallest or
//! largest of NaN and a number is NaN. Of bools, a sum is whether any is true, a product whether all are.

mod elements;
mod fold;

use corten_core::{Complex, DType, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, bf16, f16};

use crate::error::{DistError, Result};
use crate::reduce_op::ReduceOp;
use elements::{BitAnd, BitOr, BitXor, Max, Min, Product, Sum};
use elements::{Bits, Ordered};
pub(crate) use elements::{Combine, Reduced};
pub use fold::reduce;
pub(crate) use fold::{Operands, divide, fold, fold_elements, premultiply};

/// How two elements become one. Averages and sums with factors are sums, with a division after or a product
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Combination {
    Sum,
    Product,
    Min,
    Max,
    BitAnd,
    BitOr,
    BitXor,
}

impl Combination {
    /// That of an operation on elements of a dtype.
    ///
    /// # Errors
    /// What [`ReduceOp::check`] refuses, and dtypes that have no arithmetic.
    pub(crate) fn of(op: &ReduceOp, dtype: DType) -> Result<Self> {
        op.check(dtype)?;
        let combination = match op {
            ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum(_) => Self::Sum,
            ReduceOp::Product => Self::Product,
            ReduceOp::Min => Self::Min,
            ReduceOp::Max => Self::Max,
            ReduceOp::BitAnd => Self::BitAnd,
            ReduceOp::BitOr => Self::BitOr,
            ReduceOp::BitXor => Self::BitXor,
        };
        // Bools are bytes that are 0 or 1.
        let combination = match combination {
            Self::Sum | Self::Max if dtype == DType::Bool => Self::BitOr,
            Self::Product | Self::Min if dtype == DType::Bool => Self::BitAnd,
            other => other,
        };
        struct Exists;
        impl Visit for Exists {
            type Output = ();
            fn visit<T: Reduced, C: Combine<T::Wide>>(self) {}
        }
        match visit(dtype, combination, Exists) {
            Some(()) => Ok(combination),
            None => Err(unsupported(op, dtype)),
        }
    }
}

fn unsupported(op: &ReduceOp, dtype: DType) -> DistError {
    DistError::runtime(format!("ReduceOp.{} is not supported for {}", op.name(), dtype.name()))
}

/// Something that is made or done for a type of elements and a way to combine them.
pub(crate) trait Visit {
    /// What comes out.
    type Output;

    /// Does it.
    fn visit<T: Reduced, C: Combine<T::Wide>>(self) -> Self::Output;
}

/// Something that is done for a type of elements.
pub(crate) trait VisitElement {
    /// What comes out.
    type Output;

    /// Does it.
    fn visit<T: Reduced>(self) -> Self::Output;
}

/// Calls `$of::<T, _>($rest)` with the type of elements of a dtype, `$integers`, `$floats` or `$complex` by their kind.
macro_rules! by_dtype {
    ($dtype:expr, $integers:path, $floats:path, $complex:path, $($argument:expr),+) => {{
        use $complex as complex;
        use $floats as floats;
        use $integers as integers;
        match $dtype {
            DType::Bool | DType::UInt8 => integers::<u8, _>($($argument),+),
            DType::Int8 => integers::<i8, _>($($argument),+),
            DType::Int16 => integers::<i16, _>($($argument),+),
            DType::Int32 => integers::<i32, _>($($argument),+),
            DType::Int64 => integers::<i64, _>($($argument),+),
            DType::UInt16 => integers::<u16, _>($($argument),+),
            DType::UInt32 => integers::<u32, _>($($argument),+),
            DType::UInt64 => integers::<u64, _>($($argument),+),
            DType::Float16 => floats::<f16, _>($($argument),+),
            DType::BFloat16 => floats::<bf16, _>($($argument),+),
            DType::Float32 => floats::<f32, _>($($argument),+),
            DType::Float64 => floats::<f64, _>($($argument),+),
            DType::Float8E5m2 => floats::<F8E5M2, _>($($argument),+),
            DType::Float8E4m3fn => floats::<F8E4M3FN, _>($($argument),+),
            DType::Float8E5m2fnuz => floats::<F8E5M2FNUZ, _>($($argument),+),
            DType::Float8E4m3fnuz => floats::<F8E4M3FNUZ, _>($($argument),+),
            DType::Complex32 => complex::<Complex<f16>, _>($($argument),+),
            DType::BComplex32 => complex::<Complex<bf16>, _>($($argument),+),
            DType::Complex64 => complex::<Complex<f32>, _>($($argument),+),
            DType::Complex128 => complex::<Complex<f64>, _>($($argument),+),
            _ => None,
        }
    }};
}

/// Visits a dtype and a combination; nothing where elements cannot be combined so.
pub(crate) fn visit<V: Visit>(
    dtype: DType,
    combination: Combination,
    visitor: V,
) -> Option<V::Output> {
    by_dtype!(dtype, self::integers, self::floats, self::numbers, combination, visitor)
}

/// Visits a dtype; nothing for those without arithmetic.
pub(crate) fn visit_element<V: VisitElement>(dtype: DType, visitor: V) -> Option<V::Output> {
    fn any<T: Reduced, V: VisitElement>(visitor: V) -> Option<V::Output> {
        Some(visitor.visit::<T>())
    }
    by_dtype!(dtype, any, any, any, visitor)
}

fn integers<T, V>(combination: Combination, visitor: V) -> Option<V::Output>
where
    T: Reduced<Wide: Ordered + Bits>,
    V: Visit,
{
    match combination {
        Combination::BitAnd => Some(visitor.visit::<T, BitAnd>()),
        Combination::BitOr => Some(visitor.visit::<T, BitOr>()),
        Combination::BitXor => Some(visitor.visit::<T, BitXor>()),
        _ => floats::<T, V>(combination, visitor),
    }
}

fn floats<T, V>(combination: Combination, visitor: V) -> Option<V::Output>
where
    T: Reduced<Wide: Ordered>,
    V: Visit,
{
    match combination {
        Combination::Min => Some(visitor.visit::<T, Min>()),
        Combination::Max => Some(visitor.visit::<T, Max>()),
        _ => numbers::<T, V>(combination, visitor),
    }
}

fn numbers<T: Reduced, V: Visit>(combination: Combination, visitor: V) -> Option<V::Output> {
    match combination {
        Combination::Sum => Some(visitor.visit::<T, Sum>()),
        Combination::Product => Some(visitor.visit::<T, Product>()),
        _ => None,
    }
}
