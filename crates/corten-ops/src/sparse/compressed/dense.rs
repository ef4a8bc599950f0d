//! Dense operators with few arguments, as conversions use them.

use crate::{Tensor, op};
use corten_core::{DType, Layout, Result, Scalar};

/// As `int64`.
pub(super) fn long(tensor: &Tensor) -> Result<Tensor> {
    to(tensor, DType::Int64)
}

/// In another dtype.
pub(super) fn to(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    op::to_dtype(tensor, dtype, false, false, None)
}

/// `0, 1, …` on the device of another tensor.
pub(super) fn arange(end: i64, like: &Tensor) -> Result<Tensor> {
    op::arange(Scalar::Int(end), Some(DType::Int64), None, Some(like.device()), None)
}

/// Zeros of the dtype and device of another tensor.
pub(super) fn zeros(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    zeros_of(sizes, like, like.dtype())
}

/// Zeros on the device of another tensor.
pub(super) fn zeros_of(sizes: &[i64], like: &Tensor, dtype: DType) -> Result<Tensor> {
    op::zeros(sizes, Some(dtype), Some(Layout::Strided), Some(like.device()), None)
}

/// The quotient rounded down; by 0 nothing is divided.
pub(super) fn floor_div(tensor: &Tensor, by: i64) -> Result<Tensor> {
    op::div_scalar_mode(tensor, Scalar::Int(by.max(1)), Some("floor"))
}

/// The remainder, which is not negative.
pub(super) fn modulo(tensor: &Tensor, by: i64) -> Result<Tensor> {
    op::remainder_scalar(tensor, Scalar::Int(by.max(1)))
}

/// `tensor * factor + other`.
pub(super) fn times_plus(tensor: &Tensor, factor: i64, other: &Tensor) -> Result<Tensor> {
    op::add_tensor(&op::mul_scalar(tensor, Scalar::Int(factor))?, other, Scalar::Int(1))
}

/// Each number repeated as often as `counts` says.
pub(super) fn repeat(tensor: &Tensor, counts: &Tensor) -> Result<Tensor> {
    op::repeat_interleave_self_tensor(tensor, counts, Some(0), None)
}

/// The elements at some places.
pub(super) fn at(tensor: &Tensor, places: &[&Tensor]) -> Result<Tensor> {
    let places: Vec<_> = places.iter().map(|&place| Some(place.clone())).collect();
    op::index_tensor(tensor, &places)
}

/// Values in a dtype in which many of them add up: sums of half precision soon stop growing.
pub(super) fn for_sums(values: &Tensor) -> Result<Tensor> {
    match values.dtype() {
        DType::Float16 | DType::BFloat16 => to(values, DType::Float32),
        _ => Ok(values.clone()),
    }
}

/// Rows of `values` added up by their numbers.
pub(super) fn sum_by(numbers: &Tensor, values: &Tensor, count: i64) -> Result<Tensor> {
    let wide = for_sums(values)?;
    let mut sizes = wide.sizes();
    sizes[0] = count;
    if wide.dtype() == DType::Bool {
        let wide = to(&wide, DType::UInt8)?;
        let sums = op::index_add(&zeros(&sizes, &wide)?, 0, numbers, &wide, Scalar::Int(1))?;
        return to(&sums, DType::Bool);
    }
    to(&op::index_add(&zeros(&sizes, &wide)?, 0, numbers, &wide, Scalar::Int(1))?, values.dtype())
}

/// Whether any element is not 0; never so without data.
pub(super) fn any(tensor: &Tensor) -> Result<bool> {
    if tensor.device().is_meta() || tensor.numel() == 0 {
        return Ok(false);
    }
    Ok(op::item(&op::any(tensor)?)?.to_bool())
}

/// Whether two tensors have the same elements.
pub(super) fn same(a: &Tensor, b: &Tensor) -> Result<bool> {
    if a.is_same(b) || a.sizes() == b.sizes() && a.device().is_meta() {
        return Ok(true);
    }
    Ok(a.sizes() == b.sizes() && !any(&op::ne_tensor(a, b)?)?)
}

/// The last dimensions of a shape behind others.
pub(super) fn joined(lists: &[&[i64]]) -> Vec<i64> {
    lists.concat()
}
