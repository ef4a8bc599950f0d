//! Gradients of the operators that put tensors together.

use corten_core::{DType, Dims, Result, geometry};
use corten_ops::{Tensor, op};

fn cast_piece(piece: Tensor, dtype: DType) -> Result<Tensor> {
    if piece.dtype().is_complex() && !dtype.is_complex() { op::real(&piece) } else { Ok(piece) }
}

/// The gradient of `cat`: each tensor gets its piece.
///
/// # Errors
/// Those of the operators.
pub fn cat_backward(
    grad: &Tensor,
    sizes: &[Dims],
    dtypes: &[DType],
    dim: i64,
) -> Result<Vec<Tensor>> {
    let grad = &op::to_dense(grad, None, None)?;
    let mut start = 0;
    let mut pieces = Vec::with_capacity(sizes.len());
    for (sizes, &dtype) in sizes.iter().zip(dtypes) {
        // Empty vectors may be put beside anything.
        if sizes[..] == [0] {
            pieces.push(op::new_zeros(grad, &[0], None, None, None, None)?);
            continue;
        }
        let length = sizes[geometry::wrap_dim(dim, sizes.len())?];
        let piece = op::narrow(grad, dim, start, length)?;
        start += length;
        pieces.push(cast_piece(piece, dtype)?);
    }
    Ok(pieces)
}

/// The gradient of `stack`: each tensor gets its slice.
///
/// # Errors
/// Those of the operators.
pub fn stack_backward(grad: &Tensor, dtypes: &[DType], dim: i64) -> Result<Vec<Tensor>> {
    if dtypes.is_empty() {
        return Ok(Vec::new());
    }
    let slices = op::unbind_int(grad, dim)?;
    slices.into_iter().zip(dtypes).map(|(slice, &dtype)| cast_piece(slice, dtype)).collect()
}
