//! Quantised tensors: operators over the integers that they are stored as, the same on every device.
//!
//! The registry names them with `quantized = "family::function"`. What the integers stand for is the quantizer of the
//! note on quantised tensors in `corten-core`; loops between floats and integers are kernels of the back ends.

use crate::{Tensor, op};
use corten_core::{DType, QScheme, Quantizer, Result, TensorBase, VersionCounter, bail, ensure};
use std::sync::Arc;

pub mod activation;
pub mod arith;
pub mod compare;
pub mod copy;
pub mod elements;
pub mod make;
pub mod norm;
pub mod pool;
pub mod query;
pub mod views;

/// The integers of a quantised tensor, as a view.
///
/// ```
/// use corten::ops::quantized::integers;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = op::quantize_per_tensor(&tensor![1.0f32, 2.5]?, 0.5, 3, DType::QUInt8)?;
/// assert_eq!(integers(&x)?.to_vec::<u8>()?, [5, 8]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Runtime` where the tensor is not quantised.
pub fn integers(tensor: &Tensor) -> Result<Tensor> {
    Ok(tensor.base().integers()?.into())
}

/// A quantised tensor over the memory of integers that nobody else writes to.
///
/// # Errors
/// `Runtime` for a dtype that is not quantised.
pub fn over(integers: &Tensor, dtype: DType, quantizer: Option<Arc<Quantizer>>) -> Result<Tensor> {
    let (sizes, strides) = (integers.sizes(), integers.strides());
    let geometry = (&*sizes, &*strides, integers.storage_offset());
    Ok(TensorBase::quantized_over(integers.storage()?, dtype, quantizer, geometry)?.into())
}

/// A quantised tensor of integers made by `f` of those of `self_`, with its dtype and quantizer.
pub(crate) fn of_integers(
    self_: &Tensor,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    over(&f(&integers(self_)?)?, self_.dtype(), self_.quantizer())
}

/// The quantizer of a tensor with one scale.
///
/// # Errors
/// `Runtime` where the tensor has none, or several scales.
pub fn of_tensor(tensor: &Tensor) -> Result<(f64, i64)> {
    let quantizer = tensor.known_quantizer()?;
    let Some(found) = quantizer.of_tensor() else {
        bail!(
            Runtime,
            "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false."
        );
    };
    Ok(found)
}

/// That a tensor has one scale and elements of a byte or more.
///
/// # Errors
/// `Runtime` with `message`, or `NotImplemented` naming `operator`.
pub(crate) fn check_uniform(tensor: &Tensor, operator: &str, message: &str) -> Result<()> {
    let quantizer = tensor.known_quantizer()?;
    ensure!(quantizer.of_tensor().is_some(), Runtime, "{message}");
    check_whole(tensor, operator)
}

/// That elements take a byte or more.
///
/// # Errors
/// `NotImplemented` naming `operator`.
pub(crate) fn check_whole(tensor: &Tensor, operator: &str) -> Result<()> {
    if tensor.dtype().elements_per_byte() > 1 {
        return Err(corten_core::not_implemented_for(operator, tensor.dtype()));
    }
    Ok(())
}

/// A quantizer with a scale and zero point for each index of a dimension: float zero points are kept as such.
///
/// # Errors
/// `Runtime` where scales and zero points are not two lists of one length.
pub fn channels(scales: &Tensor, zero_points: &Tensor, axis: i64) -> Result<Arc<Quantizer>> {
    ensure!(scales.dim() == 1, Runtime, "scale tensor must have dimension 1");
    ensure!(zero_points.dim() == 1, Runtime, "zero_points tensor must have dimension 1");
    ensure!(
        scales.numel() == zero_points.numel(),
        Runtime,
        "number of elements in scales and zero_points must match"
    );
    let kept = |tensor: &Tensor, dtype: DType| -> Result<TensorBase> {
        let converted = op::to_dtype(tensor, dtype, false, false, None)?;
        let converted = op::contiguous(&converted, corten_core::MemoryFormat::Contiguous)?;
        converted.shallow_copy_and_detach(VersionCounter::Own, true)
    };
    let float = zero_points.dtype().is_floating_point();
    Ok(Arc::new(if float {
        let (scales, zero_points) =
            (kept(scales, DType::Float32)?, kept(zero_points, DType::Float32)?);
        Quantizer::PerChannelFloat { scales, zero_points, axis }
    } else {
        let (scales, zero_points) =
            (kept(scales, DType::Float64)?, kept(zero_points, DType::Int64)?);
        Quantizer::PerChannel { scales, zero_points, axis }
    }))
}

/// Whether two tensors have equal quantizers.
///
/// # Errors
/// Those of comparing scales.
pub fn same_quantizer(a: &Tensor, b: &Tensor) -> Result<bool> {
    let (Some(a), Some(b)) = (a.quantizer(), b.quantizer()) else { return Ok(false) };
    if Arc::ptr_eq(&a, &b) {
        return Ok(true);
    }
    if a.scheme() != b.scheme() {
        return Ok(false);
    }
    let (Some(a), Some(b)) = (a.of_channels(), b.of_channels()) else {
        return Ok(a.of_tensor() == b.of_tensor());
    };
    let equal = |a: &TensorBase, b: &TensorBase| op::equal(&a.clone().into(), &b.clone().into());
    Ok(a.2 == b.2 && equal(a.0, b.0)? && equal(a.1, b.1)?)
}

/// The scheme of a quantised tensor.
///
/// # Errors
/// `NotImplemented` where the tensor is not quantised, `Runtime` where it has no quantizer.
pub fn scheme(tensor: &Tensor) -> Result<QScheme> {
    if !tensor.is_quantized() {
        bail!(
            NotImplemented,
            "Could not run 'aten::qscheme' with arguments from the '{}' backend.",
            tensor.key_set().highest_key()
        );
    }
    Ok(tensor.known_quantizer()?.scheme())
}
