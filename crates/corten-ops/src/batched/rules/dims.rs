//! Operators along dimensions.

use super::{Batch, first, items, map_all, place, tensors};
use crate::boxed::{IValue, Stack};
use crate::op;
use crate::registry::OpKind;
use corten_core::geometry::wrap_dim;
use corten_core::{Dims, Result};

/// Arguments that name dimensions.
const NAMES: [&str; 6] = ["dim", "dims", "dim0", "dim1", "dim2", "dimension"];

/// Operators on the last dimensions, whatever is before them; one tensor is batched.
pub(crate) fn leading(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let originals = stack.clone();
    map_all(stack, |tensor| batch.front(tensor))?;
    batch.call(stack, &originals)
}

/// Dimensions are counted among those of an item.
pub(crate) fn dims(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let rank = first(stack)?.dim();
    let flat = tensors(stack).iter().filter(|tensor| tensor.dim() == 0).count();
    // One without dimensions beside one that has some, such as a source or indices of rank 0.
    if flat > 0 && flat < tensors(stack).len() {
        return items(batch, stack);
    }
    along(batch, stack, rank)
}

/// As [`dims`], for operators whose result has one dimension more, which is counted.
pub(crate) fn dims_of_result(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let originals = stack.clone();
    let rank = first(stack)?.dim() + 1;
    shift(batch, stack, rank)?;
    map_all(stack, |tensor| batch.front(tensor))?;
    batch.call(stack, &originals)
}

/// As [`dims`], with indices into one dimension that are the same for all items.
pub(crate) fn indexed(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let Some(index) = place(batch, "index") else { return items(batch, stack) };
    let indices = stack[index].clone();
    let mut own = false;
    indices.for_each_tensor(&mut |tensor| own |= batch.has(tensor));
    let mut flat = false;
    stack.iter().for_each(|value| value.for_each_tensor(&mut |t| flat |= t.dim() == 0));
    if own || flat {
        return items(batch, stack);
    }
    let originals = stack.clone();
    let rank = first(stack)?.dim();
    shift(batch, stack, rank)?;
    map_all(stack, |tensor| batch.front_expanded(tensor))?;
    stack[index] = indices;
    batch.call(stack, &originals)
}

/// Backward formulas of views, which are given the sizes of what was viewed.
pub(crate) fn view_backward(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let Some(sizes) = place(batch, "input_sizes") else { return items(batch, stack) };
    let given: &[i64] = stack[sizes].get()?;
    let (rank, all) = (given.len(), super::with_items(batch, given));
    shift(batch, stack, rank)?;
    stack[sizes] = all;
    leading(batch, stack)
}

/// Calls the operator with its dimensions counted behind the hidden one.
pub(super) fn along(batch: &Batch, stack: &mut Stack, rank: usize) -> Result<()> {
    let originals = stack.clone();
    shift(batch, stack, rank)?;
    let several = tensors(stack).len() > 1;
    map_all(stack, |tensor| {
        let value = if several { batch.front_expanded(tensor)? } else { batch.front(tensor)? };
        // A tensor without dimensions counts as one with a single one of size 1.
        if tensor.dim() == 0 { op::unsqueeze(&value, 1) } else { Ok(value) }
    })?;
    batch.op.call_boxed(stack)?;
    if batch.op.def().kind == OpKind::Inplace {
        stack.replace(first(&originals)?.clone());
        return Ok(());
    }
    if rank == 0 {
        map_all(stack, |tensor| match tensor.dim() {
            0 | 1 => Ok(tensor.clone()),
            _ => op::squeeze_dim(tensor, 1),
        })?;
    }
    batch.wrap_results(stack)
}

/// Moves the arguments that name dimensions of an item behind the hidden one.
fn shift(batch: &Batch, stack: &mut Stack, rank: usize) -> Result<()> {
    for (argument, value) in batch.op.schema().arguments.iter().zip(stack.iter_mut()) {
        if !NAMES.contains(&argument.name.as_str()) {
            continue;
        }
        match value {
            IValue::Int(dim) => *dim = wrap_dim(*dim, rank)? as i64 + 1,
            IValue::IntList(list) => {
                let moved: Result<Dims> =
                    list.iter().map(|dim| Ok(wrap_dim(*dim, rank)? as i64 + 1)).collect();
                *list = moved?;
            }
            _ => {}
        }
    }
    Ok(())
}
