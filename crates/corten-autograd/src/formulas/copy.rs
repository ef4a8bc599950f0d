//! Gradients of conversions.

use corten_core::{Result, TensorOptions};
use corten_ops::{Tensor, op};

/// `_to_copy`: back in the input's dtype and on its device.
///
/// # Errors
/// Those of the operators.
pub fn _to_copy_backward(grad: &Tensor, options: TensorOptions) -> Result<Tensor> {
    op::to_dtype_layout(grad, options.dtype, None, options.device, None, false, false, None)
}
