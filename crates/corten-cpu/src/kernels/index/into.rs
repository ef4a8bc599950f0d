//! The `out=` forms of the operators that pick elements. The result may not share memory with what
//! it is picked from.

use super::{gather, index, index_select, masked_select, nonzero, take};
use corten_core::{Result, geometry};
use corten_ops::meta::{check_out_dtype, index as shapes};
use corten_ops::{Tensor, derived, iter};

fn write(out: &Tensor, picked: &Tensor, inputs: &[&Tensor]) -> Result<Tensor> {
    geometry::assert_no_internal_overlap(out)?;
    iter::resize_output(out, &picked.sizes())?;
    for input in inputs {
        geometry::assert_no_overlap(out, input)?;
    }
    derived::write_out(out, picked)
}

/// [`index`] into `out`, which gets the strides of the plain result where it is resized.
///
/// # Errors
/// As for [`index`]; `Runtime` when `out` has another dtype or overlaps.
pub fn index_out(self_: &Tensor, indices: &[Option<Tensor>], out: &Tensor) -> Result<Tensor> {
    shapes::check_index_out(self_, out)?;
    geometry::assert_no_internal_overlap(out)?;
    for input in std::iter::once(self_).chain(indices.iter().flatten()) {
        geometry::assert_no_overlap(out, input)?;
    }
    let picked = index(self_, indices)?;
    if iter::resize_output(out, &picked.sizes())? {
        out.set_sizes_and_strides(&picked.sizes(), &picked.strides(), out.storage_offset())?;
    }
    derived::write_out(out, &picked)
}

/// [`gather`] into `out`.
///
/// # Errors
/// As for [`gather`]; `Runtime` when `out` has another dtype or overlaps; for the functions below
/// likewise.
pub fn gather_out(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    sparse_grad: bool,
    out: &Tensor,
) -> Result<Tensor> {
    check_out_dtype(Some(out), self_.dtype())?;
    let picked = gather(self_, dim, index, sparse_grad)?;
    geometry::assert_no_internal_overlap(out)?;
    iter::resize_output(out, &picked.sizes())?;
    geometry::assert_no_partial_overlap(out, index)?;
    write(out, &picked, &[self_])
}

/// [`index_select`] into `out`.
pub fn index_select_out(self_: &Tensor, dim: i64, index: &Tensor, out: &Tensor) -> Result<Tensor> {
    shapes::check_picked_out("index_select", self_, out)?;
    write(out, &index_select(self_, dim, index)?, &[self_, index])
}

/// [`take`] into `out`.
pub fn take_out(self_: &Tensor, index: &Tensor, out: &Tensor) -> Result<Tensor> {
    shapes::check_take_out(self_, out)?;
    write(out, &take(self_, index)?, &[self_, index])
}

/// [`masked_select`] into `out`.
pub fn masked_select_out(self_: &Tensor, mask: &Tensor, out: &Tensor) -> Result<Tensor> {
    shapes::check_picked_out("masked_select", self_, out)?;
    write(out, &masked_select(self_, mask)?, &[self_, mask])
}

/// [`nonzero`] into `out`.
pub fn nonzero_out(self_: &Tensor, out: &Tensor) -> Result<Tensor> {
    shapes::check_nonzero_out(out)?;
    write(out, &nonzero(self_)?, &[self_])
}
