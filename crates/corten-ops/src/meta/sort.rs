//! Shapes of sorting and of selecting by order.

use super::Reduce;
use crate::iter::allocate;
use crate::{Tensor, op};
use corten_core::{DType, Result, ensure, geometry};

fn pair(self_: &Tensor, shape: &[i64]) -> Result<(Tensor, Tensor)> {
    let device = self_.device();
    Ok((
        allocate(shape, None, self_.dtype(), device)?,
        allocate(shape, None, DType::Int64, device)?,
    ))
}

/// `sort`.
///
/// # Errors
/// As for [`sort_stable`].
pub fn sort(self_: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    sort_stable(self_, None, dim, descending)
}

/// `sort.stable`: both results are laid out as the input is.
///
/// # Errors
/// `Index` for a dimension out of range, `Type` for complex numbers.
pub fn sort_stable(
    self_: &Tensor,
    _stable: Option<bool>,
    dim: i64,
    _descending: bool,
) -> Result<(Tensor, Tensor)> {
    geometry::wrap_dim(dim, self_.dim())?;
    let complex = self_.dtype().is_complex();
    ensure!(!complex, Type, " Sort does not support complex dtypes on CPU");
    let like = |dtype| op::empty_like(self_, Some(dtype), None, None, None, None);
    Ok((like(self_.dtype())?, like(DType::Int64)?))
}

/// `topk`.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for a `k` out of range, `Type` for complex
/// numbers.
pub fn topk(
    self_: &Tensor,
    k: i64,
    dim: i64,
    _largest: bool,
    _sorted: bool,
) -> Result<(Tensor, Tensor)> {
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    let mut shape = self_.sizes();
    let size = shape.get(dim).copied().unwrap_or(1);
    ensure!(0 <= k && k <= size, Runtime, "selected index k out of range");
    let dtype = self_.dtype();
    ensure!(!dtype.is_complex(), Type, " topk does not support complex dtypes on CPU");
    let bool = dtype == DType::Bool;
    ensure!(!bool, NotImplemented, "topk does not support bool dtypes on CPU");
    if let Some(size) = shape.get_mut(dim) {
        *size = k;
    }
    pair(self_, &shape)
}

/// The shapes of operators that select one element of each line.
fn one_of_each(self_: &Tensor, dim: i64, keepdim: bool, name: &str) -> Result<(Tensor, Tensor)> {
    let reduce = Reduce::over(self_, Some(&[dim]), keepdim)?;
    reduce.check_not_empty(name)?;
    pair(self_, &reduce.shape())
}

/// `kthvalue`.
///
/// # Errors
/// `Index` for a dimension out of range or empty, `Runtime` for a `k` out of range.
pub fn kthvalue(self_: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let outputs = one_of_each(self_, dim, keepdim, "kthvalue()")?;
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    let size = self_.sizes().get(dim).copied().unwrap_or(1);
    ensure!(
        1 <= k && k <= size,
        Runtime,
        "kthvalue(): selected number k out of range for dimension {dim}"
    );
    Ok(outputs)
}

/// `median.dim` and `nanmedian.dim`.
///
/// # Errors
/// `Index` for a dimension out of range or empty.
pub fn median_dim(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    one_of_each(self_, dim, keepdim, "median()")
}

/// `mode`.
///
/// # Errors
/// `Index` for a dimension out of range or empty.
pub fn mode(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    one_of_each(self_, dim, keepdim, "mode()")
}
