//! Ways to put tensors together that come down to `cat`.

use crate::{Tensor, op};
use corten_core::{Result, ensure};

/// The same as `cat`.
pub fn concat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    op::cat(tensors, dim)
}

fn not_empty(name: &str, tensors: &[Tensor]) -> Result<()> {
    ensure!(!tensors.is_empty(), Runtime, "{name} expects a non-empty TensorList");
    Ok(())
}

/// The tensor with at least `rank` dimensions, as numpy's `atleast_1d`, `_2d` and `_3d` do.
fn lift(tensor: &Tensor, rank: usize) -> Result<Tensor> {
    match (rank, tensor.dim()) {
        (1, 0) => op::reshape(tensor, &[1]),
        (2, 0) => op::reshape(tensor, &[1, 1]),
        (2, 1) => op::unsqueeze(tensor, 0),
        (3, 0) => op::reshape(tensor, &[1, 1, 1]),
        (3, 1) => op::unsqueeze(&op::unsqueeze(tensor, 0)?, -1),
        (3, 2) => op::unsqueeze(tensor, -1),
        _ => Ok(tensor.clone()),
    }
}

fn at_least(tensors: &[Tensor], rank: usize) -> Result<Vec<Tensor>> {
    tensors.iter().map(|tensor| lift(tensor, rank)).collect()
}

/// Tensors side by side.
pub fn hstack(tensors: &[Tensor]) -> Result<Tensor> {
    not_empty("hstack", tensors)?;
    let lifted = at_least(tensors, 1)?;
    op::cat(&lifted, if lifted[0].dim() == 1 { 0 } else { 1 })
}

/// Tensors below each other.
pub fn vstack(tensors: &[Tensor]) -> Result<Tensor> {
    not_empty("vstack", tensors)?;
    op::cat(&at_least(tensors, 2)?, 0)
}

/// Tensors behind each other.
pub fn dstack(tensors: &[Tensor]) -> Result<Tensor> {
    not_empty("dstack", tensors)?;
    op::cat(&at_least(tensors, 3)?, 2)
}

/// Tensors side by side, vectors as columns.
pub fn column_stack(tensors: &[Tensor]) -> Result<Tensor> {
    not_empty("column_stack", tensors)?;
    let as_column = |tensor: &Tensor| match tensor.dim() {
        0 | 1 => op::reshape(tensor, &[tensor.numel(), 1]),
        _ => Ok(tensor.clone()),
    };
    let columns = tensors.iter().map(as_column).collect::<Result<Vec<_>>>()?;
    op::hstack(&columns)
}

/// The tensor with rank 1 at least.
///
/// # Errors
/// `OutOfMemory`.
pub fn atleast_1d(self_: &Tensor) -> Result<Tensor> {
    lift(self_, 1)
}

/// The tensors with rank 1 at least.
///
/// # Errors
/// `OutOfMemory`.
pub fn atleast_1d_sequence(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    at_least(tensors, 1)
}

/// The tensor with rank 2 at least.
///
/// # Errors
/// `OutOfMemory`.
pub fn atleast_2d(self_: &Tensor) -> Result<Tensor> {
    lift(self_, 2)
}

/// The tensors with rank 2 at least.
///
/// # Errors
/// `OutOfMemory`.
pub fn atleast_2d_sequence(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    at_least(tensors, 2)
}

/// The tensor with rank 3 at least.
///
/// # Errors
/// `OutOfMemory`.
pub fn atleast_3d(self_: &Tensor) -> Result<Tensor> {
    lift(self_, 3)
}

/// The tensors with rank 3 at least.
///
/// # Errors
/// `OutOfMemory`.
pub fn atleast_3d_sequence(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    at_least(tensors, 3)
}
