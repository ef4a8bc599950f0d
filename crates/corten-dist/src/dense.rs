//! Calls with tensors of any strides, as calls with contiguous ones.

use std::sync::Arc;

use corten_core::MemoryFormat;
use corten_ops::{Tensor, op};

use crate::engine::Call;
use crate::error::Result;
use crate::reduce_op::ReduceOp;
use crate::work::Work;

/// Copies that go back when the work is done: the tensor, and what stands for it.
pub(crate) type Returns = Vec<(Tensor, Tensor)>;

/// The call with contiguous tensors that know nothing of autograd, and the copies that go back.
///
/// # Errors
/// Those of copies.
pub(crate) fn dense(call: Call) -> Result<(Call, Returns)> {
    let mut dense = Dense(Vec::new());
    let call = mapped(call, &mut dense)?;
    Ok((call, dense.0))
}

/// The work of a call as its caller sees it: done when the copies are back.
pub(crate) fn with_returns(work: Arc<Work>, outputs: Vec<Tensor>, returns: Returns) -> Arc<Work> {
    if returns.is_empty() {
        return work;
    }
    let outer = Work::new(work.name(), outputs);
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

impl StandIns for Dense {
    fn read(&mut self, tensor: &Tensor) -> Result<Tensor> {
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

    fn update(&mut self, tensor: &Tensor) -> Result<Tensor> {
        self.write(tensor)
    }
}

/// What stands for the tensors of a call.
pub(crate) trait StandIns {
    /// For one that is read.
    fn read(&mut self, tensor: &Tensor) -> Result<Tensor>;

    /// For one that is written from its first element to its last.
    fn write(&mut self, tensor: &Tensor) -> Result<Tensor>;

    /// For one that is read and written, on some rank.
    fn update(&mut self, tensor: &Tensor) -> Result<Tensor>;

    /// The reduction, whose factor may be a tensor.
    fn operation(&mut self, op: ReduceOp) -> Result<ReduceOp> {
        Ok(op)
    }
}

fn all(tensors: &[Tensor], stand_in: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    tensors.iter().map(stand_in).collect()
}

/// The call with what stands for its tensors.
///
/// # Errors
/// Those of the functions that make it.
pub(crate) fn mapped(call: Call, to: &mut dyn StandIns) -> Result<Call> {
    Ok(match call {
        Call::AllReduce { tensor, op } => {
            Call::AllReduce { tensor: to.update(&tensor)?, op: to.operation(op)? }
        }
        Call::Broadcast { tensor, root } => Call::Broadcast { tensor: to.update(&tensor)?, root },
        Call::Reduce { tensor, root, op } => {
            Call::Reduce { tensor: to.update(&tensor)?, root, op: to.operation(op)? }
        }
        Call::AllGather { outputs, input } => Call::AllGather {
            outputs: all(&outputs, |tensor| to.write(tensor))?,
            input: to.read(&input)?,
        },
        Call::AllGatherInto { output, input } => {
            Call::AllGatherInto { output: to.write(&output)?, input: to.read(&input)? }
        }
        Call::Gather { outputs, input, root } => Call::Gather {
            outputs: all(&outputs, |tensor| to.write(tensor))?,
            input: to.read(&input)?,
            root,
        },
        Call::Scatter { output, inputs, root } => Call::Scatter {
            output: to.write(&output)?,
            inputs: all(&inputs, |tensor| to.read(tensor))?,
            root,
        },
        Call::ReduceScatter { output, inputs, op } => {
            let inputs = all(&inputs, |tensor| to.read(tensor))?;
            Call::ReduceScatter { output: to.write(&output)?, inputs, op: to.operation(op)? }
        }
        Call::ReduceScatterInto { output, input, op } => {
            let input = to.read(&input)?;
            Call::ReduceScatterInto { output: to.write(&output)?, input, op: to.operation(op)? }
        }
        Call::AllToAll { outputs, inputs } => {
            let inputs = all(&inputs, |tensor| to.read(tensor))?;
            Call::AllToAll { outputs: all(&outputs, |tensor| to.write(tensor))?, inputs }
        }
        Call::AllToAllBase { output, input, output_splits, input_splits } => {
            let (output, input) = (to.write(&output)?, to.read(&input)?);
            Call::AllToAllBase { output, input, output_splits, input_splits }
        }
        Call::Send { tensor, to: rank, tag } => {
            Call::Send { tensor: to.read(&tensor)?, to: rank, tag }
        }
        Call::Recv { tensor, from, tag } => Call::Recv { tensor: to.write(&tensor)?, from, tag },
        Call::RecvAny { tensor, tag } => Call::RecvAny { tensor: to.write(&tensor)?, tag },
        Call::Barrier { device } => Call::Barrier { device },
        Call::Batch(calls) => {
            Call::Batch(calls.into_iter().map(|call| mapped(call, to)).collect::<Result<_>>()?)
        }
    })
}

fn is_dense(tensor: &Tensor) -> bool {
    tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()
}
