//! Views and other changes of shape.

use super::{Batch, first, padded, with_items};
use crate::boxed::Stack;
use crate::op;
use corten_core::Result;
use corten_core::geometry::wrap_dim;

/// Operators with a size, which is that of an item.
pub(crate) fn size(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let value = batch.front(first(stack)?)?;
    stack[0] = value.into();
    stack[1] = with_items(batch, stack[1].get()?);
    batch.op.call_boxed(stack)?;
    batch.wrap_results(stack)
}

/// `_reshape_alias`: the strides follow from the size.
pub(crate) fn reshape_alias(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let value = batch.front(first(stack)?)?;
    let mut sizes = vec![batch.size];
    sizes.extend_from_slice(stack[1].get()?);
    stack.replace(op::view(&value, &sizes)?);
    batch.wrap_results(stack)
}

/// `expand`: new dimensions come behind the hidden one.
pub(crate) fn expand(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let rank = stack[1].get::<&[i64]>()?.len();
    let value = padded(batch.front(first(stack)?)?, rank)?;
    stack[0] = value.into();
    stack[1] = with_items(batch, stack[1].get()?);
    batch.op.call_boxed(stack)?;
    batch.wrap_results(stack)
}

/// `repeat`: as `expand`; the items themselves are not repeated.
pub(crate) fn repeat(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let mut repeats = vec![1];
    repeats.extend_from_slice(stack[1].get()?);
    let value = padded(batch.front(first(stack)?)?, repeats.len() - 1)?;
    stack.replace(op::repeat(&value, &repeats)?);
    batch.wrap_results(stack)
}

/// `permute`: the hidden dimension stays in front.
pub(crate) fn permute(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let rank = first(stack)?.dim();
    let given: &[i64] = stack[1].get()?;
    let mut order = vec![0];
    for dim in given {
        order.push(wrap_dim(*dim, rank)? as i64 + 1);
    }
    let value = batch.front(first(stack)?)?;
    stack.replace(op::permute(&value, &order)?);
    batch.wrap_results(stack)
}

/// `squeeze` of every dimension of size 1 that an item has.
pub(crate) fn squeeze(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let sizes = first(stack)?.sizes();
    let ones: Vec<i64> =
        (0..sizes.len()).filter(|&dim| sizes[dim] == 1).map(|dim| dim as i64 + 1).collect();
    let value = batch.front(first(stack)?)?;
    stack.replace(op::squeeze_dims(&value, &ones)?);
    batch.wrap_results(stack)
}

/// `t`: a matrix or less.
pub(crate) fn t(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let tensor = first(stack)?;
    corten_core::ensure!(
        tensor.dim() <= 2,
        Runtime,
        "t() expects a tensor with <= 2 dimensions, but self is {}D",
        tensor.dim()
    );
    let value = batch.front(tensor)?;
    let turned = match value.dim() {
        3 => op::transpose_int(&value, 1, 2)?,
        _ => op::alias(&value)?,
    };
    stack.replace(turned);
    batch.wrap_results(stack)
}

/// `as_strided`: the first item's offset is the given one, the others follow at its distance.
pub(crate) fn as_strided(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let value = batch.front(first(stack)?)?;
    let mut sizes = vec![batch.size];
    sizes.extend_from_slice(stack[1].get()?);
    let mut strides = vec![value.stride(0)?];
    strides.extend_from_slice(stack[2].get()?);
    let offset = stack.get(3).map_or(Ok(None), |given| given.get::<Option<i64>>())?;
    let offset = offset.unwrap_or(value.storage_offset());
    stack.replace(op::as_strided(&value, &sizes, &strides, Some(offset))?);
    batch.wrap_results(stack)
}

/// `cat` along a dimension of the items.
pub(crate) fn cat(batch: &Batch, stack: &mut Stack) -> Result<()> {
    joined(batch, stack, 0)
}

/// `stack` along a new dimension of the items.
pub(crate) fn stack(batch: &Batch, stack: &mut Stack) -> Result<()> {
    joined(batch, stack, 1)
}

fn joined(batch: &Batch, stack: &mut Stack, added: usize) -> Result<()> {
    let given: &[crate::Tensor] = stack[0].get()?;
    let rank = given.iter().map(|tensor| tensor.dim()).max().unwrap_or(0);
    // An empty vector can be put beside anything.
    let counts = |tensor: &&crate::Tensor| rank == 1 || tensor.sizes().as_slice() != [0];
    let values: Result<Vec<_>> =
        given.iter().filter(counts).map(|tensor| batch.front_expanded(tensor)).collect();
    let dim = wrap_dim(stack[1].get()?, rank + added)? as i64 + 1;
    stack[0] = values?.into();
    stack[1] = dim.into();
    batch.op.call_boxed(stack)?;
    batch.wrap_results(stack)
}
