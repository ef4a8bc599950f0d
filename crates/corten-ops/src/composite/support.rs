//! What the composites of the heavy families share.

use crate::{Tensor, op};
use corten_core::{DType, Result, Scalar, ensure};

/// The name of a dtype's C++ type as PyTorch prints it in some messages.
pub fn type_id_name(dtype: DType) -> &'static str {
    match dtype {
        DType::UInt8 => "unsigned char",
        DType::Int8 => "signed char",
        DType::Int16 => "short int",
        DType::Int32 => "int",
        DType::Int64 => "long int",
        DType::UInt16 => "short unsigned int",
        DType::UInt32 => "unsigned int",
        DType::UInt64 => "long unsigned int",
        DType::Float16 => "c10::Half",
        DType::BFloat16 => "c10::BFloat16",
        DType::Float32 => "float",
        DType::Float64 => "double",
        DType::Complex32 => "c10::complex<c10::Half>",
        DType::Complex64 => "c10::complex<float>",
        DType::Complex128 => "c10::complex<double>",
        DType::Float8E5m2 => "c10::Float8_e5m2",
        DType::Float8E4m3fn => "c10::Float8_e4m3fn",
        other => other.name(),
    }
}

/// The name of a CPU tensor's type as PyTorch prints it in some messages.
pub fn tensor_type_name(dtype: DType) -> String {
    let legacy = matches!(
        dtype,
        DType::UInt8
            | DType::Int8
            | DType::Int16
            | DType::Int32
            | DType::Int64
            | DType::Float16
            | DType::Float32
            | DType::Float64
    );
    let name = dtype.type_name();
    if legacy { format!("torch.{name}Tensor") } else { format!("CPU{name}Type") }
}

/// Checks the dtype of a tensor, in PyTorch's words.
///
/// # Errors
/// `Runtime` for another one.
pub fn expect_dtype(tensor: &Tensor, dtype: DType) -> Result<()> {
    ensure!(
        tensor.dtype() == dtype,
        Runtime,
        "expected scalar type {} but found {}",
        dtype.type_name(),
        tensor.dtype().type_name()
    );
    Ok(())
}

/// What is done with the elements of a loss.
///
/// ```
/// use corten::ops::composite::support::Reduction;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let losses = tensor![1.0, 3.0]?;
/// assert_eq!(Reduction::Mean.apply(losses)?.to_element::<f32>()?, 2.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their mean is taken.
    Mean,
    /// They are summed.
    Sum,
}

impl Reduction {
    /// From the number in the schemas.
    #[must_use]
    pub fn of(number: i64) -> Self {
        match number {
            1 => Self::Mean,
            2 => Self::Sum,
            _ => Self::None,
        }
    }

    /// Reduces losses.
    ///
    /// # Errors
    /// Those of the mean and the sum.
    pub fn apply(self, values: Tensor) -> Result<Tensor> {
        match self {
            Self::None => Ok(values),
            Self::Mean => op::mean(&values, None),
            Self::Sum => op::sum(&values, None),
        }
    }

    /// The factor of a gradient of `numel` elements.
    #[must_use]
    pub fn share(self, numel: i64) -> f64 {
        if self == Self::Mean { 1.0 / numel as f64 } else { 1.0 }
    }
}

/// Whether gradients of this tensor are recorded.
pub(crate) fn requires_grad(tensor: &Tensor) -> bool {
    if let Some(value) = crate::batched::innermost(tensor) {
        return requires_grad(&value);
    }
    tensor.autograd_meta().is_some_and(|meta| meta.requires_grad())
}

/// `number - tensor` as PyTorch computes it, by way of a rank-0 tensor.
pub(crate) fn number_minus(number: impl Into<Scalar>, tensor: &Tensor) -> Result<Tensor> {
    op::sub_tensor(&crate::derived::wrapped(number.into())?, tensor, Scalar::Int(1))
}

/// The elements along one of `rank` dimensions, to be broadcast with the others.
pub(crate) fn along(elements: &Tensor, rank: usize, dim: usize) -> Result<Tensor> {
    // Bounded: one item for each dimension.
    let mut shape = vec![1; rank];
    shape[dim] = -1;
    op::reshape(elements, &shape)
}

/// An undefined tensor counts as absent.
pub(crate) fn defined(tensor: Option<&Tensor>) -> Option<&Tensor> {
    tensor.filter(|tensor| tensor.defined())
}
