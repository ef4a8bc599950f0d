//! Tensors of integers with a quantizer.
//!
//! Note [Quantised tensors]
//! A quantised tensor is strided: its integers lie in a storage as those of any tensor, and
//! [`TensorBase::integers`] shows them as one. What they stand for is its quantizer, which shallow copies
//! and views share. The key `Quantized` of its backend takes the place of the dense one, so no kernel of
//! plain numbers sees it: an operator that its block gives no kernel there is refused.
//!
//! A quantizer with scales per channel belongs to a dimension. Views that only a caller with the dimension
//! in mind can make are made by [`TensorBase::view_with_quantizer`]; by strides alone, as
//! [`TensorBase::as_view_of`] makes them, they are refused. So are views within the bytes that elements of
//! 4 or 2 bits share.

use std::sync::Arc;

use super::TensorBase;
use super::base::{Info, Parts, TensorImpl, extend_keys};
use super::version::VersionSlot;
use crate::geometry::{checked_numel, contiguous_strides, is_contiguous, storage_bytes_needed};
use crate::quantizer::quantized_bytes;
use crate::{
    Backend, DType, Device, Dims, DispatchKey, KeySet, Layout, Quantizer, Result, Storage, bail,
    ensure, err,
};

const QUANTIZED: KeySet = KeySet::of(&[DispatchKey::Quantized]);

impl TensorImpl {
    /// Whether this is a tensor of integers that stand for other numbers.
    #[inline]
    pub fn is_quantized(&self) -> bool {
        self.key_set().has_any(QUANTIZED)
    }

    /// What the integers stand for; `None` where the tensor is not quantised, or nobody has said yet.
    pub fn quantizer(&self) -> Option<Arc<Quantizer>> {
        if !self.is_quantized() {
            return None;
        }
        self.extra_parts()?.quantizer.clone()
    }

    /// The quantizer of a quantised tensor.
    ///
    /// # Errors
    /// `Runtime` where the tensor has none.
    pub fn known_quantizer(&self) -> Result<Arc<Quantizer>> {
        self.quantizer().ok_or_else(|| {
            err!(Runtime, "cannot call qscheme on UnknownQuantizer: the tensor has no quantizer")
        })
    }

    /// Says what the integers stand for.
    ///
    /// # Errors
    /// `Runtime` where the tensor is not quantised.
    pub fn set_quantizer(&self, quantizer: Arc<Quantizer>) -> Result<()> {
        ensure!(self.is_quantized(), Runtime, "set_quantizer: the tensor is not quantized");
        self.update_extra_meta(|extra| extra.quantizer = Some(quantizer));
        Ok(())
    }

    /// The bytes that a storage must have for elements of this dtype with this geometry.
    ///
    /// # Errors
    /// `Runtime` where they cannot be counted.
    pub fn bytes_needed(&self, sizes: &[i64], strides: &[i64], offset: i64) -> Result<usize> {
        match self.dtype() {
            packed if packed.elements_per_byte() > 1 => quantized_bytes(sizes, packed),
            dtype => storage_bytes_needed(sizes, strides, dtype.itemsize(), offset),
        }
    }

    /// That another geometry of the same elements leaves each of them its scale.
    pub(super) fn check_geometry_for_quantizer(
        &self,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> Result<()> {
        if !self.is_quantized() {
            return Ok(());
        }
        let several = self.quantizer().is_some_and(|quantizer| quantizer.of_tensor().is_none());
        ensure!(
            !several,
            Runtime,
            "Setting strides is possible only on uniformly quantized tensor"
        );
        check_whole_bytes(self.dtype(), sizes, strides, offset)
    }
}

/// Views within shared bytes are refused. See Note [Quantised tensors].
fn check_whole_bytes(dtype: DType, sizes: &[i64], strides: &[i64], offset: i64) -> Result<()> {
    let whole = dtype.elements_per_byte() == 1
        || (offset == 0 && is_contiguous(sizes, strides, checked_numel(sizes)?));
    ensure!(
        whole,
        Runtime,
        "a view of a tensor of dtype {} must be contiguous and begin where the tensor does: its elements \
         share bytes",
        dtype.name()
    );
    Ok(())
}

impl TensorBase {
    /// A quantised tensor of shape `sizes` with arbitrary contents.
    ///
    /// # Errors
    /// `Runtime` for a dtype that is not quantised, a negative size, or strides of elements that share
    /// bytes that are not those of a contiguous tensor.
    pub fn new_quantized(
        sizes: &[i64],
        strides: Option<&[i64]>,
        dtype: DType,
        device: Device,
        quantizer: Option<Arc<Quantizer>>,
    ) -> Result<Self> {
        super::factory::check_not_negative(sizes)?;
        ensure!(
            dtype.is_quantized(),
            Runtime,
            "ScalarType {dtype} is not supported in new_qtensor."
        );
        let strides = match strides {
            Some(strides) => Dims::from_slice(strides),
            None => contiguous_strides(sizes)?,
        };
        check_whole_bytes(dtype, sizes, &strides, 0)?;
        let bytes = match dtype.elements_per_byte() {
            1 => storage_bytes_needed(sizes, &strides, dtype.itemsize(), 0)?,
            _ => quantized_bytes(sizes, dtype)?,
        };
        let tensor = Self::quantized_over(
            Storage::new(bytes, device)?,
            dtype,
            quantizer,
            (sizes, &strides, 0),
        )?;
        Ok(tensor)
    }

    /// A quantised tensor over a storage. The bounds are the caller's to check.
    ///
    /// # Errors
    /// `Runtime` for a dtype that is not quantised.
    pub fn quantized_over(
        storage: Storage,
        dtype: DType,
        quantizer: Option<Arc<Quantizer>>,
        (sizes, strides, offset): (&[i64], &[i64], i64),
    ) -> Result<Self> {
        ensure!(dtype.is_quantized(), Runtime, "{} is not a quantized dtype", dtype.name());
        let device = storage.device();
        let keys = KeySet::for_tensor(device.device_type, Layout::Strided, dtype);
        let tensor = Self::new_with_storage(storage, dtype, keys, sizes, strides, offset)?;
        if let Some(quantizer) = quantizer {
            tensor.set_quantizer(quantizer)?;
        }
        Ok(tensor)
    }

    /// Another storage of elements that share bytes.
    pub(super) fn set_packed_storage(
        &self,
        storage: Storage,
        offset: i64,
        (sizes, strides, numel): (&[i64], &[i64], i64),
    ) -> Result<()> {
        check_whole_bytes(self.dtype(), sizes, strides, offset)?;
        let needed = quantized_bytes(sizes, self.dtype())?;
        if needed > storage.nbytes() {
            storage.resize(needed)?;
        }
        self.set_device(storage.device());
        self.swap_storage(Some(storage));
        self.store_geometry(sizes, strides, offset, numel);
        Ok(())
    }

    /// The integers of a quantised tensor: a view with the dtype that they are stored as. Elements that
    /// share bytes are shown as the bytes, in one dimension.
    ///
    /// # Errors
    /// `Runtime` where the tensor is not quantised.
    pub fn integers(&self) -> Result<Self> {
        ensure!(self.is_quantized(), Runtime, "the tensor is not quantized");
        let device = self.device();
        let Some(backend) = Backend::of(device.device_type) else {
            bail!(Runtime, "a quantized tensor on {device} cannot be read");
        };
        let dense = KeySet::from_key(DispatchKey::runtime(DispatchKey::Dense, backend));
        let storage = self.storage()?;
        let (mut sizes, mut strides) = (self.sizes(), self.strides());
        let per_byte = self.dtype().elements_per_byte();
        if per_byte > 1 {
            let bytes = (self.numel() as usize).div_ceil(per_byte).min(storage.nbytes());
            (sizes, strides) = (Dims::from_slice(&[bytes as i64]), Dims::from_slice(&[1]));
        }
        let parts = Parts {
            storage: Some(storage),
            dtype: self.dtype().underlying(),
            device,
            keys: extend_keys(dense),
            version: VersionSlot::shared_with(&self.0),
            flags: 0,
        };
        let (offset, numel) = (self.storage_offset(), checked_numel(&sizes)?);
        Ok(Self::from_parts(parts, &sizes, &strides, offset, numel))
    }

    /// A view of a quantised tensor by strides whose elements have another quantizer, as those of a view of one
    /// channel. The bounds are the caller's to check.
    ///
    /// # Errors
    /// `Runtime` where the elements share bytes and the view is not of whole ones.
    pub fn view_with_quantizer(
        &self,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
        quantizer: Option<Arc<Quantizer>>,
    ) -> Result<Self> {
        check_whole_bytes(self.dtype(), sizes, strides, storage_offset)?;
        let parts = Parts {
            storage: Some(self.storage()?),
            dtype: self.dtype(),
            device: self.device(),
            keys: self.key_set() - crate::keys::NAMED,
            version: VersionSlot::shared_with(&self.0),
            flags: 0,
        };
        let numel = checked_numel(sizes)?;
        let view = Self::from_parts(parts, sizes, strides, storage_offset, numel);
        if let Some(quantizer) = quantizer {
            view.set_quantizer(quantizer)?;
        }
        Ok(view)
    }
}

impl Info {
    /// Whether the dtype of a fresh tensor puts it at the dense key.
    #[inline(always)]
    pub(super) fn is_fresh_dense(dtype: DType, device: Device) -> bool {
        device.is_cpu() && !dtype.is_quantized()
    }
}
