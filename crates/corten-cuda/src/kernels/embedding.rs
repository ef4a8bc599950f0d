//! Rows of a table by index, and the gradient of the table.

use crate::indexing::{Combine, Scattered, along, gather_into, index_on, scatter_into};
use crate::operands::{empty, on_meta, zeros};
use corten_core::{DType, Result};
use corten_ops::{Tensor, op};

/// The rows of `weight` that `indices` name.
///
/// # Errors
/// Those of the CPU's checks; an index out of bounds is reported later.
pub fn embedding(
    weight: &Tensor,
    indices: &Tensor,
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    let (table, which) = (on_meta(weight)?, on_meta(indices)?);
    let planned = op::embedding(&table, &which, padding_idx, scale_grad_by_freq, sparse)?;
    let out = empty(&planned.sizes(), weight.dtype(), weight)?;
    let rows = op::reshape(&index_on(weight, indices)?, &[-1])?;
    let index = along(&rows, &weight.sizes(), 0)?;
    let flat = op::view(&out, &[rows.numel(), weight.size(1)?])?;
    gather_into(&flat, weight, 0, &index)?;
    Ok(out)
}

/// The sums of the gradients of each row.
///
/// # Errors
/// As [`embedding`].
pub fn embedding_dense_backward(
    grad_output: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    let columns = grad_output.size(-1)?;
    let out = zeros(&[num_weights, columns], grad_output.dtype(), grad_output)?;
    let rows = op::reshape(&index_on(grad_output, indices)?, &[-1])?;
    let index = along(&rows, &out.sizes(), 0)?;
    let mut gradients = op::reshape(grad_output, &[rows.numel(), columns])?;
    if scale_grad_by_freq && rows.numel() > 0 {
        let counts = zeros(&[num_weights], DType::Float32, grad_output)?;
        let ones = op::ones_like(&rows, Some(DType::Float32), None, None, None, None)?;
        scatter_into(&counts, 0, &rows, &ones, &Scattered::by(Combine::Add))?;
        let own = op::unsqueeze(&op::index_select(&counts, 0, &rows)?, 1)?;
        gradients = op::div_tensor(
            &gradients,
            &op::to_dtype(&own, gradients.dtype(), false, false, None)?,
        )?;
    }
    let scattered = Scattered { skipped: padding_idx, ..Scattered::by(Combine::Add) };
    scatter_into(&out, 0, &index, &gradients, &scattered)?;
    Ok(out)
}
