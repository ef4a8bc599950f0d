//! Rows of a table by index, and the gradient of the table.

use crate::failure;
use crate::flat_launch::Flat;
use crate::indexing::{Combine, Scattered, along, gather_into, index_on, scatter_into};
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{contiguous, empty, on_meta, zeros};
use crate::text;
use corten_core::{Access, DType, Result, not_implemented_for};
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

static RENORM: Template = Template { name: "renorm_rows", text: &[text::INDEX, text::BAG] };

/// Scales the rows named by `indices` down to a norm of at most `max_norm`, in place.
///
/// # Errors
/// As [`embedding`].
pub fn embedding_renorm_(
    self_: &Tensor,
    indices: &Tensor,
    max_norm: f64,
    norm_type: f64,
) -> Result<Tensor> {
    op::embedding_renorm_(&on_meta(self_)?, &on_meta(indices)?, max_norm, norm_type)?;
    let dtype = self_.dtype();
    if !dtype.is_floating_point() || dtype.itemsize() == 1 {
        return Err(not_implemented_for("embedding_renorm_cuda_", dtype));
    }
    // Each row once.
    let rows = op::to_dtype(&op::reshape(indices, &[-1])?, DType::Int64, false, false, None)?;
    let rows = op::_unique2(&rows, true, false, false)?.0;
    let table = contiguous(self_)?;
    if rows.numel() > 0 && table.numel() > 0 {
        let tensors = [(&table, Access::Write), (&rows, Access::Read)];
        let (mut count, mut columns) = (self_.size(0)? as u64, self_.size(1)? as u64);
        let (mut most, mut p) = (max_norm, norm_type);
        let mut report = failure::address(self_.device().index)?;
        let of = [Argument::Storage(dtype), Argument::Value(dtype)];
        let call = Flat { template: &RENORM, of: &of, tensors: &tensors };
        let shape = Shape { grid: [rows.numel() as u32, 1, 1], block: [256, 1, 1], shared: 0 };
        let more = parameters!(count, columns, most, p, report);
        // SAFETY: both are contiguous; a block for each row, which is looked at before it is followed.
        unsafe { call.launch(shape, &mut [], more)? };
    }
    if !table.is_same(self_) {
        op::copy_(self_, &table, false)?;
    }
    Ok(self_.clone())
}
