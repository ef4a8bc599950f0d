//! Calls as steps that MPI runs.
//!
//! All steps of a call start at once and end in any order. MPI counts in 31 bits: what is longer becomes
//! several steps, and collectives that place the parts of all ranks by such counts become calls of one
//! rank each.

use corten_core::Access;
use corten_ops::Tensor;

use super::ffi::Reduction;
use crate::buffer::Buffer;
use crate::{Call, DistError, ReduceOp, Result};

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
    Divide { buffer: Buffer },
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

/// The most bytes of an all-reduce in one step. The elements that the ranks exchange are then read again from the
/// cache.
const CACHED: usize = 4 << 20;

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
                self.all_gather(&writes(outputs)?, &read(input)?, place)
            }
            Call::AllGatherInto { output, input } => {
                self.all_gather_into(&write(output)?, &read(input)?, place)
            }
            Call::Gather { outputs, input, root } => {
                self.gather(&writes(outputs)?, &read(input)?, *root, place)
            }
            Call::Scatter { output, inputs, root } => {
                self.scatter(&write(output)?, &reads(inputs)?, *root, place)
            }
            Call::ReduceScatter { output, inputs, op } => {
                let input = Buffer::gathered(&reads(inputs)?, output.dtype())?;
                self.reduce_scatter(output, input, op, place)
            }
            Call::ReduceScatterInto { output, input, op } => {
                self.reduce_scatter(output, read(input)?, op, place)
            }
            Call::AllToAll { outputs, inputs } => {
                self.all_to_all(&writes(outputs)?, &reads(inputs)?, place)
            }
            Call::AllToAllBase { output, input, output_splits, input_splits } => {
                let outputs = write(output)?.rows(output_splits)?;
                let inputs = read(input)?.rows(input_splits)?;
                self.all_to_all(&outputs, &inputs, place)
            }
            Call::Send { tensor, to, tag } => {
                self.send(&read(tensor)?, *to, user(*tag, place)?, place)
            }
            Call::Recv { tensor, from, tag } => {
                let lane = user(*tag, place)?;
                self.receive(&write(tensor)?, Some(*from), lane, place)
            }
            Call::RecvAny { tensor, tag } => {
                self.receive(&write(tensor)?, None, user(*tag, place)?, place)
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
        let output = write(tensor)?;
        let reduction = Reduction::of(op, tensor.dtype())?;
        let scaled = scaled(&output, op)?;
        let place = CommunicatorFacts { limit: place.limit.min(CACHED), ..place };
        for (at, part) in parts(&output, reduction.itemsize(), place)? {
            let input = scaled.as_ref().map(|input| input.part(at, part.nbytes())).transpose()?;
            self.steps.push(Step::AllReduce { input, output: part, reduction });
        }
        self.average(&output, op);
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
        let scaled = scaled(&buffer, op)?;
        for (at, part) in parts(&buffer, reduction.itemsize(), place)? {
            let input = scaled.as_ref().map(|input| input.part(at, part.nbytes())).transpose()?;
            let input = if is_root { input } else { input.or_else(|| Some(part.clone())) };
            let output = is_root.then_some(part);
            self.steps.push(Step::Reduce { input, output, reduction, root });
        }
        if is_root {
            self.average(&buffer, op);
        }
        Ok(())
    }

    /// `input` has a part for each rank.
    fn reduce_scatter(
        &mut self,
        output: &Tensor,
        input: Buffer,
        op: &ReduceOp,
        place: CommunicatorFacts,
    ) -> Result<()> {
        let (dtype, output) = (output.dtype(), write(output)?);
        let reduction = Reduction::of(op, dtype)?;
        let mut input = input;
        if let Some(scaled) = scaled(&input, op)? {
            input = scaled;
        } else if input.overlaps(&output) {
            input = input.copied()?;
        }
        if output.nbytes() <= place.limit {
            if output.nbytes() > 0 {
                let output = output.clone();
                self.steps.push(Step::ReduceScatter { input, output, reduction });
            }
        } else {
            for root in 0..place.size {
                let of_root = input.part(root * output.nbytes(), output.nbytes())?;
                for (at, part) in parts(&of_root, reduction.itemsize(), place)? {
                    let is_root = root == place.rank;
                    let output = is_root.then(|| output.part(at, part.nbytes())).transpose()?;
                    self.steps.push(Step::Reduce { input: Some(part), output, reduction, root });
                }
            }
        }
        self.average(&output, op);
        Ok(())
    }

    fn average(&mut self, buffer: &Buffer, op: &ReduceOp) {
        if matches!(op, ReduceOp::Avg) {
            self.finish.push(Finish::Divide { buffer: buffer.clone() });
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
        let are_equal = outputs.iter().all(|output| output.nbytes() == input.nbytes());
        if !are_equal || input.nbytes() > place.limit {
            return self.broadcast_each(outputs, input, place);
        }
        if input.nbytes() == 0 {
            return Ok(());
        }
        if let Some(whole) = Buffer::joined(outputs) {
            return self.all_gather_into(&whole, input, place);
        }
        let whole = Buffer::scratch(Buffer::total(outputs)?, input.dtype())?;
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
        let own = output.part(place.rank * input.nbytes(), input.nbytes())?;
        if input.nbytes() > place.limit {
            let outputs =
                (0..place.size).map(|rank| output.part(rank * input.nbytes(), input.nbytes()));
            return self.broadcast_each(&outputs.collect::<Result<Vec<_>>>()?, input, place);
        }
        if input.nbytes() == 0 {
            return Ok(());
        }
        let input = if input.is(&own) {
            None
        } else if input.overlaps(output) {
            Some(input.copied()?)
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
                check_len(input.nbytes(), output.nbytes())?;
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
        if input.nbytes() == 0 {
            return Ok(());
        }
        if input.nbytes() <= place.limit {
            let whole = is_root
                .then(|| Buffer::scratch(Buffer::total(outputs)?, input.dtype()))
                .transpose()?;
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
        if output.nbytes() == 0 {
            return Ok(());
        }
        if output.nbytes() <= place.limit {
            let input = is_root.then(|| Buffer::gathered(inputs, output.dtype())).transpose()?;
            let is_shared = input.as_ref().is_some_and(|input| input.overlaps(output));
            let input =
                if is_shared { input.map(|input| input.copied()).transpose()? } else { input };
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
            let input = if is_shared(input) { input.copied()? } else { input.clone() };
            if rank != place.rank {
                self.send(&input, rank, Lane::Collective, place)?;
            } else if let Some(output) = outputs.get(rank) {
                check_len(input.nbytes(), output.nbytes())?;
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
            let from = whole.part(at, output.nbytes())?;
            self.finish.push(Finish::Copy { from, to: output.clone() });
            at += output.nbytes();
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
            Self::Divide { buffer } => buffer.divide(&ReduceOp::Avg, size),
        }
    }
}

fn read(tensor: &Tensor) -> Result<Buffer> {
    access(tensor, false)
}

fn write(tensor: &Tensor) -> Result<Buffer> {
    access(tensor, true)
}

fn access(tensor: &Tensor, is_written: bool) -> Result<Buffer> {
    let access = if is_written { Access::Write } else { Access::Read };
    Buffer::of("mpi", tensor, access)
}

fn reads(tensors: &[Tensor]) -> Result<Vec<Buffer>> {
    Buffer::of_all("mpi", tensors, Access::Read)
}

fn writes(tensors: &[Tensor]) -> Result<Vec<Buffer>> {
    Buffer::of_all("mpi", tensors, Access::Write)
}

/// The tag of a user's message.
fn user(tag: i32, place: CommunicatorFacts) -> Result<Lane> {
    if (0..=place.largest_tag).contains(&tag) {
        return Ok(Lane::User(tag));
    }
    Err(DistError::value(format!("MPI has tags from 0 to {}, but got {tag}", place.largest_tag)))
}

/// The elements that are summed, where they are multiplied before.
fn scaled(buffer: &Buffer, op: &ReduceOp) -> Result<Option<Buffer>> {
    if !matches!(op, ReduceOp::PremulSum(_)) {
        return Ok(None);
    }
    let scaled = buffer.copied()?;
    scaled.premultiply(op)?;
    Ok(Some(scaled))
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
    let part = |at| Ok((at, buffer.part(at, step.min(buffer.nbytes() - at))?));
    (0..buffer.nbytes()).step_by(step).map(part).collect()
}

/// The parts of a message: one at least.
fn message(buffer: &Buffer, place: CommunicatorFacts) -> Result<Vec<Buffer>> {
    if buffer.nbytes() == 0 {
        return Ok(vec![buffer.clone()]);
    }
    Ok(parts(buffer, 1, place)?.into_iter().map(|(_, part)| part).collect())
}
