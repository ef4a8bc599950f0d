//! Calls as steps that MPI runs.
//!
//! All steps of a call start at once and end in any order. MPI counts in 31 bits: what is longer becomes
//! several steps, and collectives that place the parts of all ranks by such counts become calls of one
//! rank each.

use corten_core::DType;
use corten_ops::Tensor;

use super::elementwise::{self, Change};
use super::ffi::{Buffer, Reduction};
use crate::{Call, DistError, Factor, ReduceOp, Result};

/// What MPI is asked for.
pub(super) enum Step {
    AllReduce {
        input: Option<Buffer>,
        output: Buffer,
        reduction: Reduction,
    },
    Reduce {
        input: Option<Buffer>,
        output: Option<Buffer>,
        reduction: Reduction,
        root: usize,
    },
    ReduceScatter {
        input: Buffer,
        output: Buffer,
        reduction: Reduction,
    },
    Broadcast {
        buffer: Buffer,
        root: usize,
    },
    AllGather {
        input: Option<Buffer>,
        output: Buffer,
    },
    Gather {
        input: Buffer,
        output: Option<Buffer>,
        root: usize,
    },
    Scatter {
        input: Option<Buffer>,
        output: Buffer,
        root: usize,
    },
    Send {
        buffer: Buffer,
        to: usize,
        lane: Lane,
    },
    /// The rest comes from the sender of the first part.
    Receive {
        buffer: Buffer,
        from: Option<usize>,
        lane: Lane,
        rest: Vec<Buffer>,
    },
    Barrier,
}

/// Messages of users and those within collectives do not meet: each has a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// A message of the user, with its tag.
    User(i32),
    /// A message of a collective.
    Collective,
}

/// What is done when all steps have ended.
pub(super) enum Finish {
    Copy { from: Buffer, to: Buffer },
    Divide { buffer: Buffer, dtype: DType },
}

/// The steps of a call.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) finish: Vec<Finish>,
}

/// The communicator that a plan is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommunicatorFacts {
    pub(super) rank: usize,
    pub(super) size: usize,
    /// The most bytes of a step.
    pub(super) limit: usize,
    /// The largest tag.
    pub(super) largest_tag: i32,
}

impl Plan {
    /// The steps of `call`.
    ///
    /// # Errors
    /// `Runtime` and `Value` for what MPI cannot do, `OutOfMemory`.
    pub(super) fn of(call: &Call, place: CommunicatorFacts) -> Result<Self> {
        let mut plan = Self::default();
        plan.add(call, place)?;
        Ok(plan)
    }

    fn add(&mut self, call: &Call, place: CommunicatorFacts) -> Result<()> {
        match call {
            Call::AllReduce { tensor, op } => self.all_reduce(tensor, op, place),
            Call::Broadcast { tensor, root } => {
                let buffer = access(tensor, *root != place.rank)?;
                self.broadcast(&buffer, *root, place)
            }
            Call::Reduce { tensor, root, op } => self.reduce(tensor, *root, op, place),
            Call::AllGather { outputs, input } => {
                self.all_gather(&writes(outputs)?, &Buffer::read(input)?, place)
            }
            Call::AllGatherInto { output, input } => {
                self.all_gather_into(&Buffer::write(output)?, &Buffer::read(input)?, place)
            }
            Call::Gather { outputs, input, root } => {
                self.gather(&writes(outputs)?, &Buffer::read(input)?, *root, place)
            }
            Call::Scatter { output, inputs, root } => {
                self.scatter(&Buffer::write(output)?, &reads(inputs)?, *root, place)
            }
            Call::ReduceScatter { output, inputs, op } => {
                let input = joined(&reads(inputs)?)?;
                self.reduce_scatter(output, input, true, op, place)
            }
            Call::ReduceScatterInto { output, input, op } => {
                self.reduce_scatter(output, Buffer::read(input)?, false, op, place)
            }
            Call::AllToAll { outputs, inputs } => {
                self.all_to_all(&writes(outputs)?, &reads(inputs)?, place)
            }
            Call::AllToAllBase { output, input, output_splits, input_splits } => {
                let outputs = rows(&Buffer::write(output)?, output, output_splits)?;
                let inputs = rows(&Buffer::read(input)?, input, input_splits)?;
                self.all_to_all(&outputs, &inputs, place)
            }
            Call::Send { tensor, to, tag } => {
                self.send(&Buffer::read(tensor)?, *to, user(*tag, place)?, place)
            }
            Call::Recv { tensor, from, tag } => {
                let lane = user(*tag, place)?;
                self.receive(&Buffer::write(tensor)?, Some(*from), lane, place)
            }
            Call::RecvAny { tensor, tag } => {
                self.receive(&Buffer::write(tensor)?, None, user(*tag, place)?, place)
            }
            Call::Barrier { .. } => {
                self.steps.push(Step::Barrier);
                Ok(())
            }
            Call::Batch(calls) => calls.iter().try_for_each(|call| self.add(call, place)),
        }
    }

    fn all_reduce(
        &mut self,
        tensor: &Tensor,
        op: &ReduceOp,
        place: CommunicatorFacts,
    ) -> Result<()> {
        let output = Buffer::write(tensor)?;
        let reduction = Reduction::of(op, tensor.dtype())?;
        let scaled = scaled(&output, op, tensor.dtype())?;
        for (at, part) in parts(&output, reduction.itemsize(), place)? {
            let input = scaled.as_ref().map(|input| input.part(at, part.len())).transpose()?;
            self.steps.push(Step::AllReduce { input, output: part, reduction });
        }
        self.average(&output, op, tensor.dtype());
        Ok(())
    }

    fn reduce(
        &mut self,
        tensor: &Tensor,
        root: usize,
        op: &ReduceOp,
        place: CommunicatorFacts,
    ) -> Result<()> {
        let is_root = root == place.rank;
        let buffer = access(tensor, is_root)?;
        let reduction = Reduction::of(op, tensor.dtype())?;
        let scaled = scaled(&buffer, op, tensor.dtype())?;
        for (at, part) in parts(&buffer, reduction.itemsize(), place)? {
            let input = scaled.as_ref().map(|input| input.part(at, part.len())).transpose()?;
            let input = if is_root { input } else { input.or_else(|| Some(part.clone())) };
            let output = is_root.then_some(part);
            self.steps.push(Step::Reduce { input, output, reduction, root });
        }
        if is_root {
            self.average(&buffer, op, tensor.dtype());
        }
        Ok(())
    }

    /// `input` has a part for each rank. `is_scratch` says that it is a copy.
    fn reduce_scatter(
        &mut self,
        output: &Tensor,
        input: Buffer,
        is_scratch: bool,
        op: &ReduceOp,
        place: CommunicatorFacts,
    ) -> Result<()> {
        let (dtype, output) = (output.dtype(), Buffer::write(output)?);
        let reduction = Reduction::of(op, dtype)?;
        let mut input = input;
        if let Some(scaled) = scaled(&input, op, dtype)? {
            input = scaled;
        } else if !is_scratch && input.overlaps(&output) {
            input = copied(&input)?;
        }
        if output.len() <= place.limit {
            if output.len() > 0 {
                let output = output.clone();
                self.steps.push(Step::ReduceScatter { input, output, reduction });
            }
        } else {
            for root in 0..place.size {
                let of_root = input.part(root * output.len(), output.len())?;
                for (at, part) in parts(&of_root, reduction.itemsize(), place)? {
                    let is_root = root == place.rank;
                    let output = is_root.then(|| output.part(at, part.len())).transpose()?;
                    self.steps.push(Step::Reduce { input: Some(part), output, reduction, root });
                }
            }
        }
        self.average(&output, op, dtype);
        Ok(())
    }

    fn average(&mut self, buffer: &Buffer, op: &ReduceOp, dtype: DType) {
        if matches!(op, ReduceOp::Avg) && dtype != DType::Bool {
            self.finish.push(Finish::Divide { buffer: buffer.clone(), dtype });
        }
    }

    fn broadcast(&mut self, buffer: &Buffer, root: usize, place: CommunicatorFacts) -> Result<()> {
        for (_, buffer) in parts(buffer, 1, place)? {
            self.steps.push(Step::Broadcast { buffer, root });
        }
        Ok(())
    }

    fn all_gather(
        &mut self,
        outputs: &[Buffer],
        input: &Buffer,
        place: CommunicatorFacts,
    ) -> Result<()> {
        let are_equal = outputs.iter().all(|output| output.len() == input.len());
        if !are_equal || input.len() > place.limit {
            return self.broadcast_each(outputs, input, place);
        }
        if input.len() == 0 {
            return Ok(());
        }
        let whole = Buffer::scratch(total(outputs)?)?;
        self.separate(&whole, outputs)?;
        self.steps.push(Step::AllGather { input: Some(input.clone()), output: whole });
        Ok(())
    }

    fn all_gather_into(
        &mut self,
        output: &Buffer,
        input: &Buffer,
        place: CommunicatorFacts,
    ) -> Result<()> {
        let own = output.part(place.rank * input.len(), input.len())?;
        if input.len() > place.limit {
            let outputs = (0..place.size).map(|rank| output.part(rank * input.len(), input.len()));
            return self.broadcast_each(&outputs.collect::<Result<Vec<_>>>()?, input, place);
        }
        if input.len() == 0 {
            return Ok(());
        }
        let input = if input.is(&own) {
            None
        } else if input.overlaps(output) {
            Some(copied(input)?)
        } else {
            Some(input.clone())
        };
        self.steps.push(Step::AllGather { input, output: output.clone() });
        Ok(())
    }

    /// Gathers by as many broadcasts as there are ranks.
    fn broadcast_each(
        &mut self,
        outputs: &[Buffer],
        input: &Buffer,
        place: CommunicatorFacts,
    ) -> Result<()> {
        for (root, output) in outputs.iter().enumerate() {
            if root == place.rank {
                check_len(input.len(), output.len())?;
                output.copy_from(input);
            }
            self.broadcast(output, root, place)?;
        }
        Ok(())
    }

    fn gather(
        &mut self,
        outputs: &[Buffer],
        input: &Buffer,
        root: usize,
        place: CommunicatorFacts,
    ) -> Result<()> {
        let is_root = root == place.rank;
        if input.len() == 0 {
            return Ok(());
        }
        if input.len() <= place.limit {
            let whole = is_root.then(|| Buffer::scratch(total(outputs)?)).transpose()?;
            if let Some(whole) = &whole {
                self.separate(whole, outputs)?;
            }
            self.steps.push(Step::Gather { input: input.clone(), output: whole, root });
            return Ok(());
        }
        if !is_root {
            return self.send(input, root, Lane::Collective, place);
        }
        for (rank, output) in outputs.iter().enumerate() {
            if rank == root {
                output.copy_from(input);
            } else {
                self.receive(output, Some(rank), Lane::Collective, place)?;
            }
        }
        Ok(())
    }

    fn scatter(
        &mut self,
        output: &Buffer,
        inputs: &[Buffer],
        root: usize,
        place: CommunicatorFacts,
    ) -> Result<()> {
        let is_root = root == place.rank;
        if output.len() == 0 {
            return Ok(());
        }
        if output.len() <= place.limit {
            let input = is_root.then(|| joined(inputs)).transpose()?;
            self.steps.push(Step::Scatter { input, output: output.clone(), root });
            return Ok(());
        }
        if !is_root {
            return self.receive(output, Some(root), Lane::Collective, place);
        }
        for (rank, input) in inputs.iter().enumerate() {
            if rank == root {
                output.copy_from(input);
            } else {
                self.send(input, rank, Lane::Collective, place)?;
            }
        }
        Ok(())
    }

    fn all_to_all(
        &mut self,
        outputs: &[Buffer],
        inputs: &[Buffer],
        place: CommunicatorFacts,
    ) -> Result<()> {
        let is_shared = |input: &Buffer| outputs.iter().any(|output| output.overlaps(input));
        for (rank, input) in inputs.iter().enumerate() {
            let input = if is_shared(input) { copied(input)? } else { input.clone() };
            if rank != place.rank {
                self.send(&input, rank, Lane::Collective, place)?;
            } else if let Some(output) = outputs.get(rank) {
                check_len(input.len(), output.len())?;
                self.finish.push(Finish::Copy { from: input, to: output.clone() });
            }
        }
        for (rank, output) in outputs.iter().enumerate() {
            if rank != place.rank {
                self.receive(output, Some(rank), Lane::Collective, place)?;
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        buffer: &Buffer,
        to: usize,
        lane: Lane,
        place: CommunicatorFacts,
    ) -> Result<()> {
        for buffer in message(buffer, place)? {
            self.steps.push(Step::Send { buffer, to, lane });
        }
        Ok(())
    }

    fn receive(
        &mut self,
        buffer: &Buffer,
        from: Option<usize>,
        lane: Lane,
        place: CommunicatorFacts,
    ) -> Result<()> {
        let mut rest = message(buffer, place)?;
        if from.is_none() && rest.len() > 1 {
            let buffer = rest.remove(0);
            self.steps.push(Step::Receive { buffer, from, lane, rest });
            return Ok(());
        }
        for buffer in rest {
            self.steps.push(Step::Receive { buffer, from, lane, rest: Vec::new() });
        }
        Ok(())
    }

    /// Has the parts of `whole` be copied to where they belong.
    fn separate(&mut self, whole: &Buffer, outputs: &[Buffer]) -> Result<()> {
        let mut at = 0;
        for output in outputs {
            let from = whole.part(at, output.len())?;
            self.finish.push(Finish::Copy { from, to: output.clone() });
            at += output.len();
        }
        Ok(())
    }
}

impl Finish {
    /// Does it, for a communicator of `size` ranks.
    ///
    /// # Errors
    /// `Runtime` for dtypes without division.
    pub(super) fn run(self, size: usize) -> Result<()> {
        match self {
            Self::Copy { from, to } => {
                to.copy_from(&from);
                Ok(())
            }
            Self::Divide { buffer, dtype } => {
                elementwise::change(&buffer, dtype, Change::Divide(size))
            }
        }
    }
}

fn access(tensor: &Tensor, is_written: bool) -> Result<Buffer> {
    if is_written { Buffer::write(tensor) } else { Buffer::read(tensor) }
}

fn reads(tensors: &[Tensor]) -> Result<Vec<Buffer>> {
    tensors.iter().map(Buffer::read).collect()
}

fn writes(tensors: &[Tensor]) -> Result<Vec<Buffer>> {
    tensors.iter().map(Buffer::write).collect()
}

/// The bytes of so many rows for each rank.
fn rows(buffer: &Buffer, tensor: &Tensor, splits: &[usize]) -> Result<Vec<Buffer>> {
    let count = tensor.sizes().first().map_or(1, |&rows| rows.max(1)) as usize;
    let row = buffer.len() / count;
    let mut at = 0;
    let part = |&rows: &usize| {
        let part = buffer.part(at, rows * row);
        at += rows * row;
        part
    };
    splits.iter().map(part).collect()
}

/// The tag of a user's message.
fn user(tag: i32, place: CommunicatorFacts) -> Result<Lane> {
    if (0..=place.largest_tag).contains(&tag) {
        return Ok(Lane::User(tag));
    }
    Err(DistError::value(format!("MPI has tags from 0 to {}, but got {tag}", place.largest_tag)))
}

/// The elements that are summed, where they are multiplied before.
fn scaled(buffer: &Buffer, op: &ReduceOp, dtype: DType) -> Result<Option<Buffer>> {
    let ReduceOp::PremulSum(factor) = op else { return Ok(None) };
    let factor = match factor {
        Factor::Number(number) => (*number).into(),
        Factor::Tensor(tensor) => tensor.item()?,
    };
    let scaled = copied(buffer)?;
    elementwise::change(&scaled, dtype, Change::Multiply(factor))?;
    Ok(Some(scaled))
}

fn copied(buffer: &Buffer) -> Result<Buffer> {
    let copy = Buffer::scratch(buffer.len())?;
    copy.copy_from(buffer);
    Ok(copy)
}

/// All bytes, one buffer after another.
fn joined(buffers: &[Buffer]) -> Result<Buffer> {
    let whole = Buffer::scratch(total(buffers)?)?;
    let mut at = 0;
    for buffer in buffers {
        whole.part(at, buffer.len())?.copy_from(buffer);
        at += buffer.len();
    }
    Ok(whole)
}

fn total(buffers: &[Buffer]) -> Result<usize> {
    let total = buffers.iter().try_fold(0_usize, |total, buffer| total.checked_add(buffer.len()));
    total.ok_or_else(|| DistError::value("the tensors have more bytes than memory has"))
}

fn check_len(input: usize, output: usize) -> Result<()> {
    if input == output {
        return Ok(());
    }
    Err(DistError::value(format!(
        "this rank's output has {output} bytes, but its input has {input}"
    )))
}

/// Parts of whole elements that are within the limit, with their places.
fn parts(
    buffer: &Buffer,
    itemsize: usize,
    place: CommunicatorFacts,
) -> Result<Vec<(usize, Buffer)>> {
    let step = (place.limit / itemsize * itemsize).max(itemsize);
    let part = |at| Ok((at, buffer.part(at, step.min(buffer.len() - at))?));
    (0..buffer.len()).step_by(step).map(part).collect()
}

/// The parts of a message: one at least.
fn message(buffer: &Buffer, place: CommunicatorFacts) -> Result<Vec<Buffer>> {
    if buffer.len() == 0 {
        return Ok(vec![buffer.clone()]);
    }
    Ok(parts(buffer, 1, place)?.into_iter().map(|(_, part)| part).collect())
}
