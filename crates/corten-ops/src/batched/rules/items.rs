//! Without a rule of its own: item by item.

use super::super::kernel::{any_batched, first, map};
use super::Batch;
use crate::boxed::{IValue, Stack};
use crate::registry::OpKind;
use crate::{Tensor, op};
use corten_core::{Generator, MemoryFormat, Result, bail, default_cpu_generator, ensure};

/// Calls the operator for every item and stacks what it returns.
pub(crate) fn items(batch: &Batch, stack: &mut Stack) -> Result<()> {
    each(batch, stack, &mut || Ok(()))
}

/// As [`items`], for operators on memory: every item has its own.
pub(crate) fn copied_items(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let mut results = Vec::new();
    for number in 0..batch.size {
        let mut arguments = stack.clone();
        for value in arguments.iter_mut().filter(|value| any_batched(value)) {
            map(value, &mut |tensor| {
                op::clone(&item(batch, tensor, number)?, Some(MemoryFormat::Contiguous))
            })?;
        }
        batch.op.call_boxed(&mut arguments)?;
        results.push(arguments);
    }
    *stack = stacked(batch, &results)?;
    Ok(())
}

/// As [`items`], with the same random numbers for each.
pub(crate) fn same_numbers(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let generator = generator(stack);
    let state = generator.get_state();
    each(batch, stack, &mut || generator.set_state(&state))
}

fn generator(stack: &Stack) -> Generator {
    let given = stack.iter().find_map(|value| match value {
        IValue::Generator(generator) => Some(generator.clone()),
        _ => None,
    });
    given.unwrap_or_else(|| default_cpu_generator().clone())
}

fn each(batch: &Batch, stack: &mut Stack, before: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let def = batch.op.def();
    ensure!(
        def.kind != OpKind::View,
        NotImplemented,
        "vmap: {} returns a view and cannot be computed item by item",
        def.name
    );
    ensure!(
        batch.size > 0,
        Runtime,
        "vmap: {} is computed item by item, which is not possible for 0 items",
        def.name
    );
    let mut results: Vec<Stack> = Vec::new();
    for number in 0..batch.size {
        let mut arguments = stack.clone();
        for value in arguments.iter_mut().filter(|value| any_batched(value)) {
            map(value, &mut |tensor| item(batch, tensor, number))?;
        }
        before()?;
        batch.op.call_boxed(&mut arguments)?;
        results.push(arguments);
    }
    if def.kind == OpKind::Inplace {
        let written = first(stack)?.clone();
        stack.replace(written);
        return Ok(());
    }
    *stack = stacked(batch, &results)?;
    Ok(())
}

fn item(batch: &Batch, tensor: &Tensor, number: i64) -> Result<Tensor> {
    match batch.split(tensor) {
        (value, Some(dim)) => op::select_int(&value, dim as i64, number),
        (value, None) => Ok(value),
    }
}

fn stacked(batch: &Batch, results: &[Stack]) -> Result<Stack> {
    let count = results.first().map_or(0, |one| one.len());
    // Gradients that nobody asked for are undefined for every item.
    let joined = |column: &[Tensor]| match column.iter().any(|tensor| tensor.defined()) {
        true => batch.wrap(op::stack(column, 0)?),
        false => Ok(Tensor::undefined()),
    };
    let column = |place: usize| -> Result<IValue> {
        match &results[0][place] {
            IValue::Tensor(_) => {
                let column: Result<Vec<Tensor>> =
                    results.iter().map(|one| one[place].get::<&Tensor>().cloned()).collect();
                Ok(joined(&column?)?.into())
            }
            IValue::TensorList(list) => {
                let one = |number: usize| -> Result<Tensor> {
                    let column: Result<Vec<Tensor>> = results
                        .iter()
                        .map(|one| Ok(one[place].get::<&[Tensor]>()?[number].clone()))
                        .collect();
                    joined(&column?)
                };
                Ok((0..list.len()).map(one).collect::<Result<Vec<_>>>()?.into())
            }
            _ => bail!(
                Runtime,
                "vmap: {} must return tensors, one or more of the same shape for every item",
                batch.op.def().name
            ),
        }
    };
    (0..count).map(column).collect()
}
