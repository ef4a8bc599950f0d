//! What one rank alone can know to be wrong with a call, in PyTorch's words.

use corten_core::{DType, Layout};
use corten_ops::Tensor;

use crate::engine::{Call, Engine};
use crate::error::{DistError, Result};
use crate::reduce_op::ReduceOp;

/// Looks at the arguments of a call.
///
/// # Errors
/// `Runtime` and `Value` as PyTorch's process groups raise them.
pub(crate) fn check(engine: &dyn Engine, call: &Call) -> Result<()> {
    let check = Check { engine, call };
    match call {
        Call::AllReduce { tensor, op } => check.reduced(tensor, op),
        Call::Broadcast { tensor, root } => {
            check.root(*root)?;
            check.tensors(&[tensor])
        }
        Call::Reduce { tensor, root, op } => {
            check.root(*root)?;
            check.reduced(tensor, op)
        }
        Call::AllGather { outputs, input } => {
            check.list("output", outputs, true)?;
            check.alike(outputs, input)
        }
        Call::AllGatherInto { output, input } => {
            check.tensors(&[output, input])?;
            check.dtype(0, input.dtype(), output.dtype())?;
            check.times(output, input, "output", "input")
        }
        Call::Gather { outputs, input, root } => {
            check.root(*root)?;
            check.list("output", outputs, engine.rank() == *root)?;
            check.tensors(&[input])?;
            check.alike(outputs, input)
        }
        Call::Scatter { output, inputs, root } => {
            check.root(*root)?;
            check.list("input", inputs, engine.rank() == *root)?;
            check.tensors(&[output])?;
            check.alike(inputs, output)
        }
        Call::ReduceScatter { output, inputs, op } => {
            check.list("input", inputs, true)?;
            check.alike(inputs, output)?;
            check.operation(op, output.dtype())
        }
        Call::ReduceScatterInto { output, input, op } => {
            check.tensors(&[output, input])?;
            check.dtype(0, output.dtype(), input.dtype())?;
            check.times(input, output, "input", "output")?;
            check.operation(op, output.dtype())
        }
        Call::AllToAll { outputs, inputs } => {
            check.list("input", inputs, true)?;
            check.list("output", outputs, true)
        }
        Call::AllToAllBase { output, input, output_splits, input_splits } => {
            check.tensors(&[output, input])?;
            check.dtype(0, input.dtype(), output.dtype())?;
            check.splits(input, input_splits)?;
            check.splits(output, output_splits)
        }
        Call::Send { tensor, to, .. } => check.peer(*to, &[tensor]),
        Call::Recv { tensor, from, .. } => check.peer(*from, &[tensor]),
        Call::RecvAny { tensor, .. } => check.tensors(&[tensor]),
        Call::Barrier { .. } => Ok(()),
        Call::Batch(calls) => calls.iter().try_for_each(|call| self::check(engine, call)),
    }
}

/// The name that PyTorch has for the process group of a back end.
pub(crate) fn class_name(engine: &dyn Engine) -> String {
    match engine.name() {
        "gloo" => "ProcessGroupGloo".into(),
        "nccl" => "ProcessGroupNCCL".into(),
        "mpi" => "ProcessGroupMPI".into(),
        other => format!("ProcessGroup[{other}]"),
    }
}

struct Check<'a> {
    engine: &'a dyn Engine,
    call: &'a Call,
}

impl Check<'_> {
    fn error(&self, message: &str) -> DistError {
        let class = class_name(self.engine);
        DistError::runtime(format!("{class}::{}: {message}", self.call.name()))
    }

    fn reduced(&self, tensor: &Tensor, op: &ReduceOp) -> Result<()> {
        self.tensors(&[tensor])?;
        self.operation(op, tensor.dtype())
    }

    /// NCCL says by itself, in other words, what it does not reduce.
    fn operation(&self, op: &ReduceOp, dtype: DType) -> Result<()> {
        if self.engine.name() == "nccl" { Ok(()) } else { op.check(dtype) }
    }

    fn root(&self, root: usize) -> Result<()> {
        if root < self.engine.size() {
            return Ok(());
        }
        Err(self.error(&format!("invalid root rank: {root}")))
    }

    fn peer(&self, rank: usize, tensors: &[&Tensor]) -> Result<()> {
        if rank >= self.engine.size() {
            return Err(self.error(&format!("invalid rank: {rank}")));
        }
        self.tensors(tensors)
    }

    fn tensors(&self, tensors: &[&Tensor]) -> Result<()> {
        for tensor in tensors {
            if !tensor.defined() {
                return Err(self.error("a tensor is undefined"));
            }
            if tensor.layout() != Layout::Strided {
                return Err(self.error(&format!("unsupported layout {}", tensor.layout())));
            }
        }
        Ok(())
    }

    /// A list with a tensor for each rank where there must be one.
    fn list(&self, what: &str, list: &[Tensor], wanted: bool) -> Result<()> {
        self.tensors(&list.iter().collect::<Vec<_>>())?;
        let expected = if wanted { self.engine.size() } else { 0 };
        if list.len() == expected {
            return Ok(());
        }
        if !wanted {
            return Err(self.error(&format!("requires empty {what} on non-root")));
        }
        Err(self.error(&format!(
            "invalid {what} tensor list at index 0 (expected length {expected}, got {})",
            list.len()
        )))
    }

    /// Tensors of the size and dtype of one.
    fn alike(&self, list: &[Tensor], one: &Tensor) -> Result<()> {
        self.tensors(&[one])?;
        for (index, tensor) in list.iter().enumerate() {
            self.dtype(index, one.dtype(), tensor.dtype())?;
            // Back ends that can gather tensors of several sizes find out what comes.
            let (want, got) = (one.sizes(), tensor.sizes());
            if want != got && !matches!(self.call, Call::AllGather { .. } if self.is_nccl()) {
                return Err(self.error(&format!(
                    "invalid tensor size at index {index} (expected {}, got {})",
                    shown(&want),
                    shown(&got)
                )));
            }
        }
        Ok(())
    }

    fn is_nccl(&self) -> bool {
        self.engine.name() == "nccl"
    }

    fn dtype(&self, index: usize, want: DType, got: DType) -> Result<()> {
        if want == got {
            return Ok(());
        }
        Err(self.error(&format!(
            "invalid tensor type at index {index} (expected dtype={}, got dtype={})",
            want.name(),
            got.name()
        )))
    }

    fn times(&self, large: &Tensor, small: &Tensor, whole: &str, piece: &str) -> Result<()> {
        if large.numel() == small.numel() * self.engine.size() as i64 {
            return Ok(());
        }
        let class = DistError::value(format!(
            "{whole} tensor size must be equal to world_size times {piece} tensor size: {} has {} \
             elements, {piece} has {}, and there are {} ranks",
            whole,
            large.numel(),
            small.numel(),
            self.engine.size()
        ));
        Err(class)
    }

    fn splits(&self, tensor: &Tensor, splits: &[usize]) -> Result<()> {
        let rows = tensor.sizes().first().map_or(0, |&rows| rows as usize);
        if splits.len() != self.engine.size() {
            return Err(DistError::runtime(
                "Number of tensor splits not equal to group size".to_owned(),
            ));
        }
        if splits.iter().sum::<usize>() != rows {
            return Err(DistError::runtime(
                "Split sizes doesn't match total dim 0 size".to_owned(),
            ));
        }
        Ok(())
    }
}

fn shown(sizes: &[i64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
    format!("({})", sizes.join(", "))
}
