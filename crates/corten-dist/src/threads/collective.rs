//! Running a collective that all threads have joined.

use corten_ops::Tensor;

use crate::engine::Call;
use crate::error::{DistError, Result};
use crate::memory::{copy_bytes, flat, part};
use crate::reduce_op::ReduceOp;
use crate::reduction::reduce;

/// What each rank's call has, in the order of ranks; the calls are of one kind.
macro_rules! each {
    ($calls:expr, $pattern:pat => $value:expr) => {
        $calls
            .iter()
            .map(|call| match call {
                $pattern => Ok($value),
                other => Err(DistError::runtime(format!("unexpected {}", other.name()))),
            })
            .collect::<Result<Vec<_>>>()?
    };
}

/// Runs a collective: one call of each rank, in the order of ranks.
pub(super) fn run(calls: &[Call]) -> Result<()> {
    let Some(first) = calls.first() else { return Ok(()) };
    for (rank, call) in calls.iter().enumerate() {
        if std::mem::discriminant(call) != std::mem::discriminant(first) {
            return Err(mismatch(rank, "calls", first.name(), call.name()));
        }
    }
    check_agreement(calls)?;
    match first {
        Call::AllReduce { .. } => all_reduce(calls),
        Call::Broadcast { root, .. } => {
            let tensors = each!(calls, Call::Broadcast { tensor, .. } => tensor);
            tensors.iter().try_for_each(|tensor| copy_bytes(tensor, tensors[*root]))
        }
        Call::Reduce { root, .. } => {
            let inputs = each!(calls, Call::Reduce { tensor, op, .. } => (flat(tensor)?, op));
            let tensors = each!(calls, Call::Reduce { tensor, .. } => tensor);
            copy_bytes(tensors[*root], &reduce(&inputs)?)
        }
        Call::AllGather { .. } => all_gather(calls),
        Call::AllGatherInto { .. } => all_gather_into(calls),
        Call::Gather { root, .. } => {
            let inputs = each!(calls, Call::Gather { input, .. } => input);
            let outputs = each!(calls, Call::Gather { outputs, .. } => outputs);
            copy_all(outputs[*root], &inputs)
        }
        Call::Scatter { root, .. } => {
            let outputs = each!(calls, Call::Scatter { output, .. } => output);
            let inputs = each!(calls, Call::Scatter { inputs, .. } => inputs);
            let pairs = outputs.iter().zip(inputs[*root]);
            pairs.into_iter().try_for_each(|(output, input)| copy_bytes(output, input))
        }
        Call::ReduceScatter { .. } | Call::ReduceScatterInto { .. } => reduce_scatter(calls),
        Call::AllToAll { .. } => {
            let inputs = each!(calls, Call::AllToAll { inputs, .. } => inputs);
            let outputs = each!(calls, Call::AllToAll { outputs, .. } => outputs);
            for (rank, outputs) in outputs.iter().enumerate() {
                let sent: Vec<&Tensor> = inputs.iter().map(|inputs| &inputs[rank]).collect();
                copy_all(outputs, &sent)?;
            }
            Ok(())
        }
        Call::AllToAllBase { .. } => all_to_all_base(calls),
        Call::Barrier { .. } => Ok(()),
        Call::Send { .. } | Call::Recv { .. } | Call::RecvAny { .. } | Call::Batch(_) => {
            Err(DistError::runtime(format!("{} is no collective", first.name())))
        }
    }
}

fn mismatch(rank: usize, what: &str, first: &str, other: &str) -> DistError {
    DistError::runtime(format!(
        "Detected mismatch between collectives on ranks: rank 0 {what} {first}, rank {rank} {what} \
         {other}"
    ))
}

/// What the ranks must say alike: a root, a reduction, the dtype, and the size where all have one.
fn check_agreement(calls: &[Call]) -> Result<()> {
    let facts: Vec<Vec<(&str, String)>> = calls.iter().map(facts).collect();
    for (rank, theirs) in facts.iter().enumerate() {
        for ((what, first), (_, other)) in facts[0].iter().zip(theirs) {
            if first != other {
                return Err(mismatch(rank, what, first, other));
            }
        }
    }
    Ok(())
}

fn facts(call: &Call) -> Vec<(&'static str, String)> {
    let dtype = |tensor: &Tensor| ("has dtype", tensor.dtype().to_string());
    let count = |tensor: &Tensor| ("has elements:", tensor.numel().to_string());
    let root = |root: &usize| ("has root", root.to_string());
    let reduction = |op: &ReduceOp| ("reduces by", op.name().to_owned());
    match call {
        Call::AllReduce { tensor, op } => vec![dtype(tensor), count(tensor), reduction(op)],
        Call::Broadcast { tensor, root: from } => vec![dtype(tensor), count(tensor), root(from)],
        Call::Reduce { tensor, root: to, op } => {
            vec![dtype(tensor), count(tensor), root(to), reduction(op)]
        }
        Call::AllGather { input, .. } => vec![dtype(input)],
        Call::AllGatherInto { input, .. } => vec![dtype(input), count(input)],
        Call::Gather { input, root: to, .. } => vec![dtype(input), root(to)],
        Call::Scatter { output, root: from, .. } => vec![dtype(output), root(from)],
        Call::ReduceScatter { output, op, .. } => vec![dtype(output), reduction(op)],
        Call::ReduceScatterInto { output, op, .. } => {
            vec![dtype(output), count(output), reduction(op)]
        }
        Call::AllToAllBase { input, .. } => vec![dtype(input)],
        _ => Vec::new(),
    }
}

/// Copies tensors to others, which have the sizes of these.
fn copy_all(outputs: &[Tensor], inputs: &[&Tensor]) -> Result<()> {
    for (rank, (output, input)) in outputs.iter().zip(inputs).enumerate() {
        if output.numel() != input.numel() || output.dtype() != input.dtype() {
            return Err(DistError::runtime(format!(
                "rank {rank} gives {} elements of {} for an output of {} elements of {}",
                input.numel(),
                input.dtype(),
                output.numel(),
                output.dtype()
            )));
        }
        copy_bytes(output, input)?;
    }
    Ok(())
}

fn all_reduce(calls: &[Call]) -> Result<()> {
    let inputs = each!(calls, Call::AllReduce { tensor, op } => (flat(tensor)?, op));
    let result = reduce(&inputs)?;
    inputs.iter().try_for_each(|(tensor, _)| copy_bytes(tensor, &result))
}

fn all_gather(calls: &[Call]) -> Result<()> {
    let inputs = each!(calls, Call::AllGather { input, .. } => input);
    let outputs = each!(calls, Call::AllGather { outputs, .. } => outputs);
    outputs.iter().try_for_each(|outputs| copy_all(outputs, &inputs))
}

fn all_gather_into(calls: &[Call]) -> Result<()> {
    let inputs = each!(calls, Call::AllGatherInto { input, .. } => input);
    let outputs = each!(calls, Call::AllGatherInto { output, .. } => output);
    for output in outputs {
        for (rank, input) in inputs.iter().enumerate() {
            let count = input.numel() as usize;
            copy_bytes(&part(output, rank * count, count)?, input)?;
        }
    }
    Ok(())
}

/// All results are computed before one is written, since an output may be a part of an input.
fn reduce_scatter(calls: &[Call]) -> Result<()> {
    let mut results = Vec::with_capacity(calls.len());
    for rank in 0..calls.len() {
        let parts = calls.iter().map(|call| match call {
            Call::ReduceScatter { inputs, op, .. } => Ok((flat(&inputs[rank])?, op)),
            Call::ReduceScatterInto { output, input, op } => {
                let count = output.numel() as usize;
                Ok((part(input, rank * count, count)?, op))
            }
            other => Err(DistError::runtime(format!("unexpected {}", other.name()))),
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        check_parts(rank, &parts)?;
        results.push(reduce(&parts)?);
    }
    for (call, result) in calls.iter().zip(&results) {
        call.outputs().iter().try_for_each(|output| copy_bytes(output, result))?;
    }
    Ok(())
}

fn check_parts(rank: usize, parts: &[(Tensor, &ReduceOp)]) -> Result<()> {
    let count = parts.first().map_or(0, |(part, _)| part.numel());
    match parts.iter().position(|(part, _)| part.numel() != count) {
        Some(other) => Err(DistError::runtime(format!(
            "reduce_scatter: for rank {rank}, rank 0 gives {count} elements and rank {other} gives {}",
            parts[other].0.numel()
        ))),
        None => Ok(()),
    }
}

fn all_to_all_base(calls: &[Call]) -> Result<()> {
    for (to, call) in calls.iter().enumerate() {
        let Call::AllToAllBase { output, output_splits, .. } = call else { continue };
        let mut place = 0;
        for (from, call) in calls.iter().enumerate() {
            let Call::AllToAllBase { input, input_splits, .. } = call else { continue };
            let row = row_length(input);
            let start = input_splits[..from_index(to, input_splits)].iter().sum::<usize>() * row;
            let count = input_splits[to] * row;
            let want = output_splits[from] * row_length(output);
            if want != count {
                return Err(DistError::runtime(format!(
                    "alltoall_base: rank {to} expects {want} elements of rank {from}, which sends \
                     {count}"
                )));
            }
            copy_bytes(&part(output, place, count)?, &part(input, start, count)?)?;
            place += count;
        }
    }
    Ok(())
}

fn from_index(to: usize, splits: &[usize]) -> usize {
    to.min(splits.len())
}

/// How many elements a row of the first dimension has.
fn row_length(tensor: &Tensor) -> usize {
    tensor.sizes().iter().skip(1).map(|&size| size as usize).product()
}
