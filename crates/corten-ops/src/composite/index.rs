//! Index operators made of others.

use crate::{Tensor, op};
use corten_core::{DType, Dims, Result, ensure, geometry};

/// The positions of the elements that are not zero, one tensor per dimension.
pub fn nonzero_numpy(self_: &Tensor) -> Result<Vec<Tensor>> {
    // A scalar counts as a vector of one element.
    let vector = if self_.dim() == 0 { op::unsqueeze(self_, 0)? } else { self_.clone() };
    op::unbind_int(&op::nonzero(&vector)?, 1)
}

/// The positions of the elements that are not zero, one row each.
pub fn argwhere(self_: &Tensor) -> Result<Tensor> {
    op::nonzero(self_)
}

/// Elements picked along `dim` by indices that broadcast.
///
/// # Errors
/// `Runtime` when ranks differ or the indices are not i64.
pub fn take_along_dim(self_: &Tensor, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    ensure!(
        indices.dtype() == DType::Int64,
        Runtime,
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        indices.dtype().type_name()
    );
    let Some(dim) = dim else {
        return op::gather(&op::view(self_, &[-1])?, 0, &op::view(indices, &[-1])?, false);
    };
    ensure!(
        self_.dim() == indices.dim(),
        Runtime,
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but \
         got {} dimensions for input, and {} dimensions for indices",
        self_.dim(),
        indices.dim()
    );
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    let without = |tensor: &Tensor, size: i64| {
        let mut sizes = tensor.sizes();
        if let Some(place) = sizes.get_mut(dim) {
            *place = size;
        }
        sizes
    };
    let along = |tensor: &Tensor| tensor.sizes().get(dim).copied().unwrap_or(1);
    let shape = geometry::infer_broadcast(&without(self_, 1), &without(indices, 1))?;
    let with = |size: i64| {
        let mut sizes: Dims = shape.clone();
        if let Some(place) = sizes.get_mut(dim) {
            *place = size;
        }
        sizes
    };
    let source = op::expand(self_, &with(along(self_)), false)?;
    let picked = op::expand(indices, &with(along(indices)), false)?;
    op::gather(&source, dim as i64, &picked, false)
}
