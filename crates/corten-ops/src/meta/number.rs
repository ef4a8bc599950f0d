//! Results of a tensor and numbers.

use crate::Tensor;
use crate::iter::TensorIteratorConfig;
use corten_core::{DType, Result, ResultTypeState, Scalar};

/// The dtype of a tensor beside numbers.
///
/// # Errors
/// Those of type promotion.
pub(super) fn promoted(self_: &Tensor, numbers: &[Scalar]) -> Result<DType> {
    let mut dtype = ResultTypeState::new();
    dtype.push_tensor(self_.dtype(), self_.dim(), self_.is_wrapped_number())?;
    for number in numbers {
        dtype.push_scalar(number)?;
    }
    dtype.finish()
}

/// A result for a tensor and numbers. In PyTorch the numbers of some operators are no operands,
/// which shows in strides that do not matter.
///
/// # Errors
/// Those of type promotion.
pub fn beside_numbers(self_: &Tensor, numbers: &[Scalar]) -> Result<Tensor> {
    let walk = TensorIteratorConfig::unary()
        .check_all_same_dtype(false)
        .declare_static_dtype(promoted(self_, numbers)?)
        .add_output(None)
        .add_input(self_)
        .build()?;
    Ok(walk.into_output(0))
}
