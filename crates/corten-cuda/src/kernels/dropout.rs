//! Dropout that keeps its mask, in one launch.

use super::random::policy;
use crate::generator::reserve;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::{Shape, THREADS};
use crate::operands::{Operands, contiguous};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, Scalar, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static DROPOUT: Template = Template { name: "dropout", text: &[text::RANDOM, text::DROPOUT] };
static MASKED_SCALE: Template =
    Template { name: "masked_scale", text: &[text::RANDOM, text::DROPOUT] };

fn like(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    op::empty_like(tensor, Some(dtype), None, None, None, None)
}

/// Dropout and the mask of the elements kept.
///
/// # Errors
/// `Runtime` for a probability outside 0..=1, `NotImplemented` for a dtype that is not floating-point.
pub fn native_dropout(input: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    let dtype = input.dtype();
    if !dtype.is_floating_point() || dtype.itemsize() == 1 {
        return Err(not_implemented_for("fused_dropout", dtype));
    }
    ensure!(
        (0.0..=1.0).contains(&p),
        Runtime,
        "dropout probability has to be between 0 and 1, but got {p}"
    );
    if input.numel() == 0 {
        return Ok((input.clone(), like(input, DType::Bool)?));
    }
    if train == Some(false) {
        let mask = op::fill__scalar(&like(input, DType::Bool)?, Scalar::Bool(true))?;
        return Ok((op::clone(input, None)?, mask));
    }
    let (out, mask) = (like(input, dtype)?, like(input, DType::Bool)?);
    if p == 1.0 {
        return Ok((op::zero_(&out)?, op::zero_(&mask)?));
    }
    if !input.is_non_overlapping_and_dense() {
        let (dropped, kept) = fused(&contiguous(input)?, 1.0 - p, false)?;
        return Ok((op::copy_(&out, &dropped, false)?, op::copy_(&mask, &kept, false)?));
    }
    fused(input, 1.0 - p, true)
}

/// Dropout of a tensor without gaps, in the order of its memory.
fn fused(input: &Tensor, mut kept: f64, side_by_side: bool) -> Result<(Tensor, Tensor)> {
    let dtype = input.dtype();
    let (out, mask) = (like(input, dtype)?, like(input, DType::Bool)?);
    let device = input.device().index;
    let mut n = input.numel() as u64;
    let (blocks, count) = policy(device, n, 4)?;
    let state = reserve(device, None, count)?;
    let (mut seed, mut offset) = (state.seed, state.offset);
    let held =
        Operands::hold(&[(input, Access::Read), (&out, Access::Write), (&mask, Access::Write)])?;
    let (mut from, mut to, mut mask_at) = (held.at(0), held.at(1), held.at(2));
    let aligned = |wide: u64| (from.addr() as u64).is_multiple_of(wide * dtype.itemsize() as u64);
    let wide =
        [4, 2].into_iter().find(|&wide| side_by_side && n.is_multiple_of(wide) && aligned(wide));
    let arguments = [
        Argument::Storage(dtype),
        Argument::Value(dtype),
        Argument::Number(wide.unwrap_or(1) as u32),
    ];
    let shape = Shape { grid: [blocks, 1, 1], block: [THREADS, 1, 1], shared: 0 };
    // SAFETY: the tensors have `n` elements without gaps each, in one order, and are held.
    unsafe {
        let parameters = parameters!(n, from, to, mask_at, kept, seed, offset);
        DROPOUT.launch(&arguments, shape, Stream::current(device), parameters)?;
    }
    drop(held);
    Ok((out, mask))
}

/// The gradient of [`native_dropout`].
///
/// # Errors
/// `Runtime` when shapes do not broadcast.
pub fn native_dropout_backward(grad_output: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    let dtype = grad_output.dtype();
    let simple = dtype.is_floating_point()
        && dtype.itemsize() > 1
        && mask.dtype() == DType::Bool
        && grad_output.sizes() == mask.sizes()
        && grad_output.strides() == mask.strides()
        && mask.is_non_overlapping_and_dense();
    if !simple || mask.numel() == 0 {
        return op::mul_scalar(&op::mul_tensor(grad_output, mask)?, Scalar::from(scale));
    }
    let out = like(grad_output, dtype)?;
    let held = Operands::hold(&[
        (grad_output, Access::Read),
        (mask, Access::Read),
        (&out, Access::Write),
    ])?;
    let (mut from, mut mask_at, mut to) = (held.at(0), held.at(1), held.at(2));
    let (mut n, mut scale) = (mask.numel() as u64, scale);
    let arguments = [Argument::Storage(dtype), Argument::Value(dtype)];
    let stream = Stream::current(mask.device().index);
    // SAFETY: the tensors have `n` elements without gaps each, in one order, and are held.
    unsafe {
        let parameters = parameters!(n, from, mask_at, to, scale);
        MASKED_SCALE.launch(&arguments, Shape::over(n as i64), stream, parameters)?;
    }
    drop(held);
    Ok(out)
}
