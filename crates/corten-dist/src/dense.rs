//! Calls with tensors of any strides, as calls with contiguous ones.

use std::sync::Arc;

use corten_core::MemoryFormat;
use corten_ops::{Tensor, op};

use crate::engine::Call;
use crate::error::Result;
use crate::work::Work;

/// Copies that go back when the work is done: the tensor, and what stands for it.
pub(crate) type Returns = Vec<(Tensor, Tensor)>;

/// The call with contiguous tensors that know nothing of autograd, and the copies that go back.
///
/// # Errors
/// Those of copies.
pub(crate) fn dense(call: Call) -> Result<(Call, Returns)> {
    let mut dense = Dense(Vec::new());
    let call = dense.call(call)?;
    Ok((call, dense.0))
}

/// The work of a call as its caller sees it: done when the copies are back.
pub(crate) fn with_returns(work: Arc<Work>, outputs: Vec<Tensor>, returns: Returns) -> Arc<Work> {
    if returns.is_empty() {
        return work;
    }
    let outer = Work::new(work.name(), outputs);
    outer.share_progress(&work);
    let result = outer.clone();
    work.on_end(move |work| {
        if let Ok(source) = work.source_rank() {
            outer.set_source_rank(source);
        }
        let copied = match work.raw_error() {
            Some(error) => Err(error),
            None => returns.iter().try_for_each(|(tensor, copy)| {
                op::copy_(tensor, copy, false)?;
                Ok(())
            }),
        };
        outer.finish(copied);
    });
    result
}

struct Dense(Returns);

impl Dense {
    fn read(&self, tensor: &Tensor) -> Result<Tensor> {
        if is_dense(tensor) {
            return Ok(tensor.clone());
        }
        let detached = op::resolve_neg(&op::resolve_conj(&op::detach(tensor)?)?)?;
        Ok(op::contiguous(&detached, MemoryFormat::Contiguous)?)
    }

    fn write(&mut self, tensor: &Tensor) -> Result<Tensor> {
        if is_dense(tensor) {
            return Ok(tensor.clone());
        }
        let copy = self.read(tensor)?;
        self.0.push((op::detach(tensor)?, copy.clone()));
        Ok(copy)
    }

    fn read_all(&self, tensors: &[Tensor]) -> Result<Vec<Tensor>> {
        tensors.iter().map(|tensor| self.read(tensor)).collect()
    }

    fn write_all(&mut self, tensors: &[Tensor]) -> Result<Vec<Tensor>> {
        tensors.iter().map(|tensor| self.write(tensor)).collect()
    }

    fn call(&mut self, call: Call) -> Result<Call> {
        Ok(match call {
            Call::AllReduce { tensor, op } => Call::AllReduce { tensor: self.write(&tensor)?, op },
            Call::Broadcast { tensor, root } => {
                Call::Broadcast { tensor: self.write(&tensor)?, root }
            }
            Call::Reduce { tensor, root, op } => {
                Call::Reduce { tensor: self.write(&tensor)?, root, op }
            }
            Call::AllGather { outputs, input } => {
                Call::AllGather { outputs: self.write_all(&outputs)?, input: self.read(&input)? }
            }
            Call::AllGatherInto { output, input } => {
                Call::AllGatherInto { output: self.write(&output)?, input: self.read(&input)? }
            }
            Call::Gather { outputs, input, root } => {
                Call::Gather { outputs: self.write_all(&outputs)?, input: self.read(&input)?, root }
            }
            Call::Scatter { output, inputs, root } => Call::Scatter {
                output: self.write(&output)?,
                inputs: self.read_all(&inputs)?,
                root,
            },
            Call::ReduceScatter { output, inputs, op } => {
                let inputs = self.read_all(&inputs)?;
                Call::ReduceScatter { output: self.write(&output)?, inputs, op }
            }
            Call::ReduceScatterInto { output, input, op } => {
                let input = self.read(&input)?;
                Call::ReduceScatterInto { output: self.write(&output)?, input, op }
            }
            Call::AllToAll { outputs, inputs } => {
                let inputs = self.read_all(&inputs)?;
                Call::AllToAll { outputs: self.write_all(&outputs)?, inputs }
            }
            Call::AllToAllBase { output, input, output_splits, input_splits } => {
                let (output, input) = (self.write(&output)?, self.read(&input)?);
                Call::AllToAllBase { output, input, output_splits, input_splits }
            }
            Call::Send { tensor, to, tag } => Call::Send { tensor: self.read(&tensor)?, to, tag },
            Call::Recv { tensor, from, tag } => {
                Call::Recv { tensor: self.write(&tensor)?, from, tag }
            }
            Call::RecvAny { tensor, tag } => Call::RecvAny { tensor: self.write(&tensor)?, tag },
            Call::Barrier { device } => Call::Barrier { device },
            Call::Batch(calls) => {
                Call::Batch(calls.into_iter().map(|call| self.call(call)).collect::<Result<_>>()?)
            }
        })
    }
}

fn is_dense(tensor: &Tensor) -> bool {
    tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()
}
