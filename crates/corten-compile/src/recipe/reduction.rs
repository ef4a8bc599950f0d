//! Reductions of trailing dimensions.

use super::{Recipe, RecipeStep, Source, Written, key, known};
use crate::ir::{Argument, Node, Operand};
use crate::surrogate;
use corten_core::{Access, AccessSet, Result};
use corten_cpu::pointwise::steps;
use corten_ops::{IValue, Stack, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;

/// Rows of surrogates.
const ROWS: usize = 3;
/// Their length: more than rows that are reduced several at a time.
const LENGTH: usize = 67;
/// Rows that run in tiles: shorter ones are reduced side by side, in an order that depends on their number, and
/// longer ones leave no room in the cache.
const LENGTHS: std::ops::RangeInclusive<i64> = 49..=8192;

/// How many trailing dimensions a node reduces; `None` for other nodes.
pub(super) fn trailing_dims(node: &Node) -> Option<usize> {
    let dims = reduced_dims(node)?;
    let (Some(Argument::Tensor(input)), [Some(result)]) =
        (node.arguments.first(), &node.results[..])
    else {
        return None;
    };
    let rank = input.sizes.len();
    let count = dims.len();
    let trailing = (rank.checked_sub(count)?..rank).all(|dim| dims.contains(&dim));
    let kept = &input.sizes[..rank - count];
    let shaped =
        result.sizes.starts_with(kept) && result.sizes[kept.len()..].iter().all(|&size| size == 1);
    let length: i64 = input.sizes[rank - count..].iter().product();
    let fits =
        LENGTHS.contains(&length) && is_dense(input, count) && kept.iter().product::<i64>() > 1;
    (count > 0 && trailing && shaped && fits).then_some(count)
}

/// Whether the last dimensions of an operand lie in order and without gaps.
pub(crate) fn is_dense(operand: &Operand, count: usize) -> bool {
    let first = operand.sizes.len() - count;
    let row = Operand {
        sizes: operand.sizes[first..].into(),
        strides: operand.strides[first..].into(),
        ..operand.clone()
    };
    row.is_contiguous()
}

/// The dimensions in the argument `dim`.
pub(crate) fn reduced_dims(node: &Node) -> Option<SmallVec<[usize; 4]>> {
    let Some(Argument::Tensor(input)) = node.arguments.first() else { return None };
    let rank = input.sizes.len() as i64;
    let given: SmallVec<[i64; 4]> = match dim_argument(node)?.1 {
        IValue::Int(dim) => SmallVec::from_slice(&[*dim]),
        IValue::IntList(dims) => dims.iter().copied().collect(),
        _ => return None,
    };
    let wrapped = given.iter().map(|&dim| if dim < 0 { dim + rank } else { dim });
    let dims: SmallVec<[usize; 4]> =
        wrapped.map(|dim| usize::try_from(dim).ok()).collect::<Option<_>>()?;
    (!dims.is_empty()).then_some(dims)
}

fn dim_argument(node: &Node) -> Option<(usize, &IValue)> {
    let declared = &node.op.schema().arguments;
    let place = declared.iter().position(|argument| argument.name == "dim")?;
    match node.arguments.get(place) {
        Some(Argument::Value(value)) => Some((place, value)),
        _ => None,
    }
}

/// The recipe of a node that reduces so many trailing dimensions.
pub(super) fn of(node: &Node, reduced: usize) -> Option<Arc<Recipe>> {
    let tensors = node.arguments.iter().filter(|given| matches!(given, Argument::Tensor(_)));
    if tensors.count() != 1 {
        return None;
    }
    let simple = rows_of(node)?;
    let mut key = key(&simple);
    key.push(1 << 62 | reduced as u64);
    known(key, || record(&simple, reduced).ok().flatten())
}

/// The node with one dimension that is reduced, the last of two.
pub(crate) fn rows_of(node: &Node) -> Option<Node> {
    let (place, dim) = dim_argument(node)?;
    let dim = match dim {
        IValue::Int(_) => IValue::Int(1),
        _ => IValue::IntList([1].into_iter().collect()),
    };
    let mut simple = node.clone();
    simple.arguments[place] = Argument::Value(dim);
    Some(simple)
}

/// A call on rows: the arguments, with the input first.
fn stack_of(node: &Node, seed: usize) -> Result<Option<(Stack, Tensor)>> {
    let Some(Argument::Tensor(input)) = node.arguments.first() else { return Ok(None) };
    let rows = surrogate::rows(input.dtype, [ROWS, LENGTH], seed)?;
    let mut stack = Stack::new();
    stack.push(&rows);
    for argument in &node.arguments[1..] {
        match surrogate::argument(argument, seed)? {
            Some(value) => stack.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some((stack, rows)))
}

fn only_result(stack: &Stack) -> Option<&Tensor> {
    match &stack[..] {
        [IValue::Tensor(tensor)] if tensor.numel() == ROWS as i64 && tensor.is_contiguous() => {
            Some(tensor)
        }
        _ => None,
    }
}

/// Records the only step of a call on rows, and tries it on others.
fn record(node: &Node, reduced: usize) -> Result<Option<Recipe>> {
    let Some((mut stack, rows)) = stack_of(node, 0)? else { return Ok(None) };
    let (called, mut recorded) = steps::record(|| node.op.call_boxed(&mut stack));
    called?;
    let (Some(step), true) = (recorded.pop(), recorded.is_empty()) else { return Ok(None) };
    let Some(result) = only_result(&stack) else { return Ok(None) };
    let own = step.reduces
        && step.operands.len() == 2
        && step.operands[0].address == result.data_ptr().addr()
        && step.operands[0].dtype == result.dtype()
        && step.operands[1].address == rows.data_ptr().addr()
        && step.operands[1].dtype == rows.dtype();
    let recorded_dtype = node.results[0].as_ref().map(|operand| operand.dtype);
    if !own || recorded_dtype != Some(result.dtype()) {
        return Ok(None);
    }
    let step = RecipeStep {
        step: step.step,
        inputs: [Source::Argument(0)].into_iter().collect(),
        dtype: result.dtype(),
        single: false,
    };
    let recipe = Recipe {
        steps: vec![step],
        outputs: [(Written::Result(0), 0)].into_iter().collect(),
        reduced,
        prepared: false,
    };
    Ok(proves(node, &recipe)?.then_some(recipe))
}

/// Whether the step gives for other rows what the operator does.
fn proves(node: &Node, recipe: &Recipe) -> Result<bool> {
    let Some((mut stack, rows)) = stack_of(node, 3)? else { return Ok(false) };
    node.op.call_boxed(&mut stack)?;
    let Some(expected) = only_result(&stack) else { return Ok(false) };
    let (size, itemsize) = (expected.itemsize(), rows.itemsize());
    let mut found = [[0_u64; 2]; ROWS];
    let set = AccessSet::acquire(&[(rows.base(), Access::Read), (expected.base(), Access::Read)])?;
    let at = [found.as_mut_ptr().cast(), set.byte_ptr(0)];
    let strides = [0, itemsize as i64, size as i64, (itemsize * LENGTH) as i64];
    // SAFETY: the rows are held and dense, and the results have room for an element of any dtype each.
    let bytes = unsafe {
        recipe.steps[0].step.run(&at, &strides, LENGTH, ROWS)?;
        let start: *const u8 = found.as_ptr().cast();
        [start, set.byte_ptr(1)].map(|start| std::slice::from_raw_parts(start, size * ROWS))
    };
    Ok(bytes[0] == bytes[1])
}
