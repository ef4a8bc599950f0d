//! Calls in Python: tuples of a name, outputs, inputs, reduction, factor, peer, tag, rows that come and go.

use corten_core::Device;
use corten_dist::{Call, Factor, ReduceOp};
use corten_ops::Tensor;

use super::values::{count, counts, tensors};
use crate::py::errors::{type_error, value_error};
use crate::py::{Obj, Py};
use crate::tensor;

/// The names and numbers of PyTorch's `ReduceOp.RedOpType`.
const REDUCTIONS: [&str; 9] =
    ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"];

/// The number of a reduction.
pub(super) fn reduction_number(op: &ReduceOp) -> i64 {
    REDUCTIONS.iter().position(|name| *name == op.name()).map_or(0, |number| number as i64)
}

/// The reduction of a number and a factor.
fn reduction(number: &Obj, factor: &Obj) -> Py<ReduceOp> {
    Ok(match number.to_i64()? {
        0 => ReduceOp::Sum,
        1 => ReduceOp::Avg,
        2 => ReduceOp::Product,
        3 => ReduceOp::Min,
        4 => ReduceOp::Max,
        5 => ReduceOp::BitAnd,
        6 => ReduceOp::BitOr,
        7 => ReduceOp::BitXor,
        8 => ReduceOp::PremulSum(match tensor::get(factor) {
            Some(factor) => Factor::Tensor(factor.clone()),
            None => Factor::Number(factor.to_f64()?),
        }),
        other => return Err(value_error(format!("ReduceOp {other} is not supported"))),
    })
}

/// The parts of a tuple.
struct Parts<'a> {
    items: &'a [Obj],
    outputs: Vec<Tensor>,
    inputs: Vec<Tensor>,
}

impl Parts<'_> {
    fn output(&mut self) -> Py<Tensor> {
        self.outputs.pop().ok_or_else(|| type_error("a call without its output"))
    }

    fn input(&mut self) -> Py<Tensor> {
        self.inputs.pop().ok_or_else(|| type_error("a call without its input"))
    }

    fn op(&self) -> Py<ReduceOp> {
        reduction(&self.items[3], &self.items[4])
    }

    fn peer(&self) -> Py<usize> {
        count(&self.items[5])
    }

    fn tag(&self) -> Py<i32> {
        let tag = self.items[6].to_i64()?;
        i32::try_from(tag).map_err(|_| value_error(format!("tag {tag} is out of range")))
    }
}

/// The GPU of a barrier, where one is said.
fn gpu(index: i32) -> Option<Device> {
    i8::try_from(index).ok().filter(|index| *index >= 0).map(Device::cuda)
}

/// The call of a tuple. The tag of a barrier is the index of its GPU, or negative.
pub(super) fn call_from(object: &Obj) -> Py<Call> {
    let items = object.items()?;
    if items.len() != 9 {
        return Err(type_error(format!("a call has 9 parts, not {}", items.len())));
    }
    let (outputs, inputs) = (tensors(&items[1])?, tensors(&items[2])?);
    let mut parts = Parts { items: &items, outputs, inputs };
    Ok(match items[0].as_str()? {
        "allreduce" => Call::AllReduce { tensor: parts.output()?, op: parts.op()? },
        "broadcast" => Call::Broadcast { tensor: parts.output()?, root: parts.peer()? },
        "reduce" => Call::Reduce { tensor: parts.output()?, root: parts.peer()?, op: parts.op()? },
        "allgather" => {
            let input = parts.input()?;
            Call::AllGather { outputs: parts.outputs, input }
        }
        "_allgather_base" => Call::AllGatherInto { output: parts.output()?, input: parts.input()? },
        "gather" => {
            let (input, root) = (parts.input()?, parts.peer()?);
            Call::Gather { outputs: parts.outputs, input, root }
        }
        "scatter" => {
            let (output, root) = (parts.output()?, parts.peer()?);
            Call::Scatter { output, inputs: parts.inputs, root }
        }
        "reduce_scatter" => {
            let (output, op) = (parts.output()?, parts.op()?);
            Call::ReduceScatter { output, inputs: parts.inputs, op }
        }
        "_reduce_scatter_base" => Call::ReduceScatterInto {
            output: parts.output()?,
            input: parts.input()?,
            op: parts.op()?,
        },
        "alltoall" => Call::AllToAll { outputs: parts.outputs, inputs: parts.inputs },
        "alltoall_base" => Call::AllToAllBase {
            output: parts.output()?,
            input: parts.input()?,
            output_splits: counts(&items[7])?,
            input_splits: counts(&items[8])?,
        },
        "send" => Call::Send { tensor: parts.input()?, to: parts.peer()?, tag: parts.tag()? },
        "recv" => Call::Recv { tensor: parts.output()?, from: parts.peer()?, tag: parts.tag()? },
        "recv_anysource" => Call::RecvAny { tensor: parts.output()?, tag: parts.tag()? },
        "barrier" => Call::Barrier { device: gpu(parts.tag()?) },
        other => return Err(value_error(format!("there is no call {other}"))),
    })
}
