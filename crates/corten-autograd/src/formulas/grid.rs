//! Gradients of values at the points of a grid.

use corten_core::Result;
use corten_ops::{Tensor, op};

/// Gradients of the input and of the grid.
///
/// # Errors
/// Those of the operators.
pub fn grid_sampler_2d_grads(
    needs: &[bool],
    grad: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Vec<Tensor>> {
    let (mode, padding) = (interpolation_mode, padding_mode);
    let (a, b) =
        op::grid_sampler_2d_backward(grad, input, grid, mode, padding, align_corners, needs)?;
    Ok(vec![a, b])
}

/// Gradients of the input and of the grid.
///
/// # Errors
/// Those of the operators.
pub fn grid_sampler_3d_grads(
    needs: &[bool],
    grad: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Vec<Tensor>> {
    let (mode, padding) = (interpolation_mode, padding_mode);
    let (a, b) =
        op::grid_sampler_3d_backward(grad, input, grid, mode, padding, align_corners, needs)?;
    Ok(vec![a, b])
}
