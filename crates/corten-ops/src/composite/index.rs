//! Index operators made of others.

use crate::{Tensor, derived, op};
use corten_core::{
    DType, Dims, DispatchKey, Layout, Result, ResultTypeState, Scalar, ensure, geometry, tls,
};

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

/// Elements picked along `dim` by indices that broadcast; negative ones count from the end.
///
/// # Errors
/// `Runtime` when ranks differ or the indices are not i64.
pub fn take_along_dim(self_: &Tensor, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let Some(dim) = dim else {
        return op::gather(&op::view(self_, &[-1])?, 0, &op::view(indices, &[-1])?, false);
    };
    ensure!(
        indices.dtype() == DType::Int64,
        Runtime,
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        indices.dtype().type_name()
    );
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
    let from_end = op::add_scalar(indices, Scalar::Int(along(self_)), Scalar::Int(1))?;
    let wrapped = op::where_self(&op::lt_scalar(indices, Scalar::Int(0))?, &from_end, indices)?;
    let picked = op::expand(&wrapped, &with(along(indices)), false)?;
    op::gather(&source, dim as i64, &picked, false)
}

/// The indices of the true elements, one tensor per dimension.
///
/// # Errors
/// Those of `nonzero`.
pub fn where_(condition: &Tensor) -> Result<Vec<Tensor>> {
    op::nonzero_numpy(condition)
}

/// A number as a tensor beside another operand of `where`. Functions of Python that see every call see that it
/// is made, with the dtype of the result.
fn choice(value: Scalar, other: &Tensor) -> Result<Tensor> {
    let wrapped = derived::wrapped(value)?;
    if !tls::local_include().has(DispatchKey::Python) {
        return Ok(wrapped);
    }
    let mut result = ResultTypeState::new();
    result.push_tensor(other.dtype(), other.dim(), other.is_wrapped_number())?;
    result.push_scalar(&value)?;
    let dtype = Some(result.finish()?);
    op::scalar_tensor(value, dtype, Some(Layout::Strided), Some(other.device()), None)
}

/// A number where the condition is true, elements of `other` elsewhere.
///
/// # Errors
/// Those of `where`.
pub fn where_scalar_self(condition: &Tensor, self_: Scalar, other: &Tensor) -> Result<Tensor> {
    op::where_self(condition, &choice(self_, other)?, other)
}

/// Elements of `self` where the condition is true, a number elsewhere.
///
/// # Errors
/// Those of `where`.
pub fn where_scalar_other(condition: &Tensor, self_: &Tensor, other: Scalar) -> Result<Tensor> {
    op::where_self(condition, self_, &choice(other, self_)?)
}

/// One number where the condition is true, another elsewhere.
///
/// # Errors
/// Those of `where`.
pub fn where_scalar(condition: &Tensor, self_: Scalar, other: Scalar) -> Result<Tensor> {
    let wrapped = derived::wrapped(other)?;
    if !tls::local_include().has(DispatchKey::Python) {
        return op::where_self(condition, &derived::wrapped(self_)?, &wrapped);
    }
    let other = choice(other, &derived::wrapped(self_)?)?;
    op::where_self(condition, &choice(self_, &wrapped)?, &other)
}

/// Fills the main diagonal of a tensor whose dimensions are equal, or of a matrix; of a tall matrix
/// also, with `wrap`, the diagonals that start one row below the end of the one before.
///
/// # Errors
/// `Runtime` for other shapes, and those of `fill_`.
pub fn fill_diagonal_(self_: &Tensor, fill_value: Scalar, wrap: bool) -> Result<Tensor> {
    let (sizes, strides) = (self_.sizes(), self_.strides());
    ensure!(sizes.len() >= 2, Runtime, "dimensions must larger than 1");
    let (height, width) = (sizes[0], sizes[1]);
    ensure!(
        sizes.len() == 2 || sizes.iter().all(|&size| size == height),
        Runtime,
        "all dimensions of input must be of equal length"
    );
    let length = height.min(width);
    let (step, offset) = (strides.iter().sum::<i64>(), self_.storage_offset());
    op::fill__scalar(&op::as_strided(self_, &[length], &[step], Some(offset))?, fill_value)?;
    if wrap && sizes.len() == 2 && height > width + 1 {
        let more = (height * width + width) / (width + 1) - length;
        let below = offset + strides[0] * (width + 1);
        op::fill__scalar(&op::as_strided(self_, &[more], &[step], Some(below))?, fill_value)?;
    }
    Ok(self_.clone())
}
