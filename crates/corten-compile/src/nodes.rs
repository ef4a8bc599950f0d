//! Running a program call by call, by the ordinary kernels.

use crate::ir::{Argument, BufferId, Node, Operand, Program, Role};
use corten_core::{DataPtr, Device, DispatchKey, Error, KeySet, Result, Storage, bail, ensure};
use corten_ops::{IValue, Stack, Tensor, op};

/// Runs all calls in order. Buffers that are internal lose their memory after their last use.
///
/// # Errors
/// The number of the call that failed, and its error.
pub fn run(program: &Program) -> Result<(), (usize, Error)> {
    let last = last_uses(program);
    let mut ending: Vec<Vec<BufferId>> = vec![Vec::new(); program.nodes().len()];
    for (index, last) in last.iter().enumerate() {
        let id = BufferId(index as u32);
        if let Some(last) = last.filter(|_| program.buffer(id).role == Role::Internal) {
            ending[last].push(id);
        }
    }
    for (index, node) in program.nodes().iter().enumerate() {
        run_node(program, node).map_err(|error| (index, error))?;
        for id in &ending[index] {
            // Nobody else knows the storage; if it cannot be freed now, it is with the program.
            let _ = program.buffer(*id).storage.reset();
        }
    }
    Ok(())
}

/// The last call that touches each buffer.
fn last_uses(program: &Program) -> Vec<Option<usize>> {
    let mut last = vec![None; program.buffers().len()];
    for (index, node) in program.nodes().iter().enumerate() {
        for operand in node.reads().chain(node.writes()) {
            last[operand.buffer.index()] = Some(index);
        }
    }
    last
}

/// Runs a call by its ordinary kernel, over the storages of its operands; results get their memory.
///
/// # Errors
/// The kernel's.
pub fn run_node(program: &Program, node: &Node) -> Result<()> {
    let mut stack = Stack::new();
    for argument in &node.arguments {
        stack.push(value_of(program, argument)?);
    }
    node.op.call_boxed_at(KeySet::from_key(DispatchKey::CPU), &mut stack)?;
    ensure!(
        stack.len() == node.results.len(),
        Internal,
        "{} returned {} results, not {}",
        node.op.def().qualified_name(),
        stack.len(),
        node.results.len()
    );
    for (value, result) in stack.iter().zip(&node.results) {
        let Some(result) = result else { continue };
        if node.written_arguments().any(|written| written.buffer == result.buffer) {
            continue;
        }
        let IValue::Tensor(tensor) = value else { bail!(Internal, "a result is no tensor") };
        store(node, tensor, result, &program.buffer(result.buffer).storage)?;
    }
    Ok(())
}

fn value_of(program: &Program, argument: &Argument) -> Result<IValue> {
    let tensor = |operand: &Operand| operand.tensor(&program.buffer(operand.buffer).storage);
    Ok(match argument {
        Argument::Value(value) => value.clone(),
        Argument::Number(number) => IValue::Tensor(corten_ops::derived::wrapped(*number)?),
        Argument::Tensor(operand) => IValue::Tensor(tensor(operand)?),
        Argument::Tensors(list) => {
            IValue::TensorList(list.iter().map(tensor).collect::<Result<_>>()?)
        }
        Argument::OptionalTensors(list) => {
            let one = |operand: &Option<Operand>| operand.as_ref().map(tensor).transpose();
            IValue::OptionalTensorList(list.iter().map(one).collect::<Result<_>>()?)
        }
    })
}

/// Moves the memory of a result to the storage that waits for it. A result that lies otherwise than was said is
/// copied.
fn store(node: &Node, tensor: &Tensor, expected: &Operand, target: &Storage) -> Result<()> {
    ensure!(
        tensor.defined()
            && tensor.dtype() == expected.dtype
            && tensor.sizes() == expected.sizes
            && tensor.device().is_cpu(),
        Internal,
        "{} returned another tensor than its shape rule says",
        node.op.def().qualified_name()
    );
    let source = tensor.storage()?;
    // One handle is the tensor's, one this function's.
    let movable = source.use_count() == 2
        && tensor.use_count() == 1
        && source.is_resizable()
        && source.is_sole_owner()
        && !source.is_copy_on_write()
        && source.nbytes() == target.nbytes()
        && tensor.storage_offset() == expected.offset
        && tensor.strides() == expected.strides;
    if movable {
        let memory = source.set_data_ptr(DataPtr::null(Device::CPU), 0)?;
        target.set_data_ptr(memory, target.nbytes())?;
        return Ok(());
    }
    let fresh = Storage::new(target.nbytes(), Device::CPU)?;
    let memory = fresh.set_data_ptr(DataPtr::null(Device::CPU), 0)?;
    target.set_data_ptr(memory, target.nbytes())?;
    op::copy_(&expected.tensor(target)?, tensor, false)?;
    Ok(())
}
