//! Conditions on tensors that raise where they do not hold.

use crate::{Tensor, op};
use corten_core::geometry::{Overlap, has_internal_overlap};
use corten_core::{DType, Device, Layout, Result, Scalar, ensure, err};

/// Raises where the only element of a tensor is zero.
///
/// # Errors
/// It is, or there is not one element.
pub fn assert_async(self_: &Tensor) -> Result<()> {
    assert_async_msg(self_, "Expected Tensor with single nonzero value, but got zero")
}

/// Raises with `assert_msg` where the only element of a tensor is zero.
///
/// # Errors
/// It is, or there is not one element.
pub fn assert_async_msg(self_: &Tensor, assert_msg: &str) -> Result<()> {
    ensure!(op::is_nonzero(self_)?, Runtime, "{assert_msg}");
    Ok(())
}

/// `assert_async_msg`, and a copy of `dep_token`.
///
/// # Errors
/// Those of `assert_async_msg`.
pub fn functional_assert_async_msg(
    self_: &Tensor,
    assert_msg: &str,
    dep_token: &Tensor,
) -> Result<Tensor> {
    assert_async_msg(self_, assert_msg)?;
    op::clone(dep_token, None)
}

/// Raises with `assert_msg` where a number is zero.
///
/// # Errors
/// It is.
pub fn assert_scalar(self_: Scalar, assert_msg: &str) -> Result<()> {
    ensure!(self_.to_bool(), Runtime, "{assert_msg}");
    Ok(())
}

/// Raises where a tensor has other sizes, strides, another dtype, device or layout than a program was made for.
///
/// # Errors
/// It has.
pub fn assert_tensor_metadata(
    a: &Tensor,
    size: Option<&[i64]>,
    stride: Option<&[i64]>,
    dtype: Option<DType>,
    device: Option<Device>,
    layout: Option<Layout>,
) -> Result<()> {
    let mismatch = |what: &str, expected: String, given: String| {
        err!(Runtime, "Tensor {what} mismatch! Expected: {expected}, Got: {given}")
    };
    if let Some(size) = size.filter(|&size| a.sizes().as_slice() != size) {
        return Err(mismatch("sizes", format!("{size:?}"), format!("{:?}", a.sizes())));
    }
    if let Some(stride) = stride.filter(|&stride| a.strides().as_slice() != stride) {
        return Err(mismatch("strides", format!("{stride:?}"), format!("{:?}", a.strides())));
    }
    if let Some(dtype) = dtype.filter(|&dtype| a.dtype() != dtype) {
        return Err(mismatch("dtype", dtype.to_string(), a.dtype().to_string()));
    }
    if let Some(device) = device.filter(|&device| a.device() != device) {
        return Err(mismatch("device", device.to_string(), a.device().to_string()));
    }
    if let Some(layout) = layout.filter(|&layout| a.layout() != layout) {
        return Err(mismatch("layout", layout.name().into(), a.layout().name().into()));
    }
    Ok(())
}

/// Whether all elements of a tensor of bools are true.
///
/// # Errors
/// The tensor has another dtype.
pub fn is_all_true(self_: &Tensor) -> Result<Tensor> {
    check_bool("_is_all_true", self_)?;
    op::all(self_)
}

/// Whether any element of a tensor of bools is true.
///
/// # Errors
/// The tensor has another dtype.
pub fn is_any_true(self_: &Tensor) -> Result<Tensor> {
    check_bool("_is_any_true", self_)?;
    op::any(self_)
}

fn check_bool(name: &str, tensor: &Tensor) -> Result<()> {
    let dtype = tensor.dtype();
    ensure!(dtype == DType::Bool, Runtime, "{name}: expected a tensor of bools, but got {dtype}");
    Ok(())
}

/// Whether indices share an element: 0 for no, 1 for yes, 2 where finding out is too hard.
pub fn debug_has_internal_overlap(self_: &Tensor) -> Result<i64> {
    Ok(match has_internal_overlap(self_) {
        Overlap::No => 0,
        Overlap::Yes => 1,
        Overlap::TooHard => 2,
    })
}
