//! Views of quantised tensors: those of one scale are views by strides; scales per channel are followed.

use super::integers;
use crate::{Tensor, any, op};
use corten_core::{DType, Quantizer, Result, TensorBase, VersionCounter, bail, ensure, geometry};
use std::sync::Arc;

/// The view that `dense` is of the integers, with a quantizer.
fn as_view(self_: &Tensor, dense: &Tensor, quantizer: Option<Arc<Quantizer>>) -> Result<Tensor> {
    let (sizes, strides) = (dense.sizes(), dense.strides());
    Ok(self_.view_with_quantizer(&sizes, &strides, dense.storage_offset(), quantizer)?.into())
}

/// The tensor as one without a quantizer, of whose elements views by strides can be made.
fn unnamed(self_: &Tensor) -> Result<Tensor> {
    let (sizes, strides) = (self_.sizes(), self_.strides());
    let offset = self_.storage_offset();
    if self_.dtype().elements_per_byte() > 1 {
        // Geometry alone: elements that share bytes are not read through this.
        let meta = TensorBase::empty_strided(
            &sizes,
            &strides,
            corten_core::TensorOptions::new()
                .dtype(DType::UInt8)
                .device(corten_core::Device::new(corten_core::DeviceType::Meta)),
        )?;
        return Ok(meta.into());
    }
    let ints = integers(self_)?;
    Ok(ints.as_view_of(&sizes, &strides, offset)?.into())
}

/// A view of the same elements in the same order.
fn same_elements(self_: &Tensor, view: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    as_view(self_, &view(&unnamed(self_)?)?, self_.quantizer())
}

/// The elements in another shape. A quantizer per channel stays as it is.
///
/// # Errors
/// Those of [`op::view`].
pub fn view(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    same_elements(self_, |ints| any::view::view(ints, size))
}

/// The elements in another shape, with strides that the caller has computed.
///
/// # Errors
/// Those of [`op::view`].
pub fn reshape_alias(self_: &Tensor, size: &[i64], _stride: &[i64]) -> Result<Tensor> {
    view(self_, size)
}

/// Another dtype for the same bytes, which no integers with a quantizer have.
///
/// # Errors
/// `Runtime` for a dtype other than the tensor's.
pub fn view_dtype(self_: &Tensor, dtype: DType) -> Result<Tensor> {
    ensure!(
        dtype == self_.dtype(),
        Runtime,
        "view: a quantized tensor of dtype {} has no view of dtype {}; int_repr() copies its integers",
        self_.dtype().name(),
        dtype.name()
    );
    same_elements(self_, |ints| Ok(ints.clone()))
}

/// The tensor once more.
///
/// # Errors
/// Those of making a view.
pub fn alias(self_: &Tensor) -> Result<Tensor> {
    Ok(self_.shallow_copy_and_detach(VersionCounter::Shared, true)?.into())
}

/// The quantizer of channels `start`, `start + step`, … of a dimension; of one channel, a scale of its own.
fn of_part(
    self_: &Tensor,
    dim: i64,
    (start, count, step): (i64, i64, i64),
    drops: bool,
) -> Result<Option<Arc<Quantizer>>> {
    let Some(quantizer) = self_.quantizer() else { return Ok(None) };
    let Some((scales, zero_points, axis)) = quantizer.of_channels() else {
        return Ok(Some(quantizer));
    };
    if dim != axis {
        // A dimension that goes before the channels moves them.
        let moved = if drops && dim < axis { axis - 1 } else { axis };
        return Ok(Some(Arc::new(quantizer.with_axis(moved))));
    }
    let part = |list: &TensorBase| -> Result<Tensor> {
        let list = Tensor::from(list.clone());
        let list = any::view::slice(&list, 0, Some(start), Some(start + count * step), step)?;
        op::contiguous(&list, corten_core::MemoryFormat::Contiguous)
    };
    let (scales, zero_points) = (part(scales)?, part(zero_points)?);
    if count == 1 {
        let scale = op::item(&scales)?.to_f64();
        let zero_point = op::item(&zero_points)?;
        ensure!(
            zero_point.to_f64().fract() == 0.0,
            Runtime,
            "one channel of a tensor quantized with float zero points has zero point {}, which is no integer",
            zero_point.to_f64()
        );
        return Ok(Some(Quantizer::per_tensor(scale, zero_point.to_i64())));
    }
    let (scales, zero_points) = (scales.base().clone(), zero_points.base().clone());
    Ok(Some(Arc::new(match &*quantizer {
        Quantizer::PerChannelFloat { .. } => {
            Quantizer::PerChannelFloat { scales, zero_points, axis }
        }
        _ => Quantizer::PerChannel { scales, zero_points, axis },
    })))
}

/// One position of a dimension, which goes.
///
/// # Errors
/// `Index` for a dimension or position out of range.
pub fn select(self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let dense = any::view::select(&unnamed(self_)?, dim, index)?;
    let place = geometry::wrap_dim(dim, self_.dim())?;
    let index = any::view::selected(&self_.sizes(), place, dim, index)?;
    as_view(self_, &dense, of_part(self_, place as i64, (index, 1, 1), true)?)
}

/// Every `step`-th position of a range of a dimension.
///
/// # Errors
/// `Index` for a dimension out of range, `Runtime` for a step that is not positive.
pub fn slice(
    self_: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    let dense = any::view::slice(&unnamed(self_)?, dim, start, end, step)?;
    let dim = geometry::wrap_dim(dim, self_.dim())? as i64;
    let (first, _) = any::view::clamped_range(self_.size(dim)?, start, end);
    as_view(self_, &dense, of_part(self_, dim, (first, dense.size(dim)?, step), false)?)
}

/// A view for each position of a dimension, which goes.
///
/// # Errors
/// Those of [`select`].
pub fn unbind(self_: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    (0..self_.size(dim)?).map(|index| select(self_, dim, index)).collect()
}

/// Views of ranges of `split_size` positions of a dimension; the last may be shorter.
///
/// # Errors
/// `Runtime` for a size that is negative, or 0 where there are positions.
pub fn split(self_: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    let pieces = any::view::split(&unnamed(self_)?, split_size, dim)?;
    let sizes = pieces.iter().map(|piece| piece.size(dim)).collect::<Result<Vec<_>>>()?;
    split_with_sizes(self_, &sizes, dim)
}

/// Views of ranges of these lengths of a dimension.
///
/// # Errors
/// `Runtime` where they do not add up to the size.
pub fn split_with_sizes(self_: &Tensor, split_sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    any::view::split_with_sizes(&unnamed(self_)?, split_sizes, dim)?;
    let mut start = 0;
    let mut pieces = Vec::new();
    for &size in split_sizes {
        pieces.push(slice(self_, dim, Some(start), Some(start + size), 1)?);
        start += size;
    }
    Ok(pieces)
}

/// A dimension of size 1 before another one.
///
/// # Errors
/// `Index` for a dimension out of range.
pub fn unsqueeze(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let dense = any::view::unsqueeze(&unnamed(self_)?, dim)?;
    let dim = geometry::wrap_dim(dim, self_.dim() + 1)? as i64;
    let quantizer = self_.quantizer().map(|quantizer| match quantizer.of_channels() {
        Some((.., axis)) if dim <= axis => Arc::new(quantizer.with_axis(axis + 1)),
        _ => quantizer,
    });
    as_view(self_, &dense, quantizer)
}

/// The view without the dimensions of size 1 among `dims`.
fn without(self_: &Tensor, dims: &[i64], dense: &Tensor) -> Result<Tensor> {
    let mut quantizer = self_.quantizer();
    if let Some(found) = &quantizer
        && let Some((.., axis)) = found.of_channels()
    {
        let mut moved = axis;
        for &dim in dims {
            let dim = geometry::wrap_dim(dim, self_.dim())? as i64;
            if self_.size(dim)? != 1 {
                continue;
            }
            if dim == axis {
                bail!(
                    Runtime,
                    "Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors."
                );
            }
            moved -= i64::from(dim < axis);
        }
        quantizer = Some(Arc::new(found.with_axis(moved)));
    }
    as_view(self_, dense, quantizer)
}

/// The view without dimensions of size 1.
///
/// # Errors
/// `Runtime` where one of them is that of the scales.
pub fn squeeze(self_: &Tensor) -> Result<Tensor> {
    let dims: Vec<i64> = (0..self_.dim() as i64).collect();
    without(self_, &dims, &any::view::squeeze(&unnamed(self_)?)?)
}

/// The view without a dimension, if its size is 1.
///
/// # Errors
/// `Index` for a dimension out of range, and those of [`squeeze`].
pub fn squeeze_dim(self_: &Tensor, dim: i64) -> Result<Tensor> {
    without(self_, &[dim], &any::view::squeeze_dim(&unnamed(self_)?, dim)?)
}

/// The view without those of the dimensions whose size is 1.
///
/// # Errors
/// As for [`squeeze_dim`].
pub fn squeeze_dims(self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    without(self_, dim, &any::view::squeeze_dims(&unnamed(self_)?, dim)?)
}
