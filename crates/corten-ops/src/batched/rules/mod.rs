//! Rules: how an operator on items becomes one on batches. A declaration names its rule.

mod dims;
mod index;
mod items;
mod matmul;
mod nn;
mod pointwise;
mod reduce;
mod reshaped;
mod shape;

pub(crate) use dims::{dims, dims_of_result, indexed, leading, view_backward};
pub(crate) use index::{embedding, index};
pub(crate) use items::{copied_items, items, same_numbers};
pub(crate) use matmul::matmul;
pub(crate) use nn::{batch_norm, convolution, fold, layer_norm, loss, loss_backward, nll_loss};
pub(crate) use pointwise::{filled, like, pointwise};
pub(crate) use reduce::{full, reduce};
pub(crate) use reshaped::reshaped;
pub(crate) use shape::{
    as_strided, cat, expand, permute, repeat, reshape_alias, size, squeeze, stack, t,
};

use super::kernel::{Batch, first, map};
use crate::Tensor;
use crate::boxed::{IValue, Stack};
use corten_core::Result;

/// Where the argument of that name is.
fn place(batch: &Batch, name: &str) -> Option<usize> {
    batch.op.schema().arguments.iter().position(|argument| argument.name == name)
}

/// The tensors of the arguments.
fn tensors(stack: &Stack) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    stack.iter().for_each(|value| value.for_each_tensor(&mut |t| tensors.push(t.clone())));
    tensors
}

/// Replaces every tensor of the arguments.
fn map_all(stack: &mut Stack, mut replace: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<()> {
    stack.iter_mut().try_for_each(|value| map(value, &mut replace))
}

/// Inserts dimensions of size 1 behind the first until the tensor has `rank` others.
fn padded(value: Tensor, rank: usize) -> Result<Tensor> {
    let mut value = value;
    while value.dim() < rank + 1 {
        value = crate::op::unsqueeze(&value, 1)?;
    }
    Ok(value)
}

/// A list of sizes with the number of items in front.
fn with_items(batch: &Batch, sizes: &[i64]) -> IValue {
    let mut all = vec![batch.size];
    all.extend_from_slice(sizes);
    all.into()
}
