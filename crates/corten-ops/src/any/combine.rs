//! Stacking.

use crate::{Tensor, op};
use corten_core::{Result, ensure, geometry};

/// Tensors of one shape along a new dimension.
///
/// # Errors
/// `Runtime` without tensors or when shapes differ; `Index` for a dimension out of range.
pub fn stack(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        corten_core::bail!(Runtime, "stack expects a non-empty TensorList")
    };
    let dim = geometry::wrap_dim(dim, first.dim() + 1)? as i64;
    for (position, tensor) in tensors.iter().enumerate() {
        ensure!(
            tensor.sizes() == first.sizes(),
            Runtime,
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at \
             entry {position}",
            first.sizes().as_slice(),
            tensor.sizes().as_slice()
        );
    }
    let lifted: Vec<Tensor> =
        tensors.iter().map(|tensor| op::unsqueeze(tensor, dim)).collect::<Result<_>>()?;
    op::cat(&lifted, dim)
}
