//! Quantised tensors in pickles: integers in a storage, and a scheme with its parameters.

use super::rebuild::{Arguments, TensorHost};
use super::save::Saved;
use crate::pickle::{Node, Writer};
use crate::value::Value;
use corten_core::{
    DType, DeviceType, Dims, QScheme, Quantizer, Result, Storage, TensorBase, bail, ensure, err,
    geometry,
};
use corten_ops::Tensor;
use std::sync::Arc;

/// The scheme that a name of a pickle stands for.
pub(super) fn scheme_of(full: &str) -> Option<QScheme> {
    full.strip_prefix("torch.").and_then(QScheme::from_name)
}

impl TensorHost<'_> {
    /// A quantised tensor over a storage: of storage, offset, sizes, strides and quantizer.
    pub(super) fn quantized_tensor(&self, given: &Arguments<'_>) -> Result<Tensor> {
        let Node::Storage(number) = *given.node(0)? else {
            bail!(Runtime, "a storage is expected")
        };
        let (storage, dtype) = self.storages.of(number);
        let (offset, sizes, strides) = (given.int(1)?, given.dims(2)?, given.dims(3)?);
        check_bounds(&storage, dtype, &sizes, &strides, offset)?;
        let quantizer = quantizer(given)?;
        if let Some((scales, _, axis)) = quantizer.of_channels() {
            let size = usize::try_from(axis).ok().and_then(|axis| sizes.get(axis));
            ensure!(
                size == Some(&scales.numel()),
                Value,
                "_rebuild_qtensor: per_channel axis {axis} and {} scales do not fit size {sizes:?}",
                scales.numel()
            );
        }
        let geometry = (&*sizes, &*strides, offset);
        Ok(TensorBase::quantized_over(storage, dtype, Some(quantizer), geometry)?.into())
    }
}

fn check_bounds(
    storage: &Storage,
    dtype: DType,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> Result<()> {
    ensure!(
        sizes.len() == strides.len() && sizes.iter().all(|&size| size >= 0) && offset >= 0,
        Runtime,
        "a quantized tensor has an impossible geometry"
    );
    ensure!(
        strides.iter().all(|&stride| stride >= 0),
        Runtime,
        "a quantized tensor has negative strides"
    );
    geometry::checked_numel(sizes)?;
    let per_byte = dtype.elements_per_byte() as i64;
    if per_byte == 1 {
        let (itemsize, nbytes) = (dtype.itemsize(), storage.nbytes());
        return geometry::check_in_bounds(sizes, strides, offset, itemsize, nbytes);
    }
    let in_order = strides == &*geometry::contiguous_strides(sizes)? && offset == 0;
    ensure!(in_order, Runtime, "elements of {} that are not contiguous", dtype.name());
    let mut rows = Dims::from_slice(sizes);
    if let Some(last) = rows.last_mut() {
        *last = (*last + per_byte - 1) / per_byte;
    }
    let strides = geometry::contiguous_strides(&rows)?;
    geometry::check_in_bounds(&rows, &strides, 0, 1, storage.nbytes())
}

fn quantizer(given: &Arguments<'_>) -> Result<Arc<Quantizer>> {
    let ids = given.items(4)?;
    let parts = Arguments { arena: given.arena, ids: &ids };
    let scheme = match parts.node(0)? {
        Node::Global(name) => scheme_of(name),
        _ => None,
    };
    let scheme = scheme.ok_or_else(|| err!(Runtime, "a quantization scheme is expected"))?;
    match scheme {
        QScheme::PerTensorAffine => {
            return Ok(Quantizer::per_tensor(parts.float(1)?, parts.int(2)?));
        }
        QScheme::PerChannelAffine | QScheme::PerChannelAffineFloatQParams => {}
        other => {
            bail!(Runtime, "Can't deserialize quantized tensor with qscheme torch.{}", other.name())
        }
    }
    let (scales, zero_points, axis) = (parts.tensor(1)?, parts.tensor(2)?, parts.int(3)?);
    // PyTorch writes the name of the exact scheme for both.
    let exact = scheme == QScheme::PerChannelAffine && !zero_points.dtype().is_floating_point();
    let dtypes =
        if exact { (DType::Float64, DType::Int64) } else { (DType::Float32, DType::Float32) };
    ensure!(
        (scales.dtype(), zero_points.dtype()) == dtypes
            && scales.dim() == 1
            && scales.sizes() == zero_points.sizes()
            && scales.is_contiguous()
            && zero_points.is_contiguous()
            && scales.device().device_type == DeviceType::Cpu,
        Runtime,
        "a quantized tensor of the scheme {} has scales of dtype {} and sizes {:?}, and zero points of dtype {} and \
         sizes {:?}",
        scheme.name(),
        scales.dtype(),
        scales.sizes().as_slice(),
        zero_points.dtype(),
        zero_points.sizes().as_slice()
    );
    let (scales, zero_points) = (scales.base().clone(), zero_points.base().clone());
    Ok(Arc::new(match exact {
        true => Quantizer::PerChannel { scales, zero_points, axis },
        false => Quantizer::PerChannelFloat { scales, zero_points, axis },
    }))
}

impl Saved {
    /// The quantizer of a tensor, as the tuple that readers take.
    pub(super) fn write_quantizer(
        &mut self,
        writer: &mut Writer<'_>,
        quantizer: &Quantizer,
    ) -> Result<()> {
        writer.raw(b"(");
        writer.global("torch", quantizer.scheme().name());
        if let Some((scale, zero_point)) = quantizer.of_tensor() {
            writer.value(&Value::Float(scale))?;
            writer.value(&Value::Int(zero_point))?;
        }
        if let Some((scales, zero_points, axis)) = quantizer.of_channels() {
            self.write(writer, &scales.clone().into())?;
            self.write(writer, &zero_points.clone().into())?;
            writer.value(&Value::Int(axis))?;
        }
        writer.raw(b"t");
        Ok(())
    }
}
