//! Hashes of contents.

use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{contiguous, empty, on_meta};
use crate::text;
use corten_core::geometry::wrap_dim;
use corten_core::{Access, DType, Result, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static HASH: Template = Template { name: "hash_lines", text: &[text::HASH] };

/// `hash_tensor`: the exclusive or of all bits, floating-point numbers as doubles.
///
/// # Errors
/// Those of the CPU's checks; `NotImplemented` for complex numbers.
pub fn hash_tensor(self_: &Tensor, dim: &[i64], keepdim: bool, mode: i64) -> Result<Tensor> {
    let planned = op::hash_tensor(&on_meta(self_)?, dim, keepdim, mode)?;
    if self_.dtype().is_complex() {
        return Err(not_implemented_for("xor_sum_cuda", self_.dtype()));
    }
    let out = empty(&planned.sizes(), DType::UInt64, self_)?;
    let rank = self_.dim();
    let goes = |i: usize| {
        dim.is_empty() || dim.iter().any(|&dim| wrap_dim(dim, rank).is_ok_and(|own| own == i))
    };
    let (reduced, mut order): (Vec<i64>, Vec<i64>) =
        (0..rank as i64).partition(|&i| goes(i as usize));
    order.extend(reduced);
    let input = contiguous(&op::permute(self_, &order)?)?;
    let lines = out.numel();
    ensure!(lines <= i64::from(i32::MAX), Runtime, "{lines} lines are too many for one launch");
    if lines > 0 {
        let mut length = (input.numel() / lines) as u64;
        let shape = Shape { grid: [lines as u32, 1, 1], block: [256, 1, 1], shared: 0 };
        let tensors = [(&input, Access::Read), (&out, Access::Write)];
        let of = [Argument::Storage(self_.dtype())];
        let call = Flat { template: &HASH, of: &of, tensors: &tensors };
        // SAFETY: both are contiguous; a block for each line.
        unsafe { call.launch(shape, &mut [], parameters!(length))? };
    }
    Ok(out)
}
