//! The collectives, each by gloo's of the same name or by the ones it is made of.

use corten_core::DType;
use corten_ops::Tensor;

use super::context::{CallSlot, Context, Direct};
use super::memory::Piece;
use crate::engine::Call;
use crate::error::{DistError, Result};
use crate::reduce_op::ReduceOp;
use crate::reduction;

/// Where a rank sends not more than these bytes by giving its whole operand to every other, all-reduce
/// does so: one exchange takes less time than the two of a ring, until moving the bytes takes longer.
const DIRECT_BYTES: usize = 512 << 10;

/// More ranks than these make more messages than a ring's, though fewer one after another.
const DIRECT_RANKS: usize = 8;

/// A collective with its memory, ready to run on another thread.
pub(super) enum Collective {
    AllReduce { data: Piece, op: ReduceOp },
    Broadcast { data: Piece, root: usize },
    Reduce { data: Piece, root: usize, op: ReduceOp },
    AllGather { outputs: Vec<Piece>, input: Piece },
    Gather { outputs: Vec<Piece>, input: Piece, root: usize },
    Scatter { output: Piece, inputs: Vec<Piece>, root: usize },
    ReduceScatter { output: Piece, inputs: Vec<Piece>, op: ReduceOp },
    AllToAll { outputs: Vec<Piece>, inputs: Vec<Piece> },
    Barrier,
}

impl Collective {
    /// Takes the memory of a call's tensors; `size` is the number of ranks.
    ///
    /// # Errors
    /// As for [`Piece::of`], and `Runtime` for calls between two ranks and reductions that there are
    /// not.
    pub(super) fn of(call: &Call, size: usize) -> Result<Self> {
        let name = call.name();
        let one = |tensor: &Tensor| Piece::of(name, tensor);
        let all = |tensors: &[Tensor]| Piece::of_all(name, tensors);
        let equal_parts = |tensor: &Tensor| -> Result<Vec<Piece>> {
            let whole = one(tensor)?;
            let part = whole.nbytes() / size;
            Ok((0..size).map(|rank| whole.part(rank * part, part)).collect())
        };
        let collective = match call {
            Call::AllReduce { tensor, op } => {
                Self::AllReduce { data: one(tensor)?, op: op.clone() }
            }
            Call::Broadcast { tensor, root } => Self::Broadcast { data: one(tensor)?, root: *root },
            Call::Reduce { tensor, root, op } => {
                Self::Reduce { data: one(tensor)?, root: *root, op: op.clone() }
            }
            Call::AllGather { outputs, input } => {
                Self::AllGather { outputs: all(outputs)?, input: one(input)? }
            }
            Call::AllGatherInto { output, input } => {
                Self::AllGather { outputs: equal_parts(output)?, input: one(input)? }
            }
            Call::Gather { outputs, input, root } => {
                Self::Gather { outputs: all(outputs)?, input: one(input)?, root: *root }
            }
            Call::Scatter { output, inputs, root } => {
                Self::Scatter { output: one(output)?, inputs: all(inputs)?, root: *root }
            }
            Call::ReduceScatter { output, inputs, op } => {
                Self::ReduceScatter { output: one(output)?, inputs: all(inputs)?, op: op.clone() }
            }
            Call::ReduceScatterInto { output, input, op } => Self::ReduceScatter {
                output: one(output)?,
                inputs: equal_parts(input)?,
                op: op.clone(),
            },
            Call::AllToAll { outputs, inputs } => {
                Self::AllToAll { outputs: all(outputs)?, inputs: all(inputs)? }
            }
            Call::AllToAllBase { output, input, output_splits, input_splits } => Self::AllToAll {
                outputs: rows(one(output)?, output_splits),
                inputs: rows(one(input)?, input_splits),
            },
            Call::Barrier { .. } => Self::Barrier,
            Call::Send { .. } | Call::Recv { .. } | Call::RecvAny { .. } | Call::Batch(_) => {
                return Err(DistError::runtime(format!("gloo: {name} is no collective")));
            }
        };
        collective.check(name)?;
        Ok(collective)
    }

    /// What is known before anything is sent: whether the reduction exists.
    fn check(&self, name: &str) -> Result<()> {
        match self {
            Self::AllReduce { data, op } | Self::Reduce { data, op, .. } => {
                reduction::function(op, data.dtype()).map(drop)
            }
            Self::ReduceScatter { output, inputs, op } => {
                same_sizes(name, inputs, output)?;
                reduction::function(op, output.dtype()).map(drop)
            }
            Self::Scatter { inputs, output, .. } => same_sizes(name, inputs, output),
            Self::Gather { outputs, input, .. } => same_sizes(name, outputs, input),
            _ => Ok(()),
        }
    }
}

/// Ranks give and take pieces of one size.
fn same_sizes(name: &str, pieces: &[Piece], other: &Piece) -> Result<()> {
    match pieces.iter().find(|piece| piece.nbytes() != other.nbytes()) {
        Some(piece) => Err(DistError::runtime(format!(
            "gloo: {name}: expected tensors of {} bytes, but got one of {} bytes",
            other.nbytes(),
            piece.nbytes()
        ))),
        None => Ok(()),
    }
}

/// The rows of a tensor that belong to each rank.
fn rows(whole: Piece, splits: &[usize]) -> Vec<Piece> {
    let row = whole.nbytes() / splits.iter().sum::<usize>().max(1);
    let mut at = 0;
    let mut piece = |&count: &usize| {
        let piece = whole.part(at, count * row);
        at += count * row;
        piece
    };
    splits.iter().map(&mut piece).collect()
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

    fn all_reduce(&self, data: &Piece, op: &ReduceOp) -> Result<()> {
        if data.nbytes() == 0 {
            return Ok(());
        }
        before(op, data)?;
        if self.size > 1 {
            let function = reduction::function(op, data.dtype())?;
            let capacity = DIRECT_BYTES / (self.size - 1);
            let is_direct = data.nbytes() <= capacity && self.size <= DIRECT_RANKS;
            let signature = signature(op, data.dtype());
            let direct = is_direct.then_some(Direct { capacity, signature });
            self.context.all_reduce(data, function, direct, self.at)?;
        }
        self.after(op, data)
    }

    fn reduce(&self, data: &Piece, root: usize, op: &ReduceOp) -> Result<()> {
        if data.nbytes() == 0 {
            return Ok(());
        }
        before(op, data)?;
        if self.size > 1 {
            let function = reduction::function(op, data.dtype())?;
            self.context.reduce(data, function, root, self.at)?;
        }
        if self.rank == root { self.after(op, data) } else { Ok(()) }
    }

    fn broadcast(&self, data: &Piece, root: usize) -> Result<()> {
        if self.size == 1 || data.nbytes() == 0 {
            return Ok(());
        }
        self.context.broadcast(data, root, self.at)
    }

    fn all_gather(&self, outputs: &[Piece], input: &Piece) -> Result<()> {
        let Some(own) = outputs.get(self.rank) else {
            return Err(DistError::runtime("gloo: allgather: there is no output for this rank"));
        };
        same_sizes("allgather", std::slice::from_ref(own), input)?;
        let lengths: Vec<usize> = outputs.iter().map(Piece::nbytes).collect();
        let total = lengths.iter().sum();
        if self.size == 1 || total == 0 {
            own.copy_from(input);
            return Ok(());
        }
        let joined = Piece::joined(outputs);
        let whole = match &joined {
            Some(whole) => whole.clone(),
            None => Piece::scratch(total, input.dtype())?,
        };
        let begin = lengths.iter().take(self.rank).sum();
        whole.part(begin, input.nbytes()).copy_from(input);
        // SAFETY: the memory has `total` bytes.
        unsafe { self.context.all_gather(whole.start(), &lengths, self.at)? };
        if joined.is_none() {
            whole.spread(outputs);
        }
        Ok(())
    }

    fn gather(&self, outputs: &[Piece], input: &Piece, root: usize) -> Result<()> {
        if input.nbytes() == 0 {
            return Ok(());
        }
        if self.rank != root {
            // SAFETY: only the root writes to the output.
            return unsafe { self.context.gather(input, std::ptr::null_mut(), root, self.at) };
        }
        let joined = Piece::joined(outputs);
        let whole = match &joined {
            Some(whole) => whole.clone(),
            None => Piece::scratch(input.nbytes() * self.size, input.dtype())?,
        };
        if self.size == 1 {
            whole.copy_from(input);
        } else {
            // SAFETY: one output of the input's size for each rank, as the group and `check` saw.
            unsafe { self.context.gather(input, whole.start(), root, self.at)? };
        }
        if joined.is_none() {
            whole.spread(outputs);
        }
        Ok(())
    }

    fn scatter(&self, output: &Piece, inputs: &[Piece], root: usize) -> Result<()> {
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
    fn reduce_scatter(&self, output: &Piece, inputs: &[Piece], op: &ReduceOp) -> Result<()> {
        let (part, dtype) = (output.nbytes(), output.dtype());
        if part == 0 {
            return Ok(());
        }
        let mut operands = Piece::gathered(inputs, dtype)?;
        if matches!(op, ReduceOp::PremulSum(_)) {
            let scaled = Piece::scratch(operands.nbytes(), dtype)?;
            scaled.copy_from(&operands);
            before(op, &scaled)?;
            operands = scaled;
        }
        let received = Piece::scratch(part * self.size, dtype)?;
        self.exchange(&operands, &vec![part; self.size], &received, &vec![part; self.size])?;
        let function = reduction::function(op, dtype)?;
        let sum = received.part(0, part);
        for rank in 1..self.size {
            let other = received.part(rank * part, part);
            let (out, other) = (sum.pointer(), other.pointer());
            // SAFETY: two parts of the scratch memory, of so many elements; it is aligned.
            unsafe { function(std::ptr::null_mut(), out, out, other, sum.count()) };
        }
        self.after(op, &sum)?;
        output.copy_from(&sum);
        Ok(())
    }

    fn all_to_all(&self, outputs: &[Piece], inputs: &[Piece]) -> Result<()> {
        let lengths = |pieces: &[Piece]| pieces.iter().map(Piece::nbytes).collect::<Vec<_>>();
        let (from, to) = (lengths(inputs), lengths(outputs));
        let dtype = inputs.first().or(outputs.first()).map_or(DType::UInt8, Piece::dtype);
        let given = Piece::gathered(inputs, dtype)?;
        match Piece::joined(outputs) {
            Some(whole) => self.exchange(&given, &from, &whole, &to),
            None => {
                let whole = Piece::scratch(to.iter().sum(), dtype)?;
                self.exchange(&given, &from, &whole, &to)?;
                whole.spread(outputs);
                Ok(())
            }
        }
    }

    /// Sends `from[r]` bytes to rank r and receives `to[r]` from it.
    fn exchange(&self, input: &Piece, from: &[usize], output: &Piece, to: &[usize]) -> Result<()> {
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

    fn after(&self, op: &ReduceOp, data: &Piece) -> Result<()> {
        // SAFETY: the piece's elements; pieces are aligned.
        unsafe { reduction::after(op, data.dtype(), data.start(), data.count(), self.size) }
    }
}

fn before(op: &ReduceOp, data: &Piece) -> Result<()> {
    // SAFETY: the piece's elements; pieces are aligned.
    unsafe { reduction::before(op, data.dtype(), data.start(), data.count()) }
}

/// A number that differs where dtypes or reductions do; factors are each rank's own.
fn signature(op: &ReduceOp, dtype: DType) -> u64 {
    let name = [dtype.name(), " ", op.name()];
    // FNV-1a.
    name.iter().flat_map(|part| part.bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
