//! Operators that treat all elements alike.

use super::{Batch, items, map_all, padded, tensors};
use crate::boxed::{IValue, Stack};
use crate::{Tensor, op};
use corten_core::{DType, MemoryFormat, Result, promote_types};

/// Arguments are aligned from the right, behind the hidden dimension.
pub(crate) fn pointwise(batch: &Batch, stack: &mut Stack) -> Result<()> {
    aligned(batch, stack, false)
}

/// [`pointwise`], or with the last argument as it is.
fn aligned(batch: &Batch, stack: &mut Stack, but_last: bool) -> Result<()> {
    let last = stack.last().filter(|_| but_last).cloned();
    let originals = stack.clone();
    let all = tensors(stack);
    let rank = all.iter().map(|tensor| tensor.dim()).max().unwrap_or(0);
    let wide = dtype_of_wide(&all);
    map_all(stack, |tensor| {
        if batch.has(tensor) {
            let value = batch.front(tensor)?;
            // An item without dimensions decides less on the result's dtype than others do; its
            // batch would decide as much.
            let value = match wide {
                Some(wide) if tensor.dim() == 0 && category(value.dtype()) == category(wide) => {
                    op::to_dtype(&value, wide, false, false, None)?
                }
                _ => value,
            };
            return padded(value, rank);
        }
        let alike = rank == 0 && !tensor.is_wrapped_number();
        if alike { op::unsqueeze(tensor, 0) } else { Ok(tensor.clone()) }
    })?;
    if let (Some(last), Some(place)) = (last, stack.last_mut()) {
        *place = last;
    }
    batch.call(stack, &originals)
}

/// The common dtype of the tensors that have dimensions.
fn dtype_of_wide(all: &[Tensor]) -> Option<DType> {
    let wide = all.iter().filter(|tensor| tensor.dim() > 0).map(|tensor| tensor.dtype());
    wide.reduce(|left, right| promote_types(left, right).unwrap_or(left))
}

fn category(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        _ if dtype.is_complex() => 3,
        _ if dtype.is_floating_point() => 2,
        _ => 1,
    }
}

/// Operators that make a tensor like another. A memory format other than that of the other is one
/// of the items.
pub(crate) fn like(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let known = [MemoryFormat::Contiguous, MemoryFormat::Preserve];
    let own = stack
        .iter()
        .any(|value| matches!(value, IValue::MemoryFormat(format) if !known.contains(format)));
    let flat = super::first(stack)?.dim() == 0;
    if own || flat { items(batch, stack) } else { pointwise(batch, stack) }
}

/// Operators that fill with one value: the items' own values are not one.
pub(crate) fn filled(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let own = stack.last().is_some_and(|value| {
        let mut own = false;
        value.for_each_tensor(&mut |tensor| own |= batch.has(tensor));
        own
    });
    if own {
        return items(batch, stack);
    }
    aligned(batch, stack, true)
}
