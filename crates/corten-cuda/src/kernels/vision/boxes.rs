//! Boxes of which those are dropped that overlap with better ones.

use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::{Shape, THREADS};
use crate::operands::{contiguous, empty};
use crate::text;
use corten_core::{Access, DType, Result, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static OVERLAPS: Template = Template { name: "box_overlaps", text: &[text::BOXES] };
static KEPT: Template = Template { name: "kept_boxes", text: &[text::BOXES] };

fn check(dets: &Tensor, scores: &Tensor) -> Result<()> {
    let (boxes, numbers) = (dets.sizes(), scores.sizes());
    ensure!(boxes.len() == 2, Runtime, "boxes should be a 2d tensor, got {}D", boxes.len());
    ensure!(
        boxes[1] == 4,
        Runtime,
        "boxes should have 4 elements in dimension 1, got {}",
        boxes[1]
    );
    ensure!(numbers.len() == 1, Runtime, "scores should be a 1d tensor, got {}D", numbers.len());
    ensure!(
        boxes[0] == numbers[0],
        Runtime,
        "boxes and scores should have same number of elements in dimension 0, got {} and {}",
        boxes[0],
        numbers[0]
    );
    ensure!(dets.dtype() == scores.dtype(), Runtime, "dets should have the same type as scores");
    Ok(())
}

/// The boxes that are kept, in the order of their scores.
///
/// # Errors
/// `Runtime` for shapes and dtypes that do not fit, `NotImplemented` for other than floating point.
pub fn nms(dets: &Tensor, scores: &Tensor, iou_threshold: f64) -> Result<Tensor> {
    check(dets, scores)?;
    let (n, dtype) = (dets.size(0)?, dets.dtype());
    if n == 0 {
        return empty(&[0], DType::Int64, dets);
    }
    if !dtype.is_floating_point() || dtype.itemsize() == 1 {
        return Err(not_implemented_for("nms_kernel", dtype));
    }
    let order = op::sort_stable(scores, Some(true), 0, true)?.1;
    let boxes = contiguous(&op::index_select(dets, 0, &order)?)?;
    let columns = (n as u64).div_ceil(64);
    let bits = empty(&[n, columns as i64], DType::Int64, dets)?;
    let dropped = empty(&[columns as i64], DType::Int64, dets)?;
    let kept = empty(&[n], DType::Bool, dets)?;
    let (mut count, mut words, mut threshold) = (n as u64, columns, iou_threshold);
    let tensors = [(&bits, Access::Write), (&boxes, Access::Read)];
    let of = [Argument::Storage(dtype), Argument::Value(dtype)];
    let call = Flat { template: &OVERLAPS, of: &of, tensors: &tensors };
    let shape = Shape::over(bits.numel());
    // SAFETY: the tensors are contiguous; each box has a bit for each.
    unsafe { call.launch(shape, parameters!(count), parameters!(words, threshold))? };
    let tensors = [(&kept, Access::Write), (&bits, Access::Read), (&dropped, Access::Write)];
    let call = Flat { template: &KEPT, of: &[Argument::Number(0)], tensors: &tensors };
    let shape = Shape { grid: [1, 1, 1], block: [THREADS, 1, 1], shared: 0 };
    // SAFETY: as above.
    unsafe { call.launch(shape, parameters!(count), parameters!(words))? };
    op::masked_select(&order, &kept)
}
