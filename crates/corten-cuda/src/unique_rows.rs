//! Rows in order, and those that differ from the one before.

use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use crate::operands::{contiguous, empty};
use crate::text;
use corten_core::geometry::wrap_dim;
use corten_core::{Access, DType, Result, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static MERGE: Template = Template { name: "merge_rows", text: &[text::SORT, text::UNIQUE] };
static BEGINS: Template = Template { name: "row_begins", text: &[text::SORT, text::UNIQUE] };

/// The first of each run, the run of each element, and the lengths of the runs, from where they begin.
///
/// # Errors
/// Those of the driver.
pub(crate) fn runs_from(begins: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let starts = op::squeeze_dim(&op::nonzero(begins)?, 1)?;
    let which = op::sub_scalar(&op::cumsum(begins, 0, None)?, 1.into(), 1.into())?;
    let (count, device) = (begins.numel(), Some(begins.device()));
    let end = op::full(&[1], count.into(), Some(DType::Int64), None, device, None)?;
    let ends = op::cat(&[op::narrow(&starts, 0, 1, starts.numel() - 1)?, end], 0)?;
    let counts = op::sub_tensor(&ends, &starts, 1.into())?;
    Ok((starts, which, counts))
}

/// The order of rows by their elements; equal rows keep theirs.
fn order_of(rows: &Tensor, length: u64) -> Result<Tensor> {
    let n = rows.size(0)?;
    let device = Some(rows.device());
    let mut order = op::arange(n.into(), Some(DType::Int64), None, device, None)?;
    let mut run = 1_u64;
    while run < n as u64 {
        let to = empty(&[n], DType::Int64, rows)?;
        let tensors = [(rows, Access::Read), (&order, Access::Read), (&to, Access::Write)];
        let of = [Argument::Storage(rows.dtype())];
        let (mut columns, mut size) = (length, run);
        let call = Flat { template: &MERGE, of: &of, tensors: &tensors };
        // SAFETY: the tensors are contiguous; the order is a permutation of the rows.
        unsafe { call.over(n, parameters!(columns, size))? };
        (order, run) = (to, run * 2);
    }
    Ok(order)
}

/// The different slices along a dimension, in order where `sorted` or else without those that equal the one
/// before; the place of each slice among them, and their numbers.
///
/// # Errors
/// `Runtime` for empty slices, `NotImplemented` for complex numbers.
pub(crate) fn slices(self_: &Tensor, dim: i64, sorted: bool) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(self_.dim() > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
    let (axis, sizes, dtype) = (wrap_dim(dim, self_.dim())?, self_.sizes(), self_.dtype());
    let none = sizes.iter().filter(|&&size| size == 0).count();
    let count = sizes[axis];
    if count == 0 {
        ensure!(
            none == 1,
            Runtime,
            "Number of zero sized dimensions is more than one, so unique cannot be applied "
        );
        let nothing = || empty(&[0], DType::Int64, self_);
        return Ok((empty(&sizes, dtype, self_)?, nothing()?, nothing()?));
    }
    ensure!(
        none == 0,
        Runtime,
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
    );
    if dtype.is_complex() || dtype.itemsize() == 1 && dtype.is_floating_point() {
        return Err(not_implemented_for("unique_dim", dtype));
    }
    let moved = contiguous(&op::movedim_int(self_, axis as i64, 0)?)?;
    let length = (moved.numel() / count) as u64;
    let order = match sorted {
        true => order_of(&moved, length)?,
        false => op::arange(count.into(), Some(DType::Int64), None, Some(self_.device()), None)?,
    };
    let begins = empty(&[count], DType::Bool, self_)?;
    let tensors = [(&moved, Access::Read), (&order, Access::Read), (&begins, Access::Write)];
    let mut columns = length;
    let of = [Argument::Storage(dtype)];
    let call = Flat { template: &BEGINS, of: &of, tensors: &tensors };
    // SAFETY: as above.
    unsafe { call.over(count, parameters!(columns))? };
    let (starts, which, counts) = runs_from(&begins)?;
    let inverse = op::empty_like(&order, None, None, None, None, None)?;
    let inverse = op::scatter__src(&inverse, 0, &order, &which)?;
    let found = op::index_select(&moved, 0, &op::index_select(&order, 0, &starts)?)?;
    Ok((op::movedim_int(&found, 0, axis as i64)?, inverse, counts))
}
