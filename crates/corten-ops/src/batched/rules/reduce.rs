//! Reductions.

use super::dims::along;
use super::{Batch, first, items, place};
use crate::boxed::{IValue, Stack};
use crate::op;
use crate::registry;
use corten_core::Result;

/// Reductions along dimensions; none, or an empty list, stands for all.
pub(crate) fn reduce(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let rank = first(stack)?.dim();
    let Some(place) = place(batch, "dim") else { return items(batch, stack) };
    let is_list = batch.op.schema().arguments[place].ty.is_list();
    let all = match &stack[place] {
        IValue::None => true,
        IValue::IntList(list) => list.is_empty(),
        _ => false,
    };
    if !all {
        return along(batch, stack, rank);
    }
    if is_list {
        let every: Vec<i64> = (0..rank.max(1) as i64).collect();
        stack[place] = every.into();
        return along(batch, stack, rank);
    }
    flattened(batch, stack, place, rank)
}

/// A reduction of all elements for an operator that takes a single dimension.
fn flattened(batch: &Batch, stack: &mut Stack, place: usize, rank: usize) -> Result<()> {
    let keep = super::place(batch, "keepdim");
    let kept = keep.is_some_and(|keep| matches!(stack[keep], IValue::Bool(true)));
    if let Some(keep) = keep {
        stack[keep] = false.into();
    }
    stack[place] = IValue::Int(0);
    let flat = op::reshape(first(stack)?, &[-1])?;
    stack[0] = flat.into();
    along(batch, stack, 1)?;
    if kept {
        super::map_all(stack, |result| op::reshape(result, &vec![1; rank]))?;
    }
    Ok(())
}

/// Reductions of all elements, by the overload that takes dimensions.
pub(crate) fn full(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let of_list = || IValue::from(vec![1i64]);
    let (name, dim) = match batch.op.def().name {
        "sum" => ("aten::sum.dim_IntList", of_list()),
        "mean" => ("aten::mean.dim", of_list()),
        "prod" => ("aten::prod.dim_int", IValue::Int(1)),
        "max" => ("aten::amax", of_list()),
        "min" => ("aten::amin", of_list()),
        "any" => ("aten::any.dim", IValue::Int(1)),
        "all" => ("aten::all.dim", IValue::Int(1)),
        _ => return items(batch, stack),
    };
    let Some(overload) = registry::find(name) else { return items(batch, stack) };
    let value = batch.front(first(stack)?)?;
    let flat = match value.dim() {
        1 => op::unsqueeze(&value, 1)?,
        _ => op::flatten_using_ints(&value, 1, -1)?,
    };
    let mut arguments: Stack = [flat.into(), dim, IValue::Bool(false)].into_iter().collect();
    stack.iter().skip(1).for_each(|option| arguments.push(option.clone()));
    overload.call_boxed(&mut arguments)?;
    *stack = arguments;
    batch.wrap_results(stack)
}
