//! Bringing gradients to the shape, dtype and device of what they belong to.

use crate::node::{Edge, Grads, InputMetadata};
use crate::saved::display_sizes;
use corten_core::{Error, Result, bail, err};
use corten_ops::{Tensor, op};

/// Checks one gradient per edge, and adapts those that may be adapted: broadcast dimensions are
/// summed, the real part is taken for real inputs, the dtype is cast.
///
/// # Errors
/// For a wrong number of gradients, shapes that do not fit and other devices. `function` names
/// the node in the message; it is empty for the roots of a pass.
pub(crate) fn validate_outputs(edges: &[Edge], grads: &mut Grads, function: &str) -> Result<()> {
    if grads.len() != edges.len() {
        let (expected, got) = (edges.len(), grads.len());
        let message = format!("invalid number of gradients - expected {expected}, but got {got}");
        return Err(invalid(function, &message));
    }
    for (nr, (edge, grad)) in edges.iter().zip(grads.iter_mut()).enumerate() {
        let Some(node) = &edge.node else {
            *grad = Tensor::undefined();
            continue;
        };
        if !grad.defined() {
            continue;
        }
        if let Some(metadata) = node.input_metadata().get(edge.nr as usize) {
            validate(metadata, grad, nr, function)?;
        }
    }
    Ok(())
}

fn validate(metadata: &InputMetadata, grad: &mut Tensor, nr: usize, function: &str) -> Result<()> {
    if !metadata.is_defined() {
        return Ok(());
    }
    if grad.sizes()[..] != metadata.sizes()[..] {
        if !is_expandable_to(metadata.sizes(), &grad.sizes()) {
            let message = format!(
                "invalid gradient at index {nr} - got {} but expected shape compatible with {}",
                display_sizes(&grad.sizes()),
                display_sizes(metadata.sizes())
            );
            return Err(invalid(function, &message));
        }
        *grad = sum_to(grad, metadata.sizes())?;
    }
    if grad.dtype() != metadata.dtype && !metadata.any_dtype {
        *grad = cast(grad, metadata)?;
    }
    if grad.device() != metadata.device {
        if grad.dim() != 0 {
            let (expected, got) = (metadata.device, grad.device());
            let message = format!(
                "invalid gradient at index {nr} - expected device {expected} but got {got}"
            );
            return Err(invalid(function, &message));
        }
        *grad = op::to_device(grad, metadata.device, metadata.dtype, false, false, None)?;
    }
    Ok(())
}

fn cast(grad: &Tensor, metadata: &InputMetadata) -> Result<Tensor> {
    if grad.dtype().is_complex() && !metadata.dtype.is_complex() {
        let real = op::real(grad)?;
        if real.dtype() == metadata.dtype {
            return Ok(real);
        }
        return op::to_dtype(&real, metadata.dtype, false, false, None);
    }
    op::to_dtype(grad, metadata.dtype, false, false, None)
}

#[cold]
fn invalid(function: &str, message: &str) -> Error {
    if function.is_empty() {
        err!(Runtime, "{message}")
    } else {
        err!(Runtime, "Function {function} returned an {message}")
    }
}

/// Whether `shape` broadcasts to `desired`.
pub(crate) fn is_expandable_to(shape: &[i64], desired: &[i64]) -> bool {
    shape.len() <= desired.len()
        && shape.iter().rev().zip(desired.iter().rev()).all(|(&from, &to)| from == to || from == 1)
}

/// Sums the dimensions along which `shape` was broadcast to that of `tensor`.
///
/// # Errors
/// When `shape` does not broadcast to the tensor's.
pub(crate) fn sum_to(tensor: &Tensor, shape: &[i64]) -> Result<Tensor> {
    let sizes = tensor.sizes();
    if sizes.len() < shape.len() {
        bail!(Internal, "cannot sum {} to {}", display_sizes(&sizes), display_sizes(shape));
    }
    let leading = sizes.len() - shape.len();
    let broadcast = |dim: &usize| shape[*dim - leading] == 1 && sizes[*dim] != 1;
    let kept = (leading..sizes.len()).filter(broadcast);
    let dims: Vec<i64> = (0..leading).chain(kept).map(|dim| dim as i64).collect();
    let summed = if dims.is_empty() {
        tensor.clone()
    } else {
        op::sum_dim_intlist(tensor, Some(&dims), true, None)?
    };
    if leading > 0 { op::view(&summed, shape) } else { Ok(summed) }
}
