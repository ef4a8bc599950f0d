//! Elements of the flattened tensor by index.

use super::arithmetic::Arithmetic;
use super::flat::{apart_from, as_bits, fresh_copy, match_bits};
use crate::kernels::support::is_shape_only;
use corten_core::{
    Access, AccessSet, DType, Element, MemoryFormat, Result, bail, ensure, geometry, match_dtype,
};
use corten_ops::{Tensor, op};

fn checked_long(operator: &str, index: &Tensor) -> Result<Tensor> {
    ensure!(
        index.dtype() == DType::Int64,
        Runtime,
        "{operator}(): Expected a long tensor for index, but got {}",
        index.dtype().type_name()
    );
    op::contiguous(index, MemoryFormat::Contiguous)
}

fn wrap(index: i64, numel: i64) -> Result<usize> {
    if index < -numel || index >= numel {
        bail!(
            Index,
            "out of range: tried to access index {index} on a tensor of {numel} elements."
        );
    }
    Ok(if index < 0 { index + numel } else { index } as usize)
}

/// Elements of the flattened tensor by index.
///
/// # Errors
/// `Index` when an index is out of range.
pub fn take(self_: &Tensor, index: &Tensor) -> Result<Tensor> {
    let index = checked_long("take", index)?;
    ensure!(
        self_.numel() > 0 || index.numel() == 0,
        Index,
        "take(): tried to take from an empty tensor"
    );
    let out = op::empty_memory_format(
        &index.sizes(),
        Some(self_.dtype()),
        None,
        Some(self_.device()),
        None,
        None,
    )?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let source = op::contiguous(&as_bits(self_)?, MemoryFormat::Contiguous)?;
    let target = as_bits(&out)?;
    match_bits!(self_.itemsize(), T => {
        let set = AccessSet::acquire(&[
            (source.base(), Access::Read),
            (index.base(), Access::Read),
            (target.base(), Access::Write),
        ])?;
        let (from, at, to) = (set.read::<T>(0)?, set.read::<i64>(1)?, set.write::<T>(2)?);
        for (slot, index) in to.iter_mut().zip(at) {
            *slot = from[wrap(*index, from.len() as i64)?];
        }
    });
    Ok(out)
}

/// Writes or adds elements of the flattened tensor by index.
///
/// # Errors
/// `Index` when an index is out of range; `Runtime` when dtypes or counts differ.
pub fn put_(self_: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    let index = checked_long("put_", index)?;
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and \
         source.dtype = {}",
        self_.dtype().type_name(),
        source.dtype().type_name()
    );
    ensure!(
        source.numel() == index.numel(),
        Index,
        "put_(): Expected source and index to have the same number of elements, but got \
         source.numel() = {}, index.numel() = {}",
        source.numel(),
        index.numel()
    );
    ensure!(
        self_.numel() > 0 || index.numel() == 0,
        Index,
        "put_(): Tried to put elements into an empty tensor"
    );
    geometry::assert_no_internal_overlap(self_)?;
    geometry::assert_no_overlap(self_, &index)?;
    geometry::assert_no_overlap(self_, source)?;
    if is_shape_only(self_) {
        return Ok(self_.clone());
    }
    let flat = op::contiguous(self_, MemoryFormat::Contiguous)?;
    let values = op::contiguous(source, MemoryFormat::Contiguous)?;
    let (values, index) = (apart_from(&flat, &values)?, apart_from(&flat, &index)?);
    match_dtype!(self_.dtype(), "put_", AllNoF8, T => {
        put_flat::<T>(&flat, &index, &values, |slot, value| {
            *slot = if accumulate { slot.plus(value) } else { value };
        })
    })?;
    if !self_.is_contiguous() {
        op::copy_(self_, &flat, false)?;
    }
    Ok(self_.clone())
}

fn put_flat<T: Element>(
    flat: &Tensor,
    index: &Tensor,
    values: &Tensor,
    combine: impl Fn(&mut T, T),
) -> Result<()> {
    let set = AccessSet::acquire(&[
        (values.base(), Access::Read),
        (index.base(), Access::Read),
        (flat.base(), Access::Write),
    ])?;
    let (from, at, to) = (set.read::<T>(0)?, set.read::<i64>(1)?, set.write::<T>(2)?);
    // All places are checked before the first is written, so that an error changes nothing.
    let numel = to.len() as i64;
    at.iter().try_for_each(|index| wrap(*index, numel).map(drop))?;
    for (value, index) in from.iter().zip(at) {
        combine(&mut to[wrap(*index, numel)?], *value);
    }
    Ok(())
}

/// The functional form of [`put_`].
///
/// # Errors
/// As [`put_`].
pub fn put(self_: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    put_(&fresh_copy(self_)?, index, source, accumulate)
}
