//! Normalisation over rows, groups and batches, and the gradients.

use crate::channels::{
    Batch, Channels, Sources, Statistics, TEXT, apply, apply_backward, batch_layout, channel_sums,
    check_float, parameter, size, total, wide,
};
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, like_planned, on_meta, on_meta_opt};
use crate::stream::Stream;
use corten_core::{Access, DType, Result};
use corten_ops::{Tensor, op};

static ROWS: Template = Template { name: "norm_rows", text: TEXT };
static ROWS_BACKWARD: Template = Template { name: "norm_rows_backward", text: TEXT };

/// `NormRows` of `norm.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rows {
    len: u32,
    plane: u32,
    groups: u32,
}

/// A block per row.
fn row_blocks(rows: u32, len: u32, dtype: DType) -> Shape {
    let threads = len.max(1).next_power_of_two().clamp(32, 256);
    Shape {
        grid: [rows.max(1), 1, 1],
        block: [threads, 1, 1],
        shared: threads * wide(dtype).itemsize() as u32,
    }
}

/// Normalises rows; the results are of the planned sizes.
fn forward_rows(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    planned: &(Tensor, Tensor, Tensor),
    shape: Rows,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (dtype, own) = (input.dtype(), planned.1.dtype());
    let rows = size(planned.1.numel())?;
    let values = contiguous(input)?;
    let out = empty(&input.sizes(), dtype, input)?;
    let mean = empty(&planned.1.sizes(), own, input)?;
    let rstd = empty(&planned.2.sizes(), own, input)?;
    if rows == 0 {
        return Ok((out, mean, rstd));
    }
    let (weight, bias) = (parameter(weight, own)?, parameter(bias, own)?);
    if shape.len == 0 {
        return Ok((out, op::zero_(&mean)?, op::fill__scalar(&rstd, f64::NAN.into())?));
    }
    let held = Operands::hold(&[
        (&out, Access::Write),
        (&mean, Access::Write),
        (&rstd, Access::Write),
        (&values, Access::Read),
        (&weight, Access::Read),
        (&bias, Access::Read),
    ])?;
    let (mut to, mut mean_at, mut rstd_at) = (held.at(0), held.at(1), held.at(2));
    let (mut from, mut weight_at, mut bias_at) = (held.at(3), held.at(4), held.at(5));
    let (mut numbers, mut eps) = (shape, eps);
    let stream = Stream::current(input.device().index);
    let arguments = [Argument::Storage(dtype), Argument::Storage(own), Argument::Value(dtype)];
    // SAFETY: the tensors are contiguous, have the sizes that the shape tells, and are held.
    unsafe {
        let parameters = parameters!(numbers, eps, to, mean_at, rstd_at, from, weight_at, bias_at);
        ROWS.launch(&arguments, row_blocks(rows, shape.len, dtype), stream, parameters)?;
    }
    drop(held);
    Ok((out, mean, rstd))
}

/// The gradient of the input of normalised rows.
fn backward_rows(
    grad: &Tensor,
    values: &Tensor,
    (mean, rstd, weight): (&Tensor, &Tensor, &Tensor),
    shape: Rows,
) -> Result<Tensor> {
    let (dtype, own) = (values.dtype(), mean.dtype());
    let rows = size(mean.numel())?;
    let out = empty(&values.sizes(), dtype, values)?;
    if rows == 0 || shape.len == 0 {
        return Ok(out);
    }
    let held = Operands::hold(&[
        (&out, Access::Write),
        (grad, Access::Read),
        (values, Access::Read),
        (mean, Access::Read),
        (rstd, Access::Read),
        (weight, Access::Read),
    ])?;
    let (mut to, mut grad_at, mut from) = (held.at(0), held.at(1), held.at(2));
    let (mut mean_at, mut rstd_at, mut weight_at) = (held.at(3), held.at(4), held.at(5));
    let mut numbers = shape;
    let stream = Stream::current(values.device().index);
    let arguments = [Argument::Storage(dtype), Argument::Storage(own), Argument::Value(dtype)];
    // SAFETY: as in `forward_rows`.
    unsafe {
        let parameters = parameters!(numbers, to, grad_at, from, mean_at, rstd_at, weight_at);
        ROWS_BACKWARD.launch(&arguments, row_blocks(rows, shape.len, dtype), stream, parameters)?;
    }
    drop(held);
    Ok(out)
}

/// A tensor of the planned sizes, or an undefined one where nothing was planned.
fn as_planned(planned: &Tensor, like: &Tensor) -> Result<Tensor> {
    match planned.defined() {
        true => empty(&planned.sizes(), planned.dtype(), like),
        false => Ok(Tensor::undefined()),
    }
}

/// The normalised input, and the mean and inverse standard deviation of every row.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit; for the functions below likewise.
pub fn native_layer_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (first, second) = (on_meta_opt(weight)?, on_meta_opt(bias)?);
    let planned = op::native_layer_norm(
        &on_meta(input)?,
        normalized_shape,
        first.as_ref(),
        second.as_ref(),
        eps,
    )?;
    check_float(input, "LayerNormKernelImpl")?;
    let len = size(normalized_shape.iter().product())?;
    forward_rows(input, weight, bias, &planned, Rows { len, plane: 1, groups: 1 }, eps)
}

/// Gradients of [`native_layer_norm`] with respect to input, weight and bias.
pub fn native_layer_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    output_mask: &[bool],
) -> Result<(Tensor, Tensor, Tensor)> {
    let (first, second) = (on_meta_opt(weight)?, on_meta_opt(bias)?);
    let planned = op::native_layer_norm_backward(
        &on_meta(grad_out)?,
        &on_meta(input)?,
        normalized_shape,
        &on_meta(mean)?,
        &on_meta(rstd)?,
        first.as_ref(),
        second.as_ref(),
        output_mask,
    )?;
    check_float(input, "LayerNormBackwardKernelImpl")?;
    let (grad, values) = (contiguous(grad_out)?, contiguous(input)?);
    let own = mean.dtype();
    let (means, rstds) = (parameter(Some(mean), own)?, parameter(Some(rstd), own)?);
    let weights = parameter(weight, own)?;
    let len = size(normalized_shape.iter().product())?;
    let grad_input = match output_mask[0] {
        true => {
            let shape = Rows { len, plane: 1, groups: 1 };
            backward_rows(&grad, &values, (&means, &rstds, &weights), shape)?
        }
        false => Tensor::undefined(),
    };
    let (grad_weight, grad_bias) = (as_planned(&planned.1, input)?, as_planned(&planned.2, input)?);
    if output_mask[1] || output_mask[2] {
        let shape = Channels {
            outer: size(mean.numel())?,
            channels: len,
            inner: 1,
            parts: 1,
            per_outer: 1,
            per: 0,
        };
        let sources = Sources { values: &values, grad: &grad, means: &means, rstds: &rstds };
        let sums = channel_sums(&sources, shape.divided(), 2)?;
        total(&sums, &Tensor::undefined(), &grad_bias, &grad_weight)?;
    }
    Ok((grad_input, grad_weight, grad_bias))
}

/// The tensor in the memory format of the planned one.
fn in_planned_format(tensor: Tensor, planned: &Tensor) -> Result<Tensor> {
    if !tensor.defined() || tensor.strides() == planned.strides() {
        return Ok(tensor);
    }
    let out = like_planned(planned, &tensor)?;
    op::copy_(&out, &tensor, false)
}

/// The normalised input, and the mean and inverse standard deviation of every group.
pub fn native_group_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (first, second) = (on_meta_opt(weight)?, on_meta_opt(bias)?);
    let (first, second) = (first.as_ref(), second.as_ref());
    let planned = op::native_group_norm(&on_meta(input)?, first, second, n, c, hxw, group, eps)?;
    check_float(input, "GroupNormKernelImpl")?;
    let shape = Rows { len: size(c / group * hxw)?, plane: size(hxw)?, groups: size(group)? };
    let (out, mean, rstd) = forward_rows(input, weight, bias, &planned, shape, eps)?;
    Ok((in_planned_format(out, &planned.0)?, mean, rstd))
}

/// Gradients of [`native_group_norm`] with respect to input, weight and bias.
pub fn native_group_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    output_mask: &[bool],
) -> Result<(Tensor, Tensor, Tensor)> {
    let first = on_meta_opt(weight)?;
    let planned = op::native_group_norm_backward(
        &on_meta(grad_out)?,
        &on_meta(input)?,
        &on_meta(mean)?,
        &on_meta(rstd)?,
        first.as_ref(),
        n,
        c,
        hxw,
        group,
        output_mask,
    )?;
    check_float(input, "GroupNormBackwardKernelImpl")?;
    let (grad, values) = (contiguous(grad_out)?, contiguous(input)?);
    let own = mean.dtype();
    let (means, rstds) = (parameter(Some(mean), own)?, parameter(Some(rstd), own)?);
    let weights = parameter(weight, own)?;
    let grad_input = match output_mask[0] {
        true => {
            let shape =
                Rows { len: size(c / group * hxw)?, plane: size(hxw)?, groups: size(group)? };
            let out = backward_rows(&grad, &values, (&means, &rstds, &weights), shape)?;
            in_planned_format(out, &planned.0)?
        }
        false => Tensor::undefined(),
    };
    let (grad_weight, grad_bias) = (as_planned(&planned.1, input)?, as_planned(&planned.2, input)?);
    if output_mask[1] || output_mask[2] {
        let shape = Channels {
            outer: size(n)?,
            channels: size(c)?,
            inner: size(hxw)?,
            parts: 1,
            per_outer: size(group)?,
            per: size(c / group)?,
        };
        let sources = Sources { values: &values, grad: &grad, means: &means, rstds: &rstds };
        let sums = channel_sums(&sources, shape.divided(), 2)?;
        total(&sums, &Tensor::undefined(), &grad_bias, &grad_weight)?;
    }
    Ok((grad_input, grad_weight, grad_bias))
}

/// The normalised input, and the mean and inverse standard deviation of every channel (empty unless
/// `training`). Running statistics are updated in place when `training`.
pub fn native_batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let [a, b, c, d] = [weight, bias, running_mean, running_var].map(on_meta_opt);
    let (a, b, c, d) = (a?, b?, c?, d?);
    let planned = op::native_batch_norm(
        &on_meta(input)?,
        a.as_ref(),
        b.as_ref(),
        c.as_ref(),
        d.as_ref(),
        training,
        momentum,
        eps,
    )?;
    check_float(input, "batch_norm")?;
    let (shape, format) = batch_layout(input)?;
    let values = op::contiguous(input, format)?;
    let own = planned.1.dtype();
    let out = like_planned(&planned.0, input)?;
    let saved = (as_planned(&planned.1, input)?, as_planned(&planned.2, input)?);
    if out.numel() == 0 {
        return Ok((out, saved.0, saved.1));
    }
    let count = f64::from(shape.outer) * f64::from(shape.inner);
    let batch = Batch { count, eps, momentum };
    let statistics = match training {
        true => {
            let running = [running_mean, running_var];
            Statistics::of_batch(&values, shape, (&saved.0, &saved.1), running, batch)?
        }
        false => Statistics::of_running(running_mean, running_var, eps, wide(input.dtype()))?,
    };
    let (weight, bias) = (parameter(weight, own)?, parameter(bias, own)?);
    apply(&out, &values, shape, &statistics, (&weight, &bias))?;
    Ok((out, saved.0, saved.1))
}

/// Gradients of [`native_batch_norm`] with respect to input, weight and bias.
pub fn native_batch_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>,
    save_invstd: Option<&Tensor>,
    train: bool,
    eps: f64,
    output_mask: &[bool],
) -> Result<(Tensor, Tensor, Tensor)> {
    let [a, b, c, d, e] =
        [weight, running_mean, running_var, save_mean, save_invstd].map(on_meta_opt);
    let (a, b, c, d, e) = (a?, b?, c?, d?, e?);
    let planned = op::native_batch_norm_backward(
        &on_meta(grad_out)?,
        &on_meta(input)?,
        a.as_ref(),
        b.as_ref(),
        c.as_ref(),
        d.as_ref(),
        e.as_ref(),
        train,
        eps,
        output_mask,
    )?;
    check_float(input, "batch_norm_backward_cuda")?;
    let (shape, format) = batch_layout(input)?;
    let (grad, values) = (op::contiguous(grad_out, format)?, op::contiguous(input, format)?);
    let dtype = wide(input.dtype());
    let saved = (parameter(save_mean, dtype)?, parameter(save_invstd, dtype)?);
    let statistics = match train && saved.0.defined() && saved.1.defined() {
        true => Statistics { means: saved.0, rstds: saved.1 },
        false => Statistics::of_running(running_mean, running_var, eps, dtype)?,
    };
    let (means, rstds) = (&statistics.means, &statistics.rstds);
    let sums = channel_sums(&Sources { values: &values, grad: &grad, means, rstds }, shape, 2)?;
    let totals = empty(&[2, i64::from(shape.channels)], dtype, input)?;
    let (grad_weight, grad_bias) = (as_planned(&planned.1, input)?, as_planned(&planned.2, input)?);
    total(&sums, &totals, &grad_bias, &grad_weight)?;
    if !output_mask[0] {
        return Ok((Tensor::undefined(), grad_weight, grad_bias));
    }
    let out = like_planned(&planned.0, input)?;
    let count = f64::from(shape.outer) * f64::from(shape.inner);
    let share = if train { 1.0 / count } else { 0.0 };
    apply_backward(&out, [&grad, &values, &totals], &statistics, weight, shape, share)?;
    Ok((out, grad_weight, grad_bias))
}
