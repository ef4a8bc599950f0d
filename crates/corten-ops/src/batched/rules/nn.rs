//! Layers and losses.

use super::{Batch, first, items, leading, map_all, place, pointwise, tensors};
use crate::boxed::{IValue, Stack};
use crate::{Tensor, op};
use corten_core::{DType, Result, ensure};

/// Operators on samples: the items are more of them.
pub(crate) fn fold(batch: &Batch, stack: &mut Stack) -> Result<()> {
    // The number of spatial dimensions is part of the name: avg_pool2d.
    let name = batch.op.def().name;
    let spatial = [('1', 1), ('2', 2), ('3', 3)]
        .into_iter()
        .find(|(digit, _)| name.contains(&format!("{digit}d")));
    let full = spatial.map_or(2, |(_, count)| count) + 2;
    let rank = first(stack)?.dim();
    let folded = rank == full;
    if !folded && rank + 1 != full {
        return items(batch, stack);
    }
    if tensors(stack).iter().any(|tensor| tensor.dim() != rank) {
        return items(batch, stack);
    }
    map_all(stack, |tensor| {
        let value = batch.front_expanded(tensor)?;
        if folded { op::flatten_using_ints(&value, 0, 1) } else { Ok(value) }
    })?;
    batch.op.call_boxed(stack)?;
    if folded {
        unfold(batch, stack)?;
    }
    batch.wrap_results(stack)
}

/// Splits the samples of results into items again.
fn unfold(batch: &Batch, stack: &mut Stack) -> Result<()> {
    map_all(stack, |result| {
        let mut sizes = vec![batch.size, result.size(0)? / batch.size.max(1)];
        sizes.extend_from_slice(&result.sizes()[1..]);
        op::reshape(result, &sizes)
    })
}

/// `convolution`: items with weights of their own are groups.
pub(crate) fn convolution(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let (input, weight): (&Tensor, &Tensor) = (stack[0].get()?, stack[1].get()?);
    let bias: Option<&Tensor> = stack[2].get()?;
    let own_bias = bias.is_some_and(|bias| batch.has(bias));
    let transposed: bool = stack[6].get()?;
    if batch.size == 0 || (transposed && batch.has(weight)) || input.dim() != weight.dim() {
        return items(batch, stack);
    }
    if !batch.has(weight) && !own_bias {
        stack[0] = op::flatten_using_ints(&batch.front(input)?, 0, 1)?.into();
        batch.op.call_boxed(stack)?;
        unfold(batch, stack)?;
        return batch.wrap_results(stack);
    }
    if transposed {
        return items(batch, stack);
    }
    // (items, samples, channels, …) → (samples, items · channels, …)
    let samples = op::movedim_int(&batch.front_expanded(input)?, 0, 1)?;
    let weights = op::flatten_using_ints(&batch.front_expanded(weight)?, 0, 1)?;
    let biases = bias.map(|bias| op::flatten_using_ints(&batch.front_expanded(bias)?, 0, 1));
    let groups: i64 = stack[8].get()?;
    stack[0] = op::flatten_using_ints(&samples, 1, 2)?.into();
    stack[1] = weights.into();
    stack[2] = biases.transpose()?.into();
    stack[8] = (groups * batch.size).into();
    batch.op.call_boxed(stack)?;
    map_all(stack, |result| {
        let sizes = result.sizes();
        let mut split = vec![sizes[0], batch.size, sizes[1] / batch.size];
        split.extend_from_slice(&sizes[2..]);
        op::movedim_int(&op::reshape(result, &split)?, 1, 0)
    })?;
    batch.wrap_results(stack)
}

/// Layer normalisation: weights of the items' own are applied to the normalised values.
pub(crate) fn layer_norm(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let weight: Option<Tensor> = stack[2].get::<Option<&Tensor>>()?.cloned();
    let bias: Option<Tensor> = stack[3].get::<Option<&Tensor>>()?.cloned();
    if !weight.iter().chain(&bias).any(|tensor| batch.has(tensor)) {
        return leading(batch, stack);
    }
    stack[2] = IValue::None;
    stack[3] = IValue::None;
    batch.op.call_boxed(stack)?;
    let mut result = stack[0].get::<&Tensor>()?.clone();
    if let Some(weight) = weight {
        result = op::mul_tensor(&result, &weight)?;
    }
    if let Some(bias) = bias {
        result = op::add_tensor(&result, &bias, 1.into())?;
    }
    stack[0] = result.into();
    Ok(())
}

/// Batch normalisation: running statistics are written, so they must be the items' own.
pub(crate) fn batch_norm(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let training = matches!(stack[5], IValue::Bool(true));
    for running in [3, 4].map(|place| stack[place].get::<Option<&Tensor>>()) {
        let shared = running?.is_some_and(|running| !batch.has(running));
        ensure!(
            !(training && shared && batch.has(first(stack)?)),
            Runtime,
            "Batch norm got a batched tensor as input while the running_mean or running_var, which \
             will be updated in place, were not batched.\nIf you are using a module and do not \
             need eval mode, please set `track_running_stats` to be False."
        );
    }
    items(batch, stack)
}

/// Losses of elements, reduced for every item.
pub(crate) fn loss(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let Some(place) = place(batch, "reduction") else { return items(batch, stack) };
    let reduction: i64 = stack[place].get()?;
    stack[place] = 0.into();
    pointwise(batch, stack)?;
    let result = reduced(first(stack)?, reduction)?;
    stack.replace(result);
    Ok(())
}

fn reduced(losses: &Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        1 => op::mean(losses, None),
        2 => op::sum(losses, None),
        _ => Ok(losses.clone()),
    }
}

/// The gradients of such losses.
pub(crate) fn loss_backward(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let Some(place) = place(batch, "reduction") else { return items(batch, stack) };
    let reduction: i64 = stack[place].get()?;
    stack[place] = 0.into();
    pointwise(batch, stack)?;
    let gradient = first(stack)?.clone();
    if reduction == 1 {
        let count = gradient.numel();
        stack.replace(op::div_scalar(&gradient, count.into())?);
    }
    Ok(())
}

/// The negative log-likelihood of classes: the items are more samples.
pub(crate) fn nll_loss(batch: &Batch, stack: &mut Stack) -> Result<()> {
    let (scores, target): (&Tensor, &Tensor) = (stack[0].get()?, stack[1].get()?);
    let weight: Option<Tensor> = stack[2].get::<Option<&Tensor>>()?.cloned();
    let (reduction, ignored): (i64, i64) = (stack[3].get()?, stack[4].get()?);
    let several = scores.dim() == 2;
    let wrong = several != (target.dim() == 1) || scores.dim() == 0;
    if wrong || weight.as_ref().is_some_and(|weight| batch.has(weight)) {
        return items(batch, stack);
    }
    let rows = |tensor: &Tensor| {
        let value = batch.front_expanded(tensor)?;
        if several { op::flatten_using_ints(&value, 0, 1) } else { Ok(value) }
    };
    let dtype = scores.dtype();
    let (scores, classes) = (rows(scores)?, rows(target)?);
    let (losses, none) = op::nll_loss_forward(&scores, &classes, weight.as_ref(), 0, ignored)?;
    let mut results: Stack = [losses.into()].into_iter().collect();
    if several {
        unfold(batch, &mut results)?;
    }
    batch.wrap_results(&mut results)?;
    let losses = first(&results)?.clone();
    if reduction == 0 {
        stack.replace((losses, none));
        return Ok(());
    }
    let total = total_weight(target, weight.as_ref(), ignored, dtype)?;
    let sum = op::sum(&losses, None)?;
    let result = if reduction == 1 { op::div_tensor(&sum, &total)? } else { sum };
    stack.replace((result, total));
    Ok(())
}

/// The weights of the classes that count, in terms of items.
fn total_weight(
    target: &Tensor,
    weight: Option<&Tensor>,
    ignored: i64,
    dtype: DType,
) -> Result<Tensor> {
    let counts = op::ne_scalar(target, ignored.into())?;
    let counts = op::to_dtype(&counts, dtype, false, false, None)?;
    let weights = match weight {
        Some(weight) => {
            let safe =
                op::masked_fill_scalar(target, &op::eq_scalar(target, ignored.into())?, 0.into())?;
            let safe = op::to_dtype(&safe, DType::Int64, false, false, None)?;
            op::mul_tensor(&op::index_tensor(weight, &[Some(safe)])?, &counts)?
        }
        None => counts,
    };
    op::sum(&weights, None)
}
