//! The collectives, each by gloo's of the same name or by the ones it is made of.

use corten_core::{Access, DType};
use corten_ops::Tensor;

use super::context::{CallSlot, Context};
use super::reduce::function;
use crate::buffer::Buffer;
use crate::engine::Call;
use crate::error::{DistError, Result};
use crate::reduce_op::ReduceOp;
use crate::reduction::Combination;

/// What all ranks give together is so little that messages cost more than bytes.
const FEW_BYTES: usize = 128 << 10;

/// A collective with its memory, ready to run on another thread.
pub(super) enum Collective {
    AllReduce { data: Buffer, op: ReduceOp },
    Broadcast { data: Buffer, root: usize },
    Reduce { data: Buffer, root: usize, op: ReduceOp },
    AllGather { outputs: Vec<Buffer>, input: Buffer },
    Gather { outputs: Vec<Buffer>, input: Buffer, root: usize },
    Scatter { output: Buffer, inputs: Vec<Buffer>, root: usize },
    ReduceScatter { output: Buffer, inputs: Vec<Buffer>, op: ReduceOp },
    AllToAll { outputs: Vec<Buffer>, inputs: Vec<Buffer> },
    Barrier,
}

impl Collective {
    /// Takes the memory of a call's tensors; this is rank `rank` of `size`.
    ///
    /// # Errors
    /// As for [`Buffer::of`], and `Runtime` for calls between two ranks and reductions that there are
    /// not.
    pub(super) fn of(call: &Call, rank: usize, size: usize) -> Result<Self> {
        let name = format!("gloo: {}", call.name());
        let name = name.as_str();
        let read = |tensor: &Tensor| Buffer::of(name, tensor, Access::Read);
        let written = |tensor: &Tensor| Buffer::of(name, tensor, Access::Write);
        let all_read = |tensors: &[Tensor]| Buffer::of_all(name, tensors, Access::Read);
        let all_written = |tensors: &[Tensor]| Buffer::of_all(name, tensors, Access::Write);
        let equal_parts = |whole: Buffer| whole.rows(&vec![1; size]);
        let collective = match call {
            Call::AllReduce { tensor, op } => {
                Self::AllReduce { data: written(tensor)?, op: op.clone() }
            }
            Call::Broadcast { tensor, root } => {
                let data = if *root == rank { read(tensor)? } else { written(tensor)? };
                Self::Broadcast { data, root: *root }
            }
            Call::Reduce { tensor, root, op } => {
                Self::Reduce { data: written(tensor)?, root: *root, op: op.clone() }
            }
            Call::AllGather { outputs, input } => {
                Self::AllGather { outputs: all_written(outputs)?, input: read(input)? }
            }
            Call::AllGatherInto { output, input } => {
                Self::AllGather { outputs: equal_parts(written(output)?)?, input: read(input)? }
            }
            Call::Gather { outputs, input, root } => {
                Self::Gather { outputs: all_written(outputs)?, input: read(input)?, root: *root }
            }
            Call::Scatter { output, inputs, root } => {
                Self::Scatter { output: written(output)?, inputs: all_read(inputs)?, root: *root }
            }
            Call::ReduceScatter { output, inputs, op } => Self::ReduceScatter {
                output: written(output)?,
                inputs: all_read(inputs)?,
                op: op.clone(),
            },
            Call::ReduceScatterInto { output, input, op } => Self::ReduceScatter {
                output: written(output)?,
                inputs: equal_parts(read(input)?)?,
                op: op.clone(),
            },
            Call::AllToAll { outputs, inputs } => {
                Self::AllToAll { outputs: all_written(outputs)?, inputs: all_read(inputs)? }
            }
            Call::AllToAllBase { output, input, output_splits, input_splits } => Self::AllToAll {
                outputs: written(output)?.rows(output_splits)?,
                inputs: read(input)?.rows(input_splits)?,
            },
            Call::Barrier { .. } => Self::Barrier,
            Call::Send { .. } | Call::Recv { .. } | Call::RecvAny { .. } | Call::Batch(_) => {
                return Err(DistError::runtime(format!("{name} is no collective")));
            }
        };
        collective.check(name)?;
        Ok(collective)
    }

    /// What is known before anything is sent: whether the reduction exists.
    fn check(&self, name: &str) -> Result<()> {
        match self {
            Self::AllReduce { data, op } | Self::Reduce { data, op, .. } => {
                Combination::of(op, data.dtype()).map(drop)
            }
            Self::ReduceScatter { output, inputs, op } => {
                same_sizes(name, inputs, output)?;
                Combination::of(op, output.dtype()).map(drop)
            }
            Self::Scatter { inputs, output, .. } => same_sizes(name, inputs, output),
            Self::Gather { outputs, input, .. } => same_sizes(name, outputs, input),
            _ => Ok(()),
        }
    }
}

/// Ranks give and take buffers of one size.
fn same_sizes(name: &str, buffers: &[Buffer], other: &Buffer) -> Result<()> {
    match buffers.iter().find(|piece| piece.nbytes() != other.nbytes()) {
        Some(piece) => Err(DistError::runtime(format!(
            "{name}: expected tensors of {} bytes, but got one of {} bytes",
            other.nbytes(),
            piece.nbytes()
        ))),
        None => Ok(()),
    }
}

/// A communicator and a place in it.
pub(super) struct Ranks<'a> {
    pub(super) context: &'a Context,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) at: CallSlot,
}

impl Ranks<'_> {
    /// Runs the collective and waits for its end. Nothing is sent where there is nothing to send, as
    /// all ranks know.
    ///
    /// # Errors
    /// `Backend` with gloo's words, when the time is over or a connection fails.
    pub(super) fn run(&self, collective: &Collective) -> Result<()> {
        match collective {
            Collective::AllReduce { data, op } => self.all_reduce(data, op),
            Collective::Broadcast { data, root } => self.broadcast(data, *root),
            Collective::Reduce { data, root, op } => self.reduce(data, *root, op),
            Collective::AllGather { outputs, input } => self.all_gather(outputs, input),
            Collective::Gather { outputs, input, root } => self.gather(outputs, input, *root),
            Collective::Scatter { output, inputs, root } => self.scatter(output, inputs, *root),
            Collective::ReduceScatter { output, inputs, op } => {
                self.reduce_scatter(output, inputs, op)
            }
            Collective::AllToAll { outputs, inputs } => self.all_to_all(outputs, inputs),
            Collective::Barrier if self.size == 1 => Ok(()),
            Collective::Barrier => self.context.barrier(self.at),
        }
    }

    fn all_reduce(&self, data: &Buffer, op: &ReduceOp) -> Result<()> {
        if data.nbytes() == 0 {
            return Ok(());
        }
        data.premultiply(op)?;
        let combination = Combination::of(op, data.dtype())?;
        if self.size > 1 && data.nbytes() * self.size <= FEW_BYTES {
            self.all_reduce_few(data, combination)?;
        } else if self.size > 1 {
            let function = function(data.dtype(), combination)?;
            self.context.all_reduce(data, function, self.at)?;
        }
        data.divide(op, self.size)
    }

    /// Every rank gets all operands at once and reduces them in the order of ranks: one message where the ring
    /// waits for `2 * (size - 1)`, one after another.
    fn all_reduce_few(&self, data: &Buffer, combination: Combination) -> Result<()> {
        let (part, others) = (data.nbytes(), self.size - 1);
        let given = if others == 1 {
            data.clone()
        } else {
            let given = Buffer::scratch(part * others, data.dtype())?;
            given.rows(&vec![1; others])?.iter().for_each(|to| to.copy_from(data));
            given
        };
        let received = Buffer::scratch(part * others, data.dtype())?;
        let mut lengths = vec![part; self.size];
        lengths[self.rank] = 0;
        self.exchange(&given, &lengths, &received, &lengths)?;
        let mut operands = received.rows(&vec![1; others])?;
        operands.insert(self.rank, data.clone());
        data.reduce(combination, &operands)
    }

    fn reduce(&self, data: &Buffer, root: usize, op: &ReduceOp) -> Result<()> {
        if data.nbytes() == 0 {
            return Ok(());
        }
        data.premultiply(op)?;
        if self.size > 1 {
            let function = function(data.dtype(), Combination::of(op, data.dtype())?)?;
            self.context.reduce(data, function, root, self.at)?;
        }
        if self.rank == root { data.divide(op, self.size) } else { Ok(()) }
    }

    fn broadcast(&self, data: &Buffer, root: usize) -> Result<()> {
        if self.size == 1 || data.nbytes() == 0 {
            return Ok(());
        }
        self.context.broadcast(data, root, self.at)
    }

    fn all_gather(&self, outputs: &[Buffer], input: &Buffer) -> Result<()> {
        let Some(own) = outputs.get(self.rank) else {
            return Err(DistError::runtime("gloo: allgather: there is no output for this rank"));
        };
        same_sizes("gloo: allgather", std::slice::from_ref(own), input)?;
        let lengths: Vec<usize> = outputs.iter().map(Buffer::nbytes).collect();
        let total = lengths.iter().sum();
        if self.size == 1 || total == 0 {
            own.copy_from(input);
            return Ok(());
        }
        let joined = Buffer::joined(outputs);
        let whole = match &joined {
            Some(whole) => whole.clone(),
            None => Buffer::scratch(total, input.dtype())?,
        };
        let begin = lengths.iter().take(self.rank).sum();
        whole.part(begin, input.nbytes())?.copy_from(input);
        // SAFETY: the memory has `total` bytes.
        unsafe { self.context.all_gather(whole.start(), &lengths, self.at)? };
        if joined.is_none() { whole.spread(outputs) } else { Ok(()) }
    }

    fn gather(&self, outputs: &[Buffer], input: &Buffer, root: usize) -> Result<()> {
        if input.nbytes() == 0 {
            return Ok(());
        }
        if self.rank != root {
            // SAFETY: only the root writes to the output.
            return unsafe { self.context.gather(input, std::ptr::null_mut(), root, self.at) };
        }
        let joined = Buffer::joined(outputs);
        let whole = match &joined {
            Some(whole) => whole.clone(),
            None => Buffer::scratch(input.nbytes() * self.size, input.dtype())?,
        };
        if self.size == 1 {
            whole.copy_from(input);
        } else {
            // SAFETY: one output of the input's size for each rank, as the group and `check` saw.
            unsafe { self.context.gather(input, whole.start(), root, self.at)? };
        }
        if joined.is_none() { whole.spread(outputs) } else { Ok(()) }
    }

    fn scatter(&self, output: &Buffer, inputs: &[Buffer], root: usize) -> Result<()> {
        if output.nbytes() == 0 {
            return Ok(());
        }
        match inputs {
            [own] if self.size == 1 => {
                output.copy_from(own);
                Ok(())
            }
            _ => self.context.scatter(inputs, output, root, self.at),
        }
    }

    /// Every rank gets all operands of its part and reduces them in the order of ranks: half of the
    /// bytes of an all-reduce, whose other half would be thrown away.
    fn reduce_scatter(&self, output: &Buffer, inputs: &[Buffer], op: &ReduceOp) -> Result<()> {
        let (part, dtype) = (output.nbytes(), output.dtype());
        if part == 0 {
            return Ok(());
        }
        let mut operands = Buffer::gathered(inputs, dtype)?;
        if matches!(op, ReduceOp::PremulSum(_)) {
            operands = operands.copied()?;
            operands.premultiply(op)?;
        }
        let received = Buffer::scratch(part * self.size, dtype)?;
        self.exchange(&operands, &vec![part; self.size], &received, &vec![part; self.size])?;
        let sum = received.part(0, part)?;
        sum.reduce(Combination::of(op, dtype)?, &received.rows(&vec![1; self.size])?)?;
        sum.divide(op, self.size)?;
        output.copy_from(&sum);
        Ok(())
    }

    fn all_to_all(&self, outputs: &[Buffer], inputs: &[Buffer]) -> Result<()> {
        let lengths = |buffers: &[Buffer]| buffers.iter().map(Buffer::nbytes).collect::<Vec<_>>();
        let (from, to) = (lengths(inputs), lengths(outputs));
        let dtype = inputs.first().or(outputs.first()).map_or(DType::UInt8, Buffer::dtype);
        let given = Buffer::gathered(inputs, dtype)?;
        match Buffer::joined(outputs) {
            Some(whole) => self.exchange(&given, &from, &whole, &to),
            None => {
                let whole = Buffer::scratch(to.iter().sum(), dtype)?;
                self.exchange(&given, &from, &whole, &to)?;
                whole.spread(outputs)
            }
        }
    }

    /// Sends `from[r]` bytes to rank r and receives `to[r]` from it.
    fn exchange(
        &self,
        input: &Buffer,
        from: &[usize],
        output: &Buffer,
        to: &[usize],
    ) -> Result<()> {
        if self.size == 1 {
            output.copy_from(input);
            return Ok(());
        }
        let lengths = |lengths: &[usize]| -> Vec<i64> {
            lengths.iter().map(|&length| length as i64).collect()
        };
        let (from, to) = (lengths(from), lengths(to));
        // SAFETY: the lengths are those of the parts that both memories are made of.
        unsafe {
            let (input, output) = (input.start().cast_const(), output.start());
            self.context.all_to_all((input, &from), (output, &to), self.at)
        }
    }
}
