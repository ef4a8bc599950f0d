//! Tensors whose memory appears when it is first written.
//!
//! Two things can be missing independently of each other: the dtype, until the first typed access,
//! and the memory, while there are elements but no data. Sizes are always valid. The operations keep
//! the names they have in Caffe2; user code resizes with [`TensorBase::resize`], which never frees
//! memory.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::TensorBase;
use super::base::{Info, Parts, extend_keys};
use super::version::VersionSlot;
use crate::geometry::{checked_numel, contiguous_strides};
use crate::{DType, Device, Dims, Element, KeySet, Layout, Result, Storage, bail, ensure};

static KEEP_ON_SHRINK: AtomicBool = AtomicBool::new(true);
static MAX_KEEP_ON_SHRINK: AtomicI64 = AtomicI64::new(i64::MAX);

/// Whether [`Lazy::resize`] to a smaller size keeps the memory (default: yes), and how many unused
/// bytes it keeps at most (default: any number).
pub fn set_keep_on_shrink(keep: bool, max_bytes: i64) {
    KEEP_ON_SHRINK.store(keep, Ordering::Relaxed);
    MAX_KEEP_ON_SHRINK.store(max_bytes, Ordering::Relaxed);
}

impl TensorBase {
    /// A tensor of shape `[0]` without a dtype and without memory.
    pub fn uninitialized(device: Device) -> Result<Self> {
        let storage = Storage::new(0, device)?;
        let keys = KeySet::for_tensor(device.device_type, Layout::Strided, DType::Undefined);
        let parts = Parts {
            storage: Some(storage),
            dtype: DType::Undefined,
            device,
            keys: extend_keys(keys),
            version: VersionSlot::own(),
            flags: 0,
        };
        Ok(Self::from_parts(parts, &[0], &[1], 0, 0))
    }

    /// The operations on memory that appears late.
    pub fn lazy(&self) -> Lazy<'_> {
        Lazy(self)
    }

    /// Whether the dtype is known.
    pub fn dtype_initialized(&self) -> bool {
        self.dtype() != DType::Undefined
    }

    /// Whether the memory is there: there is data, or there are no elements.
    pub fn storage_initialized(&self) -> bool {
        let has_memory =
            |storage: Storage| storage.flush().is_ok() && !storage.data_ptr().is_null();
        self.numel() == 0 || self.storage_opt().is_some_and(has_memory)
    }
}

/// The operations on memory that appears late, of one tensor.
///
/// ```
/// use corten_core::{DType, Device, TensorBase};
///
/// let x = TensorBase::uninitialized(Device::CPU)?;
/// assert!(!x.dtype_initialized());
/// x.lazy().resize(&[2, 3])?;
/// x.lazy().raw_mutable_data(DType::Float32)?;
/// assert!(x.storage_initialized());
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lazy<'a>(&'a TensorBase);

impl Lazy<'_> {
    /// The data as `T`, of a tensor that has dtype and memory; null if there are no elements.
    pub fn data<T: Element>(self) -> Result<*const T> {
        let tensor = self.0;
        ensure!(
            tensor.dtype_initialized(),
            Runtime,
            "Cannot access data pointer of Tensor that doesn't have initialized dtype (e.g., \
             caffe2::Tensor x(CPU), prior to calling mutable_data<T>() on x)"
        );
        ensure!(
            tensor.storage_initialized(),
            Runtime,
            "The tensor has a non-zero number of elements, but its data is not allocated yet."
        );
        check_dtype::<T>(tensor)?;
        Ok(tensor.data_ptr().cast_const().cast())
    }

    /// The data as `T`; gives the tensor that dtype and memory if it has not.
    pub fn mutable_data<T: Element>(self) -> Result<*mut T> {
        if self.0.dtype() == T::DTYPE && self.0.storage_initialized() {
            return Ok(self.0.data_ptr().cast());
        }
        Ok(self.raw_mutable_data(T::DTYPE)?.cast())
    }

    /// As [`mutable_data`](Self::mutable_data), for a dtype known at run time only.
    ///
    /// A buffer that is large enough is reused under another dtype; a smaller one is replaced and
    /// its contents are lost.
    pub fn raw_mutable_data(self, dtype: DType) -> Result<*mut u8> {
        let tensor = self.0;
        ensure!(dtype != DType::Undefined, Runtime, "raw_mutable_data needs a dtype");
        if tensor.dtype() == dtype && tensor.storage_initialized() {
            return Ok(tensor.data_ptr());
        }
        tensor.check_metadata_change("raw_mutable_data")?;
        let geometry = tensor.geometry();
        tensor.set_dtype(dtype);
        tensor.store_geometry(&geometry.sizes, &geometry.strides, 0, geometry.numel);
        let needed = bytes(geometry.numel, dtype)?;
        let storage = self.storage()?;
        let reusable = storage.nbytes() >= needed && !storage.data_ptr().is_null();
        if geometry.numel > 0 && !reusable {
            self.require_unshared(&storage)?;
            storage.reset()?;
            storage.resize(needed)?;
        }
        tensor.set_device(storage.device());
        Ok(tensor.data_ptr())
    }

    /// Sets a contiguous shape. Returns whether the number of elements changed.
    pub fn set_dims(self, sizes: &[i64]) -> Result<bool> {
        self.0.check_metadata_change("SetDims")?;
        let (strides, numel) = (contiguous_strides(sizes)?, checked_numel(sizes)?);
        let changed = numel != self.0.numel();
        self.0.store_geometry(sizes, &strides, self.0.storage_offset(), numel);
        Ok(changed)
    }

    /// Sets a shape; frees memory that is too small for it, or too large to keep. New memory appears
    /// with the next [`mutable_data`](Self::mutable_data).
    pub fn resize(self, sizes: &[i64]) -> Result<()> {
        if !self.set_dims(sizes)? {
            return Ok(());
        }
        let tensor = self.0;
        let needed = bytes(tensor.storage_offset() + tensor.numel(), tensor.dtype())?;
        let present = self.storage()?.nbytes();
        let too_small = present < needed;
        let excess = i64::try_from(present.saturating_sub(needed)).unwrap_or(i64::MAX);
        let keep = KEEP_ON_SHRINK.load(Ordering::Relaxed)
            && excess <= MAX_KEEP_ON_SHRINK.load(Ordering::Relaxed);
        let free = too_small || (!tensor.is_reserved() && !keep);
        if free && tensor.storage_initialized() { self.free_memory() } else { Ok(()) }
    }

    /// Sets another contiguous shape with the same number of elements; the memory stays.
    pub fn reshape(self, sizes: &[i64]) -> Result<()> {
        let tensor = self.0;
        ensure!(
            tensor.is_contiguous(),
            Runtime,
            "Right now Reshape is only supported for contiguous Tensor."
        );
        ensure!(
            sizes.iter().all(|&size| size >= 0),
            Runtime,
            "Reshape expects no negative dimension"
        );
        let numel = checked_numel(sizes)?;
        ensure!(
            numel == tensor.numel(),
            Runtime,
            "New size and old size are not equal. You cannot use Reshape, but should use Resize. \
             The old caffe2 mixes Reshape and Resize but this behavior has been changed. If you \
             find this error, most likely you will need to change corresponding code from Reshape \
             to Resize. (old {}, new {numel})",
            tensor.numel()
        );
        self.set_dims(sizes).map(drop)
    }

    /// Frees the memory; sizes and dtype stay. A shared storage is left to the others.
    pub fn free_memory(self) -> Result<()> {
        let tensor = self.0;
        let storage = self.storage()?;
        // One handle is this function's, one the tensor's.
        if storage.use_count() > 2 || !storage.is_resizable() {
            tensor.swap_storage(Some(Storage::new(0, tensor.device())?));
        } else {
            storage.reset()?;
        }
        let geometry = tensor.geometry();
        tensor.store_geometry(&geometry.sizes, &geometry.strides, 0, geometry.numel);
        Ok(())
    }

    /// Makes memory for `outer` rows; the contents are lost, the sizes stay.
    pub fn reserve_space(self, outer: i64) -> Result<()> {
        let tensor = self.0;
        ensure!(
            tensor.is_contiguous(),
            Runtime,
            "Right now ReserveSpace is only supported for contiguous Tensor."
        );
        let sizes = tensor.sizes();
        ensure!(!sizes.is_empty(), Runtime, "ReserveSpace needs at least one dimension");
        let storage = self.storage()?;
        self.require_unshared(&storage)?;
        let mut capacity = sizes.clone();
        capacity[0] = outer;
        let needed = bytes(checked_numel(&capacity)?, tensor.dtype())?;
        if storage.nbytes() >= needed {
            return Ok(());
        }
        storage.reset()?;
        storage.resize(needed)?;
        tensor.store_geometry(&sizes, &tensor.strides(), 0, tensor.numel());
        tensor.set_flag(Info::RESERVED, true);
        Ok(())
    }

    /// Adds `rows` rows, keeping the contents. When the memory must grow, it grows by at least
    /// `growth_percent`.
    pub fn extend(self, rows: i64, growth_percent: f32) -> Result<()> {
        let tensor = self.0;
        let sizes = tensor.sizes();
        ensure!(!sizes.is_empty(), Runtime, "Extend needs at least one dimension");
        ensure!(rows >= 0, Runtime, "`num` must be non-negative for Extend");
        ensure!(
            tensor.is_contiguous(),
            Runtime,
            "Right now Extend is only supported for contiguous Tensor."
        );
        let mut extended = sizes.clone();
        extended[0] += rows;
        let storage = self.storage()?;
        if storage.data_ptr().is_null() {
            return self.resize(&extended);
        }
        let needed = bytes(tensor.storage_offset() + checked_numel(&extended)?, tensor.dtype())?;
        if needed > storage.nbytes() {
            let grown = (sizes[0] as f32 * (1.0 + growth_percent / 100.0)).ceil() as i64;
            self.grow(&storage, &extended, extended[0].max(grown))?;
        }
        self.set_dims(&extended).map(drop)
    }

    /// Moves the contents to memory with room for `rows` rows.
    fn grow(self, storage: &Storage, sizes: &Dims, rows: i64) -> Result<()> {
        let tensor = self.0;
        self.require_unshared(storage)?;
        let mut capacity = sizes.clone();
        capacity[0] = rows;
        let elements = tensor.storage_offset() + checked_numel(&capacity)?;
        storage.resize(bytes(elements, tensor.dtype())?)?;
        tensor.set_flag(Info::RESERVED, true);
        Ok(())
    }

    /// Takes over storage, dtype and offset of a tensor with the same number of elements.
    pub fn share_data(self, source: &TensorBase) -> Result<()> {
        let tensor = self.0;
        tensor.check_metadata_change("ShareData")?;
        ensure!(
            source.numel() == tensor.numel(),
            Runtime,
            "Size mismatch - did you call reshape before sharing the data?"
        );
        ensure!(
            source.storage_initialized(),
            Runtime,
            "Source tensor has no content and has size > 0"
        );
        let geometry = tensor.geometry();
        tensor.swap_storage(Some(source.storage()?));
        tensor.set_dtype(source.dtype());
        tensor.set_device(source.device());
        let offset = source.storage_offset();
        tensor.store_geometry(&geometry.sizes, &geometry.strides, offset, geometry.numel);
        Ok(())
    }

    /// Makes the tensor use memory of somebody else. `nbytes` of 0 means: as much as it needs.
    pub fn share_external_pointer(
        self,
        data: crate::DataPtr,
        dtype: DType,
        nbytes: usize,
    ) -> Result<()> {
        let tensor = self.0;
        tensor.check_metadata_change("ShareExternalPointer")?;
        ensure!(
            dtype != DType::Undefined,
            Runtime,
            "To share with a raw external pointer you need to pass in an initialized data_type(TypeMeta)."
        );
        let geometry = tensor.geometry();
        let nbytes = if nbytes == 0 { bytes(geometry.numel, dtype)? } else { nbytes };
        tensor.set_dtype(dtype);
        tensor.set_device(data.device());
        tensor.swap_storage(Some(Storage::from_data_ptr(data, nbytes)));
        tensor.store_geometry(&geometry.sizes, &geometry.strides, 0, geometry.numel);
        Ok(())
    }

    fn storage(self) -> Result<Storage> {
        let storage = self.0.storage()?;
        storage.flush()?;
        Ok(storage)
    }

    /// Missing memory must belong to one tensor: the others would not notice when it appears.
    fn require_unshared(self, storage: &Storage) -> Result<()> {
        // One handle is the caller's, one the tensor's.
        ensure!(storage.use_count() <= 2, Runtime, "the storage is shared with another tensor");
        Ok(())
    }
}

fn check_dtype<T: Element>(tensor: &TensorBase) -> Result<()> {
    let (found, wanted) = (tensor.dtype(), T::DTYPE);
    if found != wanted {
        bail!(Runtime, "expected scalar type {wanted} but found {found}");
    }
    Ok(())
}

fn bytes(elements: i64, dtype: DType) -> Result<usize> {
    match usize::try_from(elements).ok().and_then(|count| count.checked_mul(dtype.itemsize())) {
        Some(nbytes) => Ok(nbytes),
        None => bail!(Runtime, "Storage size calculation overflowed with {elements} elements"),
    }
}
