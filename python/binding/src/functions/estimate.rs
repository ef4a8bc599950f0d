//! How long a call will take, roughly: enough to decide whether the interpreter lock is given up.
//! See Note [Keeping the interpreter lock].

use crate::py::gil::DETACH_ABOVE_NS;
use corten_ops::registry::Cost;
use corten_ops::{IValue, Tensor};

/// Nanoseconds per element of a memory-bound operator, times 16.
const STREAM_PER_16: i64 = 8;

/// Calls of fewer elements are never long.
const SMALL: i64 = 2048;

/// Whether streaming through this many elements takes long.
#[inline]
pub(crate) fn is_long_stream(numel: i64) -> bool {
    (numel / 16).saturating_mul(STREAM_PER_16) as u64 >= DETACH_ABOVE_NS
}

/// Whether a matrix product takes long: every element of one operand meets a row of the other.
#[inline]
pub(crate) fn is_long_product(a: &Tensor, b: &Tensor) -> bool {
    if a.numel() < 1024 {
        return false;
    }
    a.numel().saturating_mul(b.sizes().last().copied().unwrap_or(1)) as u64 / 32 >= DETACH_ABOVE_NS
}

/// Whether a call is expected to outlast a hand-over of the lock.
pub(crate) fn is_long(cost: Cost, stack: &[IValue]) -> bool {
    let mut total = 0_i64;
    let mut count = 0;
    let mut largest_row = 1_i64;
    let mut visit = |tensor: &Tensor| {
        let numel = tensor.numel();
        total = total.saturating_add(numel);
        count += 1;
        if let Some(&last) = tensor.sizes().last() {
            largest_row = largest_row.max(last);
        }
    };
    stack.iter().for_each(|value| value.for_each_tensor(&mut visit));
    if count == 0 {
        total = stack.iter().map(size_argument).max().unwrap_or(0);
    }
    // The common case: small tensors never detach, whatever the operator.
    total >= SMALL && is_long_work_of(cost, total, largest_row)
}

/// As [`is_long`], of a call with these tensors alone.
#[inline]
pub(super) fn is_long_call(cost: Cost, tensors: &[&Tensor]) -> bool {
    let total = tensors.iter().fold(0_i64, |total, x| total.saturating_add(x.numel()));
    total >= SMALL && {
        let rows = tensors.iter().filter_map(|x| x.sizes().last().copied());
        is_long_work_of(cost, total, rows.fold(1, i64::max))
    }
}

/// Whether work on so many elements, of which so many lie in the longest row, takes long.
fn is_long_work_of(cost: Cost, total: i64, largest_row: i64) -> bool {
    let nanoseconds = match cost {
        Cost::Product => total.saturating_mul(largest_row) / 32,
        Cost::Stream => total.saturating_mul(STREAM_PER_16) / 16,
    };
    nanoseconds as u64 >= DETACH_ABOVE_NS
}

/// The number of elements a factory's size argument asks for.
fn size_argument(value: &IValue) -> i64 {
    match value {
        IValue::IntList(sizes) => sizes.iter().fold(1, |product, &n| product.saturating_mul(n)),
        _ => 0,
    }
}
