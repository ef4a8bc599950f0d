//! Indexing with tensors.

use super::{Batch, first, items, padded};
use crate::boxed::Stack;
use crate::composite::support::along;
use crate::{Tensor, op};
use corten_core::{DType, Result};

/// `index`: the items are one more index where the indices differ from item to item.
pub(crate) fn index(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let indices: &[Option<Tensor>] = stack[1].get()?;
    let masks = [DType::Bool, DType::UInt8];
    if indices.iter().flatten().any(|index| masks.contains(&index.dtype())) {
        return items(batch, stack);
    }
    let own = indices.iter().flatten().any(|index| batch.has(index));
    let value = batch.front_expanded(first(stack)?)?;
    let rank = indices.iter().flatten().map(|index| index.dim()).max().unwrap_or(0);
    let given: Vec<bool> = indices.iter().map(Option::is_some).collect();
    let mut all = vec![None];
    if own {
        all[0] = Some(item_numbers(batch, &value, rank)?);
    }
    for index in indices {
        all.push(match index {
            Some(index) if batch.has(index) => Some(padded(batch.front(index)?, rank)?),
            other => other.clone(),
        });
    }
    let result = op::index_tensor(&value, &all)?;
    stack.replace(if own {
        reordered(&result, &given, rank)?
    } else {
        in_front(&result, &given, rank)?
    });
    batch.wrap_results(stack)
}

/// 0, 1, 2 … for the items, to be broadcast with the others.
fn item_numbers(batch: &Batch, value: &Tensor, rank: usize) -> Result<Tensor> {
    let numbers =
        op::arange(batch.size.into(), Some(DType::Int64), None, Some(value.device()), None)?;
    along(&numbers, rank + 1, 0)
}

/// How many dimensions there are before the first index of a contiguous run; `None` where the
/// indices are apart, which puts their dimensions in front.
fn before(given: &[bool]) -> Option<usize> {
    let first = given.iter().position(|given| *given)?;
    let count = given.iter().filter(|given| **given).count();
    given[first..first + count].iter().all(|given| *given).then_some(first)
}

/// With the items as an index, the dimensions of the indices are in front, or behind the first
/// dimension already where the first one was indexed; an item may have them further back.
fn reordered(result: &Tensor, given: &[bool], rank: usize) -> Result<Tensor> {
    match before(given) {
        None | Some(0) => Ok(result.clone()),
        Some(skipped) => {
            let from: Vec<i64> = (0..rank).map(|dim| dim as i64 + 1).collect();
            let to: Vec<i64> = (0..rank).map(|dim| (dim + skipped) as i64 + 1).collect();
            op::movedim_intlist(result, &from, &to)
        }
    }
}

/// Without it, the dimensions of indices that are apart have come before the items.
fn in_front(result: &Tensor, given: &[bool], rank: usize) -> Result<Tensor> {
    match before(given) {
        None => op::movedim_int(result, rank as i64, 0),
        Some(_) => Ok(result.clone()),
    }
}

/// `embedding`: the tables of all items as one.
pub(crate) fn embedding(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let (weight, indices): (&Tensor, &Tensor) = (stack[0].get()?, stack[1].get()?);
    let padding: i64 = stack[2].get()?;
    if !batch.has(weight) {
        let indices = batch.front(indices)?;
        stack[1] = indices.into();
    } else if padding >= 0 {
        return items(batch, stack);
    } else {
        let (tables, indices) = (batch.front(weight)?, batch.front_expanded(indices)?);
        let rows = tables.size(1)?;
        let numbers = item_numbers(batch, &indices, indices.dim() - 1)?;
        let starts = op::mul_scalar(&numbers, rows.into())?;
        stack[0] = op::flatten_using_ints(&tables, 0, 1)?.into();
        stack[1] = op::add_tensor(&indices, &starts, 1.into())?.into();
    }
    batch.op.call_boxed(stack)?;
    batch.wrap_results(stack)
}
