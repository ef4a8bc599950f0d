//! Tensors with arbitrary contents.

use super::options;
use super::uninitialized::settled;
use crate::Tensor;
use crate::iter::preserved_strides;
use corten_core::{
    DType, Device, KeySet, Layout, MemoryFormat, Result, TensorBase, TensorOptions, ensure,
};

/// The tensor itself; where pinned memory is asked for, one with its geometry there.
fn placed(made: Result<TensorBase>, options: &TensorOptions) -> Result<Tensor> {
    let made = made?;
    settled(if options.pinned_memory_or_default() { pinned(&made)? } else { made })
}

#[cold]
fn pinned(made: &TensorBase) -> Result<TensorBase> {
    ensure!(made.device().is_cpu(), Runtime, "Only dense CPU tensors can be pinned");
    let storage = corten_core::pinned_storage(made.storage()?.nbytes())?;
    let keys = KeySet::for_tensor(made.device().device_type, made.layout(), made.dtype());
    let (sizes, strides) = (made.sizes(), made.strides());
    TensorBase::new_with_storage(storage, made.dtype(), keys, &sizes, &strides, 0)
}

/// Arbitrary contents in this shape.
///
/// # Errors
/// `Runtime` for a negative size or a memory format that the rank does not allow.
pub fn empty(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let options = options(dtype, layout, device, pin_memory).memory_format(memory_format);
    placed(TensorBase::empty(size, options), &options)
}

/// Gives an output this shape, with arbitrary contents.
///
/// # Errors
/// Those of `resize_`.
pub fn empty_out(
    size: &[i64],
    memory_format: Option<MemoryFormat>,
    out: &Tensor,
) -> Result<Tensor> {
    out.resize(size, memory_format)?;
    settled(out.base().clone())
}

/// Arbitrary contents in this shape with these strides.
///
/// # Errors
/// `Runtime` for negative sizes or strides.
pub fn empty_strided(
    size: &[i64],
    stride: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let options = options(dtype, layout, device, pin_memory);
    placed(TensorBase::empty_strided(size, stride, options), &options)
}

/// Arbitrary contents in the shape of another tensor, by default with its dtype, device and
/// layout in memory.
///
/// # Errors
/// `Runtime` for a memory format that the rank does not allow.
pub fn empty_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let options = like(self_, dtype, layout, device, pin_memory);
    let sizes = self_.sizes();
    match memory_format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => {
            placed(TensorBase::empty_strided(&sizes, &preserved_strides(self_), options), &options)
        }
        format => placed(TensorBase::empty(&sizes, options.memory_format(format)), &options),
    }
}

/// The options given, and those of another tensor for the others.
pub(super) fn like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> TensorOptions {
    options(
        Some(dtype.unwrap_or(self_.dtype())),
        Some(layout.unwrap_or(self_.layout())),
        Some(device.unwrap_or(self_.device())),
        pin_memory,
    )
}

/// Arbitrary contents in this shape, by default with the dtype and device of another tensor.
///
/// # Errors
/// `Runtime` for a negative size.
pub fn new_empty(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let options = like(self_, dtype, layout, device, pin_memory);
    placed(TensorBase::empty(size, options), &options)
}

/// Arbitrary contents in this shape with these strides, by default with the dtype and device of
/// another tensor.
///
/// # Errors
/// `Runtime` for negative sizes or strides.
pub fn new_empty_strided(
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let options = like(self_, dtype, layout, device, pin_memory);
    placed(TensorBase::empty_strided(size, stride, options), &options)
}
