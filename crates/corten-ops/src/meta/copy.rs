//! Rules of copies and fills.

use super::check::check_out_dtype;
use crate::Tensor;
use crate::iter::{TensorIterator, TensorIteratorConfig, allocate, allocate_like};
use corten_core::{DType, Result, Scalar, ensure, geometry, warn_once};
use std::sync::atomic::AtomicBool;

/// `copy_`: values of `src`, broadcast and converted, into `self`. The loop has two operands of
/// possibly different dtypes.
///
/// # Errors
/// `NotImplemented` for a source without data, and those of [`TensorIteratorConfig::build`].
pub fn copy(
    self_: &Tensor,
    src: &Tensor,
    _non_blocking: bool,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let target = match out {
        Some(out) => out.clone(),
        None => allocate(&self_.sizes(), None, self_.dtype(), self_.device())?,
    };
    if target.is_same(src) || are_same_data(&target, src) {
        return Ok(TensorIterator::nothing(&target, src));
    }
    let apart = !target.is_alias_of(src);
    if apart && target.copy_block_from(src)? {
        return Ok(TensorIterator::nothing(&target, src));
    }
    ensure!(
        !src.device().is_meta() || target.device().is_meta(),
        NotImplemented,
        "Cannot copy out of meta tensor; no data!"
    );
    if src.dtype().is_complex() && !target.dtype().is_complex() && target.dtype() != DType::Bool {
        warn_about_imaginary_part();
    }
    if apart && target.is_dense_cpu() && src.is_dense_cpu() && target.sizes() == src.sizes() {
        return Ok(TensorIterator::in_order(&target, src));
    }
    TensorIteratorConfig::new()
        .resize_outputs(false)
        .check_all_same_dtype(false)
        .check_all_same_device(false)
        .add_output(Some(&target))
        .add_input(src)
        .build()
}

/// Two views of the same elements in the same order: nothing to copy, however they overlap.
fn are_same_data(a: &Tensor, b: &Tensor) -> bool {
    a.is_alias_of(b)
        && a.storage_offset() == b.storage_offset()
        && a.sizes() == b.sizes()
        && a.strides() == b.strides()
        && a.dtype() == b.dtype()
        && a.is_conj() == b.is_conj()
        && a.is_neg() == b.is_neg()
}

fn warn_about_imaginary_part() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    warn_once(&WARNED, "Casting complex values to real discards the imaginary part");
}

/// `fill`: one number everywhere. Overlapping memory is fine, since every write is the same.
///
/// # Errors
/// `Runtime` when the number does not fit the dtype, and those of [`TensorIteratorConfig::build`].
pub fn fill(self_: &Tensor, value: Scalar, out: Option<&Tensor>) -> Result<TensorIterator> {
    value.check_fits(self_.dtype(), "fill_")?;
    check_out_dtype(out, self_.dtype())?;
    let target = match out {
        Some(out) if out.sizes() == self_.sizes() => out.clone(),
        Some(out) => {
            crate::iter::resize_output(out, &self_.sizes())?;
            out.clone()
        }
        None => allocate_like(self_, self_.dtype())?,
    };
    if target.is_dense_cpu() {
        return Ok(TensorIterator::over(&target));
    }
    TensorIteratorConfig::nullary().check_mem_overlap(false).add_output(Some(&target)).build()
}

/// `numel` elements at a time of `tensor` in logical order; for factories that write by position.
pub(super) fn linear(tensor: &Tensor) -> Result<TensorIterator> {
    geometry::assert_no_internal_overlap(tensor)?;
    TensorIteratorConfig::nullary().enforce_linear_iteration(true).add_output(Some(tensor)).build()
}
