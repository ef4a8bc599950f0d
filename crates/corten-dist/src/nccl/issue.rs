//! Calls as the functions of NCCL that they are made of.

use std::ffi::{c_int, c_void};

use corten_core::{Access, Device, TensorBase, TensorOptions};
use corten_cuda::Stream;
use corten_ops::{Tensor, op};

use super::functions::{Comm, Functions, IN_PROGRESS, SUCCESS};
use super::operands::Elements;
use super::values::{BYTE, Operation, Reduced};
use crate::engine::Call;
use crate::error::{DistError, Result};
use crate::memory;
use crate::reduce_op::ReduceOp;

/// A function of NCCL with its arguments.
enum Step {
    AllReduce { data: Elements, reduced: Reduced },
    Broadcast { from: Elements, to: Elements, root: usize },
    Reduce { data: Elements, reduced: Reduced, root: usize },
    AllGather { from: Elements, to: Elements },
    ReduceScatter { from: Elements, to: Elements, reduced: Reduced },
    Send { from: Elements, peer: usize },
    Recv { to: Elements, peer: usize },
}

/// A rank's place in the communicator that runs a call.
#[derive(Clone, Copy)]
pub(super) struct RankPosition {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) device: i8,
    pub(super) version: (u32, u32, u32),
    /// The communicator is of this rank and that one alone, in this order or the other.
    pub(super) peer: Option<usize>,
}

/// What a call does, ready to be given to a stream: everything that can be wrong with it is known.
pub(super) struct Plan {
    steps: Vec<Step>,
    /// Every tensor whose memory the steps touch.
    pub(super) used: Vec<Tensor>,
    /// Copies on the stream after the steps: to, from.
    pub(super) after: Vec<(Tensor, Tensor)>,
    place: RankPosition,
}

impl Plan {
    /// The steps of a call. Copies that come before them are made now, in the current stream, which
    /// must be that of the steps.
    ///
    /// # Errors
    /// `Value`, `Type` and `Runtime` for what NCCL does not do with such tensors.
    pub(super) fn of(call: &Call, place: RankPosition) -> Result<Self> {
        let mut plan = Self { steps: Vec::new(), used: Vec::new(), after: Vec::new(), place };
        plan.add(call)?;
        Ok(plan)
    }

    fn read(&mut self, tensor: &Tensor) -> Result<Elements> {
        self.used.push(tensor.clone());
        Elements::of(tensor, Access::Read, self.place.device)
    }

    fn write(&mut self, tensor: &Tensor) -> Result<Elements> {
        self.used.push(tensor.clone());
        Elements::of(tensor, Access::Write, self.place.device)
    }

    fn reduced(&mut self, op: &ReduceOp, tensor: &Tensor) -> Result<Reduced> {
        let reduced = Reduced::of(op, tensor.dtype(), self.place.version)?;
        if let Operation::ScaledBy(factor) = &reduced.operation {
            self.read(&factor.clone())?;
        }
        Ok(reduced)
    }

    fn add(&mut self, call: &Call) -> Result<()> {
        match call {
            Call::AllReduce { tensor, op } => {
                let (data, reduced) = (self.write(tensor)?, self.reduced(op, tensor)?);
                self.steps.push(Step::AllReduce { data, reduced });
            }
            Call::Broadcast { tensor, root } => {
                let data = match *root == self.place.rank {
                    true => self.read(tensor)?,
                    false => self.write(tensor)?,
                };
                self.steps.push(Step::Broadcast { from: data, to: data, root: *root });
            }
            Call::Reduce { tensor, root, op } => {
                let (data, reduced) = (self.write(tensor)?, self.reduced(op, tensor)?);
                self.steps.push(Step::Reduce { data, reduced, root: *root });
            }
            Call::AllGather { outputs, input } => self.all_gather(outputs, input)?,
            Call::AllGatherInto { output, input } => {
                let (to, from) = (self.write(output)?, self.read(input)?);
                self.steps.push(Step::AllGather { from, to });
            }
            Call::Gather { outputs, input, root } => self.gather(outputs, input, *root)?,
            Call::Scatter { output, inputs, root } => self.scatter(output, inputs, *root)?,
            Call::ReduceScatter { output, inputs, op } => {
                let input = self.joined(inputs)?;
                self.reduce_scatter(output, &input, op)?;
            }
            Call::ReduceScatterInto { output, input, op } => {
                self.reduce_scatter(output, input, op)?;
            }
            Call::AllToAll { outputs, inputs } => self.all_to_all(outputs, inputs)?,
            Call::AllToAllBase { output, input, output_splits, input_splits } => {
                let (to, from) = (self.write(output)?, self.read(input)?);
                self.rows(from, input_splits, |from, peer| Step::Send { from, peer });
                self.rows(to, output_splits, |to, peer| Step::Recv { to, peer });
            }
            Call::Send { tensor, to, .. } => {
                let (from, peer) = (self.read(tensor)?, self.peer(*to));
                self.steps.push(Step::Send { from, peer });
            }
            Call::Recv { tensor, from, .. } => {
                let (to, peer) = (self.write(tensor)?, self.peer(*from));
                self.steps.push(Step::Recv { to, peer });
            }
            Call::RecvAny { .. } => {
                return Err(DistError::runtime("ProcessGroupNCCL does not support recvAnysource"));
            }
            Call::Barrier { .. } => {
                let tensor = self.empty(&[1], TensorOptions::default())?;
                let (data, reduced) =
                    (self.write(&tensor)?, self.reduced(&ReduceOp::Sum, &tensor)?);
                self.steps.push(Step::AllReduce { data, reduced });
            }
            Call::Batch(calls) => calls.iter().try_for_each(|call| self.add(call))?,
        }
        Ok(())
    }

    /// A rank's number in the communicator.
    fn peer(&self, rank: usize) -> usize {
        match self.place.peer {
            // The one with the smaller number is the first of the two.
            Some(_) => usize::from(rank > self.place.rank),
            None => rank,
        }
    }

    /// Memory of the stream that runs the steps.
    fn empty(&self, sizes: &[i64], options: TensorOptions) -> Result<Tensor> {
        let options = options.device(Device::cuda(self.place.device));
        Ok(Tensor::from(TensorBase::empty(sizes, options)?))
    }

    /// Tensors of one size become parts of one, which is copied to them; others are broadcast by their
    /// owners.
    fn all_gather(&mut self, outputs: &[Tensor], input: &Tensor) -> Result<()> {
        let count = input.numel();
        if outputs.iter().all(|output| output.numel() == count) {
            let sizes = [count * outputs.len() as i64];
            let whole = self.empty(&sizes, TensorOptions::default().dtype(input.dtype()))?;
            for (rank, output) in outputs.iter().enumerate() {
                self.write(output)?;
                let part = memory::part(&whole, rank * count as usize, count as usize)?;
                self.after.push((memory::flat(output)?, part));
            }
            let (to, from) = (self.write(&whole)?, self.read(input)?);
            self.steps.push(Step::AllGather { from, to });
            return Ok(());
        }
        let own = self.read(input)?;
        if outputs[self.place.rank].numel() != count {
            return Err(DistError::value(format!(
                "ProcessGroupNCCL::allgather: the output of rank {} has {} elements, and its input {count}",
                self.place.rank,
                outputs[self.place.rank].numel()
            )));
        }
        for (root, output) in outputs.iter().enumerate() {
            let to = self.write(output)?;
            let from = if root == self.place.rank { own } else { to };
            self.steps.push(Step::Broadcast { from, to, root });
        }
        Ok(())
    }

    /// Tensors of one size one after another, as a copy unless there is one.
    fn joined(&mut self, inputs: &[Tensor]) -> Result<Tensor> {
        let (first, count) = match inputs {
            [only] => return Ok(only.clone()),
            [first, ..] => (first, first.numel()),
            [] => return Err(DistError::value("nccl: a list of tensors is empty")),
        };
        let options = TensorOptions::default().dtype(first.dtype());
        let whole = self.empty(&[count * inputs.len() as i64], options)?;
        for (rank, input) in inputs.iter().enumerate() {
            self.read(input)?;
            let part = memory::part(&whole, rank * count as usize, count as usize)?;
            op::copy_(&part, &memory::flat(input)?, false)?;
        }
        Ok(whole)
    }

    fn reduce_scatter(&mut self, output: &Tensor, input: &Tensor, op: &ReduceOp) -> Result<()> {
        let reduced = self.reduced(op, output)?;
        let (to, from) = (self.write(output)?, self.read(input)?);
        self.steps.push(Step::ReduceScatter { from, to, reduced });
        Ok(())
    }

    fn gather(&mut self, outputs: &[Tensor], input: &Tensor, root: usize) -> Result<()> {
        let from = self.read(input)?;
        if root != self.place.rank {
            self.steps.push(Step::Send { from, peer: root });
            return Ok(());
        }
        for (peer, output) in outputs.iter().enumerate() {
            let to = self.write(output)?;
            if peer == root {
                self.after.push((memory::flat(output)?, memory::flat(input)?));
            } else {
                self.steps.push(Step::Recv { to, peer });
            }
        }
        Ok(())
    }

    fn scatter(&mut self, output: &Tensor, inputs: &[Tensor], root: usize) -> Result<()> {
        let to = self.write(output)?;
        if root != self.place.rank {
            self.steps.push(Step::Recv { to, peer: root });
            return Ok(());
        }
        for (peer, input) in inputs.iter().enumerate() {
            let from = self.read(input)?;
            if peer == root {
                self.after.push((memory::flat(output)?, memory::flat(input)?));
            } else {
                self.steps.push(Step::Send { from, peer });
            }
        }
        Ok(())
    }

    fn all_to_all(&mut self, outputs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
        for (peer, input) in inputs.iter().enumerate() {
            let from = self.read(input)?;
            self.steps.push(Step::Send { from, peer });
        }
        for (peer, output) in outputs.iter().enumerate() {
            let to = self.write(output)?;
            self.steps.push(Step::Recv { to, peer });
        }
        Ok(())
    }

    /// Steps for the rows of each rank.
    fn rows(&mut self, whole: Elements, splits: &[usize], step: impl Fn(Elements, usize) -> Step) {
        let row = whole.nbytes / splits.iter().sum::<usize>().max(1);
        let mut at = 0;
        for (peer, &count) in splits.iter().enumerate() {
            self.steps.push(step(whole.bytes(at, count * row), peer));
            at += count * row;
        }
    }
}

/// What a status other than success or "in progress" becomes.
fn check(functions: &Functions, status: c_int) -> Result<c_int> {
    match status {
        SUCCESS | IN_PROGRESS => Ok(status),
        _ => Err(DistError::backend(format!("nccl: {}", functions.words(status)))),
    }
}

/// A communicator, the library and the stream that a plan is given to.
#[derive(Clone, Copy)]
pub(super) struct Issue {
    pub(super) functions: &'static Functions,
    pub(super) comm: Comm,
    pub(super) stream: Stream,
}

impl Issue {
    /// Gives the steps to the stream as one group. Whether the library goes on with that on a thread
    /// of its own, and the reductions that are to be given back after that.
    ///
    /// # Errors
    /// `Backend` with the library's words.
    pub(super) fn run(self, plan: &Plan) -> Result<(c_int, Vec<c_int>)> {
        let mut scaled = Vec::new();
        // Reductions are made outside of the group.
        let operations = plan
            .steps
            .iter()
            .map(|step| self.operation(step, &mut scaled))
            .collect::<Result<Vec<c_int>>>();
        let issued = operations.and_then(|operations| self.group(plan, &operations));
        match issued {
            Ok(status) => Ok((status, scaled)),
            Err(error) => {
                self.give_back(&scaled);
                Err(error)
            }
        }
    }

    fn group(self, plan: &Plan, operations: &[c_int]) -> Result<c_int> {
        // SAFETY: the function takes nothing and begins a group of this thread.
        check(self.functions, unsafe { (self.functions.group_start)() })?;
        let mut issued = Ok(SUCCESS);
        for (step, operation) in plan.steps.iter().zip(operations) {
            issued = issued.and_then(|_| check(self.functions, self.issue(step, *operation)));
        }
        // SAFETY: ends the group that was begun, whatever became of its calls.
        let ended = unsafe { (self.functions.group_end)() };
        issued?;
        check(self.functions, ended)
    }

    /// Gives reductions back.
    pub(super) fn give_back(self, scaled: &[c_int]) {
        if let Some(destroy) = self.functions.red_op_destroy {
            for operation in scaled {
                // SAFETY: the reduction was made for this communicator, and no call uses it any more.
                unsafe { destroy(*operation, self.comm) };
            }
        }
    }

    /// The number of a step's reduction, which may be a new one.
    fn operation(self, step: &Step, scaled: &mut Vec<c_int>) -> Result<c_int> {
        let (Step::AllReduce { reduced, .. }
        | Step::Reduce { reduced, .. }
        | Step::ReduceScatter { reduced, .. }) = step
        else {
            return Ok(0);
        };
        let (scalar, residence): (*const c_void, c_int) = match &reduced.operation {
            Operation::Known(number) => return Ok(*number),
            Operation::Scaled(bytes) => (bytes.as_ptr().cast(), 1),
            Operation::ScaledBy(factor) => {
                (Elements::of(factor, Access::Read, self.stream.device())?.start.cast_const(), 0)
            }
        };
        let Some(create) = self.functions.red_op_create_pre_mul_sum else {
            return Err(DistError::runtime("PREMUL_SUM needs NCCL 2.11 or newer"));
        };
        let mut number = 0;
        // SAFETY: the library writes one number, and reads a scalar of the dtype: 8 bytes of this process
        // now, or memory of the device, which is recorded on the stream, when the stream gets there.
        let status =
            unsafe { create(&raw mut number, scalar, reduced.dtype, residence, self.comm) };
        check(self.functions, status)?;
        scaled.push(number);
        Ok(number)
    }

    fn issue(self, step: &Step, operation: c_int) -> c_int {
        let Self { functions: nccl, comm, .. } = self;
        let stream = self.stream.raw() as *mut c_void;
        // SAFETY: for all calls: the communicator and the stream exist and are of one device, and the blocks
        // are memory of that device with so many elements, which stays until the stream has got there
        // (see Note [Memory of NCCL's calls]).
        unsafe {
            match step {
                Step::AllReduce { data, reduced } if data.count > 0 => {
                    let count = data.count * reduced.parts;
                    let (from, to) = (data.start, data.start);
                    (nccl.all_reduce)(from, to, count, reduced.dtype, operation, comm, stream)
                }
                Step::Broadcast { from, to, root } if to.nbytes > 0 => {
                    let root = *root as c_int;
                    (nccl.broadcast)(from.start, to.start, to.nbytes, BYTE, root, comm, stream)
                }
                Step::Reduce { data, reduced, root } if data.count > 0 => {
                    let (count, root) = (data.count * reduced.parts, *root as c_int);
                    let (from, to) = (data.start, data.start);
                    (nccl.reduce)(from, to, count, reduced.dtype, operation, root, comm, stream)
                }
                Step::AllGather { from, to } if from.nbytes > 0 => {
                    (nccl.all_gather)(from.start, to.start, from.nbytes, BYTE, comm, stream)
                }
                Step::ReduceScatter { from, to, reduced } if to.count > 0 => {
                    let (count, dtype) = (to.count * reduced.parts, reduced.dtype);
                    (nccl.reduce_scatter)(
                        from.start, to.start, count, dtype, operation, comm, stream,
                    )
                }
                Step::Send { from, peer } if from.nbytes > 0 => {
                    (nccl.send)(from.start, from.nbytes, BYTE, *peer as c_int, comm, stream)
                }
                Step::Recv { to, peer } if to.nbytes > 0 => {
                    (nccl.recv)(to.start, to.nbytes, BYTE, *peer as c_int, comm, stream)
                }
                // All ranks know that there is nothing to do.
                _ => SUCCESS,
            }
        }
    }
}
