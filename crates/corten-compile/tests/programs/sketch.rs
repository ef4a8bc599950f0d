//! A program that is recorded while its calls run at once, to be compared with what a plan makes of it.

use corten::core::{Access, AccessSet, DataPtr, Device, Scalar, Storage};
use corten::ops::{IValue, OpKind, Stack, registry};
use corten::prelude::*;
use corten_compile::ir::{Argument, BufferId, Node, Operand, Program, Role};
use corten_compile::{Plan, Report};
use std::collections::HashMap;

/// An argument of a call.
#[derive(Clone)]
pub(crate) enum Given {
    Tensor(Tensor),
    Value(IValue),
    Number(Scalar),
}

impl From<&Tensor> for Given {
    fn from(tensor: &Tensor) -> Self {
        Self::Tensor(tensor.clone())
    }
}

impl From<f64> for Given {
    fn from(number: f64) -> Self {
        Self::Value(IValue::Double(number))
    }
}

impl From<i64> for Given {
    fn from(number: i64) -> Self {
        Self::Value(IValue::Int(number))
    }
}

impl From<IValue> for Given {
    fn from(value: IValue) -> Self {
        Self::Value(value)
    }
}

/// Calls that run at once on tensors of their own, and are recorded over other storages.
#[derive(Default)]
pub(crate) struct Sketch {
    pub(crate) program: Program,
    /// Buffers by the keys of the storages that the calls run on.
    buffers: HashMap<usize, BufferId>,
    /// Kept, so that keys are not used twice.
    storages: Vec<Storage>,
}

/// The elements of a tensor as bytes in logical order.
fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>> {
    let dense = tensor.contiguous()?;
    let set = AccessSet::acquire(&[(dense.base(), Access::Read)])?;
    let (start, nbytes) = (set.byte_ptr(0), dense.numel() as usize * dense.itemsize());
    // SAFETY: the set holds the tensor, which is contiguous.
    Ok(unsafe { std::slice::from_raw_parts(start, nbytes) }.to_vec())
}

/// A storage with the same bytes.
fn copy_of(storage: &Storage) -> Result<Storage> {
    let copy = Storage::new(storage.nbytes(), Device::CPU)?;
    copy.write_bytes(0, &storage.read_bytes()?)?;
    Ok(copy)
}

/// A storage of a size without memory.
fn pending(nbytes: usize) -> Result<Storage> {
    let storage = Storage::new(nbytes, Device::CPU)?;
    drop(storage.set_data_ptr(DataPtr::null(Device::CPU), nbytes)?);
    Ok(storage)
}

impl Sketch {
    /// The operand that a tensor is in the program; a new input if its storage is not known.
    fn operand(&mut self, tensor: &Tensor) -> Result<Operand> {
        let storage = tensor.storage()?;
        if !self.buffers.contains_key(&storage.key()) {
            let id = self.program.add_buffer(copy_of(&storage)?, Role::Input);
            self.buffers.insert(storage.key(), id);
            self.storages.push(storage.clone());
        }
        Ok(Operand::of(tensor, self.buffers[&storage.key()]))
    }

    /// Calls an operator, and records it.
    pub(crate) fn call(&mut self, name: &str, given: &[Given]) -> Result<Vec<Tensor>> {
        let op = registry::find(name).ok_or_else(|| corten::core::err!(Runtime, "no {name}"))?;
        let (mut stack, mut arguments) = (Stack::new(), Vec::new());
        for argument in given {
            match argument {
                Given::Tensor(tensor) => {
                    arguments.push(Argument::Tensor(self.operand(tensor)?));
                    stack.push(tensor.clone());
                }
                Given::Value(value) => {
                    arguments.push(Argument::Value(value.clone()));
                    stack.push(value.clone());
                }
                Given::Number(number) => {
                    arguments.push(Argument::Number(*number));
                    stack.push(corten::ops::derived::wrapped(*number)?);
                }
            }
        }
        op.call_boxed(&mut stack)?;
        let mut results = Vec::new();
        stack
            .iter()
            .for_each(|value| value.for_each_tensor(&mut |tensor| results.push(tensor.clone())));
        let mut operands = Vec::new();
        for result in &results {
            let storage = result.storage()?;
            if op.def().kind == OpKind::Functional {
                assert!(!self.buffers.contains_key(&storage.key()), "{name} returned its argument");
                let id = self.program.add_buffer(pending(storage.nbytes())?, Role::Internal);
                self.buffers.insert(storage.key(), id);
                self.storages.push(storage);
            }
            operands.push(Some(self.operand(result)?));
        }
        self.program.push(Node {
            op,
            arguments: arguments.into_iter().collect(),
            results: operands.into_iter().collect(),
            line: None,
        });
        Ok(results)
    }

    /// [`call`](Self::call) of an operator with one result.
    pub(crate) fn one(&mut self, name: &str, given: &[Given]) -> Result<Tensor> {
        Ok(self.call(name, given)?.remove(0))
    }

    /// Has inputs end in the program that `choose` picks, other than those under the `outputs`.
    pub(crate) fn consume(
        &mut self,
        outputs: &[&Tensor],
        mut choose: impl FnMut() -> bool,
    ) -> Result<()> {
        let kept: Result<Vec<BufferId>> =
            outputs.iter().map(|output| Ok(self.buffers[&output.storage()?.key()])).collect();
        let kept = kept?;
        for index in 0..self.program.buffers().len() {
            let id = BufferId(index as u32);
            if self.program.buffer(id).role == Role::Input && !kept.contains(&id) && choose() {
                self.program.set_role(id, Role::Consumed);
            }
        }
        Ok(())
    }

    /// Runs the plan, and compares these tensors and all inputs with what the calls gave.
    pub(crate) fn check(&mut self, outputs: &[&Tensor]) -> Result<Report> {
        for output in outputs {
            let id = self.buffers[&output.storage()?.key()];
            if self.program.buffer(id).role == Role::Internal {
                self.program.set_role(id, Role::Output);
            }
        }
        let plan = Plan::compile(&self.program);
        plan.run(&self.program).map_err(|failed| failed.error)?;
        for output in outputs {
            let operand = self.operand(output)?;
            let ran = operand.tensor(&self.program.buffer(operand.buffer).storage)?;
            assert_eq!(bytes_of(&ran)?, bytes_of(output)?, "{}", self.text());
        }
        for storage in &self.storages {
            let buffer = self.program.buffer(self.buffers[&storage.key()]);
            if buffer.role == Role::Input {
                let ran = buffer.storage.read_bytes()?;
                assert_eq!(ran, storage.read_bytes()?, "{}", self.text());
            }
        }
        Ok(plan.report().clone())
    }

    /// The calls, for messages.
    pub(crate) fn text(&self) -> String {
        let describe = |operand: &Operand| {
            format!(
                "{:?}:{}{:?}{:?}+{}",
                operand.buffer.0,
                operand.dtype.name(),
                &operand.sizes[..],
                &operand.strides[..],
                operand.offset
            )
        };
        let nodes = self.program.nodes().iter().map(|node| {
            let reads: Vec<String> = node.reads().map(describe).collect();
            let results: Vec<String> = node.results.iter().flatten().map(describe).collect();
            format!(
                "{} = {}({})",
                results.join(", "),
                node.op.def().qualified_name(),
                reads.join(", ")
            )
        });
        nodes.collect::<Vec<String>>().join("\n")
    }
}
