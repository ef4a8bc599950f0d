//! Gradients of putting tensors together.

use corten_core::{DType, Dims, Result};
use corten_ops::{Tensor, op};

/// The gradient in the dtype of the tensor it belongs to.
fn cast_to(grad: &Tensor, dtype: DType) -> Result<Tensor> {
    let real = match grad.dtype().is_complex() && !dtype.is_complex() {
        true => op::real(grad)?,
        false => grad.clone(),
    };
    op::to_dtype(&real, dtype, false, false, None)
}

/// Gradients of `cat`: each tensor gets its own part.
pub fn cat_backward(
    grad: &Tensor,
    tensors_sizes: &[Dims],
    tensors_dtypes: &[DType],
    dim: i64,
) -> Result<Vec<Tensor>> {
    let dim = if dim < 0 { dim + grad.dim() as i64 } else { dim };
    let mut start = 0;
    let mut gradients = Vec::with_capacity(tensors_sizes.len());
    for (sizes, dtype) in tensors_sizes.iter().zip(tensors_dtypes) {
        // An empty vector was skipped whatever the shape of the others.
        if sizes.as_slice() == [0] {
            let empty = op::zeros(&[0], Some(*dtype), None, Some(grad.device()), None)?;
            gradients.push(empty);
            continue;
        }
        let length = sizes[dim as usize];
        gradients.push(cast_to(&op::narrow(grad, dim, start, length)?, *dtype)?);
        start += length;
    }
    Ok(gradients)
}

/// Gradients of `stack`: each tensor gets its own slice.
pub fn stack_backward(grad: &Tensor, tensors_dtypes: &[DType], dim: i64) -> Result<Vec<Tensor>> {
    let slices = op::unbind_int(grad, dim)?;
    slices.iter().zip(tensors_dtypes).map(|(slice, dtype)| cast_to(slice, *dtype)).collect()
}
