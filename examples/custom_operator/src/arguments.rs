//! What is asked of the arguments, and the result without its values.

use crate::NAME;
use corten::ops::checks::{
    TensorArg, check_dim, check_same_device, check_same_dtype, check_same_size,
};
use corten::{Result, Tensor, op};

fn check(decay: &Tensor, input: &Tensor) -> Result<()> {
    let (decay, input) = (TensorArg::new(decay, "decay", 1), TensorArg::new(input, "input", 2));
    check_same_device(NAME, &[decay, input])?;
    check_same_dtype(NAME, decay, input)?;
    check_dim(NAME, input, 2)?;
    check_same_size(NAME, decay, input)
}

/// The result for these arguments, not filled: all that the meta device needs.
pub(crate) fn empty_result(decay: &Tensor, input: &Tensor) -> Result<Tensor> {
    check(decay, input)?;
    let (dtype, device) = (Some(input.dtype()), Some(input.device()));
    op::empty_memory_format(&input.sizes(), dtype, None, device, None, None)
}
