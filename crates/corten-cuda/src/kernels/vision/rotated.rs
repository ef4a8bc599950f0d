//! How much rotated boxes overlap.

use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use crate::operands::{contiguous, empty, on_meta};
use crate::text;
use corten_core::{Access, DType, Result, not_implemented_for};
use corten_ops::{Tensor, op};

static OVERLAPS: Template = Template { name: "rotated_overlaps", text: &[text::BOXES] };

/// The intersection over union of every two boxes, in single precision.
///
/// # Errors
/// Those of the CPU's checks, `NotImplemented` for other than floating point.
pub fn box_iou_rotated(boxes1: &Tensor, boxes2: &Tensor) -> Result<Tensor> {
    op::box_iou_rotated(&on_meta(boxes1)?, &on_meta(boxes2)?)?;
    let dtype = boxes1.dtype();
    if !dtype.is_floating_point() || dtype.itemsize() == 1 {
        return Err(not_implemented_for("box_iou_rotated_cuda", dtype));
    }
    let mut columns = boxes2.size(0)? as u64;
    let out = empty(&[boxes1.size(0)?, columns as i64], DType::Float32, boxes1)?;
    let (first, second) = (contiguous(boxes1)?, contiguous(boxes2)?);
    let tensors = [(&out, Access::Write), (&first, Access::Read), (&second, Access::Read)];
    let call = Flat { template: &OVERLAPS, of: &[Argument::Storage(dtype)], tensors: &tensors };
    // SAFETY: the tensors are contiguous; the result has a number for each two boxes.
    unsafe { call.over(out.numel(), parameters!(columns))? };
    Ok(out)
}
