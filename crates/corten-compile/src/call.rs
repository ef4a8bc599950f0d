//! A node by its ordinary kernel.

use crate::ir::{Argument, Node, Operand, Program};
use crate::memory;
use corten_core::{DataPtr, Result, Storage, bug};
use corten_ops::{IValue, Stack, Tensor, derived, op};

/// Calls the operator of a node, and gives its results to the buffers of the program.
///
/// # Errors
/// The operator's.
pub(crate) fn call(program: &Program, node: &Node) -> Result<()> {
    let mut stack = Stack::new();
    for argument in &node.arguments {
        stack.push(boxed(program, argument)?);
    }
    for operand in node.written_arguments() {
        memory::provide(&program.buffer(operand.buffer).storage)?;
    }
    node.op.call_boxed(&mut stack)?;
    let mut results = node.results.iter();
    let mut outcome = Ok(());
    for value in stack.iter() {
        value.for_each_tensor(&mut |result| {
            if outcome.is_ok() {
                outcome = match results.next() {
                    Some(Some(operand)) => take_result(program, operand, result),
                    _ => Ok(()),
                };
            }
        });
    }
    outcome
}

/// As [`call`], with other tensors for some arguments, and of one result, which goes to the first of `results`; the
/// others are empty.
///
/// # Errors
/// The operator's.
pub(crate) fn call_with(
    program: &Program,
    node: &Node,
    replaced: [(usize, Tensor); 2],
    results: &[Option<Operand>],
) -> Result<()> {
    let mut stack = Stack::new();
    for (index, argument) in node.arguments.iter().enumerate() {
        match replaced.iter().find(|(at, _)| *at == index) {
            Some((_, tensor)) => stack.push(tensor.clone()),
            None => stack.push(boxed(program, argument)?),
        }
    }
    node.op.call_boxed(&mut stack)?;
    match (stack.first(), results.first()) {
        (Some(IValue::Tensor(result)), Some(Some(operand))) => {
            take_result(program, operand, result)
        }
        _ => bug!("{} gave no tensor", node.op.def().qualified_name()),
    }
}

/// An argument as the operator takes it.
fn boxed(program: &Program, argument: &Argument) -> Result<IValue> {
    let tensor = |operand: &Operand| operand.tensor(&program.buffer(operand.buffer).storage);
    Ok(match argument {
        Argument::Value(value) => value.clone(),
        Argument::Tensor(operand) => IValue::Tensor(tensor(operand)?),
        Argument::Number(number) => IValue::Tensor(derived::wrapped(*number)?),
        Argument::Tensors(list) => {
            IValue::TensorList(list.iter().map(tensor).collect::<Result<_>>()?)
        }
        Argument::OptionalTensors(list) => {
            let tensors = list.iter().map(|operand| operand.as_ref().map(tensor).transpose());
            IValue::OptionalTensorList(tensors.collect::<Result<_>>()?)
        }
    })
}

/// Makes a result the contents of its buffer: the memory changes its owner where it lies as it was
/// recorded, else it is copied.
fn take_result(program: &Program, operand: &Operand, result: &Tensor) -> Result<()> {
    let storage = &program.buffer(operand.buffer).storage;
    if !result.defined() {
        return Ok(());
    }
    let from = result.storage()?;
    if from.ptr_eq(storage) {
        return Ok(());
    }
    if result.sizes() != operand.sizes || result.dtype() != operand.dtype {
        bug!(
            "a call gave {:?} of {}, recorded as {:?} of {}",
            result.sizes(),
            result.dtype().name(),
            operand.sizes,
            operand.dtype.name()
        );
    }
    let alike = result.strides() == operand.strides && result.storage_offset() == operand.offset;
    let shared = program.buffers().iter().any(|buffer| buffer.storage.ptr_eq(&from));
    // One handle is the tensor's, one is here.
    if alike && !shared && from.use_count() == 2 && from.nbytes() >= storage.nbytes() {
        return move_memory(&from, storage);
    }
    memory::provide(storage)?;
    op::copy_(&operand.tensor(storage)?, result, false)?;
    Ok(())
}

fn move_memory(from: &Storage, to: &Storage) -> Result<()> {
    let nbytes = to.nbytes();
    let memory = from.set_data_ptr(DataPtr::null(from.device()), 0)?;
    drop(to.set_data_ptr(memory, nbytes)?);
    Ok(())
}
