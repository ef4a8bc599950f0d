//! Gradients of batched tensors: those of their values.

use crate::api::{BackwardOptions, grad};
use corten_core::{Dims, MemoryFormat, Result, ensure};
use corten_ops::batched::{Batched, enclose, expose, of};
use corten_ops::{Tensor, op};

/// The highest level of these tensors.
pub(crate) fn highest<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Option<u64> {
    tensors.filter_map(|tensor| of(tensor).map(|found| found.level)).max()
}

/// [`grad`] with one level of batching taken off outputs and inputs.
pub(crate) fn grad_at(
    level: u64,
    outputs: &[Tensor],
    inputs: &[Tensor],
    grad_outputs: Option<&[Option<Tensor>]>,
    options: BackwardOptions,
    allow_unused: Option<bool>,
    materialize_grads: bool,
) -> Result<Vec<Option<Tensor>>> {
    let at = |tensor: &Tensor| of(tensor).filter(|found| found.level == level);
    let value = |tensor: &Tensor| at(tensor).map_or_else(|| tensor.clone(), |found| found.value);
    let batched = outputs.iter().any(|output| at(output).is_some());
    let mixed = inputs.iter().any(|input| at(input).is_none());
    ensure!(
        !(batched && mixed),
        Runtime,
        "vmap: the gradient of a batched tensor with respect to one that is the same for all items \
         is their sum, not one for each. Please make the tensor an argument of the function, or \
         use func.grad"
    );
    let mut vectors = Vec::new();
    for (place, output) in outputs.iter().enumerate() {
        let given = grad_outputs.and_then(|all| all.get(place)).and_then(Option::as_ref);
        vectors.push(match (at(output), given) {
            (Some(found), given) => Some(aligned(&found, output, given, level)?),
            (None, given) => given.cloned(),
        });
    }
    let values: Vec<Tensor> = outputs.iter().map(value).collect();
    let leaves: Vec<Tensor> = inputs.iter().map(value).collect();
    let found = grad(&values, &leaves, Some(&vectors), options, allow_unused, materialize_grads)?;
    let enclosed = found.into_iter().zip(inputs).map(|(gradient, input)| match at(input) {
        Some(place) => gradient.map(|gradient| enclose(&gradient, place.dim, level)).transpose(),
        None => Ok(gradient),
    });
    enclosed.collect()
}

/// The gradient of an output with the items where the output's value has them.
fn aligned(found: &Batched, output: &Tensor, given: Option<&Tensor>, level: u64) -> Result<Tensor> {
    let Some(given) = given.filter(|given| given.defined()) else {
        ensure!(
            output.numel() == 1,
            Runtime,
            "grad can be implicitly created only for scalar outputs"
        );
        return op::ones_like(
            &found.value,
            None,
            None,
            None,
            Some(false),
            Some(MemoryFormat::Preserve),
        );
    };
    let dim = found.dim as i64;
    match expose(given, level)? {
        (value, Some(place)) if place == found.dim => Ok(value),
        (value, Some(place)) => op::movedim_int(&value, place as i64, dim),
        (value, None) => {
            let sizes: Dims = found.value.sizes();
            let fits = value.sizes() == output.sizes();
            ensure!(
                fits,
                Runtime,
                "Mismatch in shape: grad_output has a shape of torch.Size({}) and output has a \
                 shape of torch.Size({}).",
                crate::saved::display_sizes(&value.sizes()),
                crate::saved::display_sizes(&output.sizes())
            );
            op::expand(&op::unsqueeze(&value, dim)?, &sizes, false)
        }
    }
}
