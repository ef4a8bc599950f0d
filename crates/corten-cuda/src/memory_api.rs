//! What programs ask of devices and their memory, under the names of `torch.cuda`.

use crate::caching::PoolId;
use crate::device::{device_count, resolve};
use crate::driver::driver;
use crate::memory::{device_memory, is_pinned, pinned_storage};
use corten_core::{KeySet, Result, TensorBase, ensure};
use corten_ops::{Tensor, op};
use std::collections::BTreeMap;

/// Whether there is a driver and a device. Never an error.
///
/// ```
/// let place = if corten_cuda::is_available() { "a GPU" } else { "the CPU" };
/// println!("tensors are on {place}");
/// ```
pub fn is_available() -> bool {
    driver().is_ok() && device_count() > 0
}

fn place(device: i8) -> usize {
    usize::try_from(resolve(device)).unwrap_or(0)
}

/// All counters of a device's caching allocator, under PyTorch's keys: `"allocated_bytes.all.current"`,
/// `"num_alloc_retries"` and so on. A negative `device` is the current one, here and below.
///
/// # Errors
/// `Runtime` for a number that no device can have.
pub fn memory_stats(device: i8) -> Result<BTreeMap<String, i64>> {
    Ok(device_memory()?.stats(place(device))?.flatten().into_iter().collect())
}

/// The bytes that tensors on a device occupy, each rounded to 512.
///
/// ```
/// # fn main() -> corten_core::Result<()> {
/// if corten_cuda::is_available() {
///     assert!(corten_cuda::memory_allocated(0)? <= corten_cuda::memory_reserved(0)?);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`memory_stats`].
pub fn memory_allocated(device: i8) -> Result<u64> {
    Ok(device_memory()?.stats(place(device))?.allocated_bytes.all.current as u64)
}

/// The most that [`memory_allocated`] has been since the last [`reset_peak_memory_stats`].
///
/// # Errors
/// As [`memory_stats`].
pub fn max_memory_allocated(device: i8) -> Result<u64> {
    Ok(device_memory()?.stats(place(device))?.allocated_bytes.all.peak as u64)
}

/// The bytes that the caching allocator has from the driver, for tensors or for later ones.
///
/// # Errors
/// As [`memory_stats`].
pub fn memory_reserved(device: i8) -> Result<u64> {
    Ok(device_memory()?.stats(place(device))?.reserved_bytes.all.current as u64)
}

/// Begins a new measurement of peaks.
///
/// # Errors
/// As [`memory_stats`].
pub fn reset_peak_memory_stats(device: i8) -> Result<()> {
    device_memory()?.reset_peak_stats(place(device))
}

/// Gives the memory that no tensor has back to the driver, so that other programs can have it.
///
/// # Errors
/// Those of the driver.
pub fn empty_cache() -> Result<()> {
    device_memory()?.empty_cache(PoolId::DEFAULT)
}

/// The tensor in pinned memory, with its strides; itself where it is pinned already. Copies between pinned memory
/// and a device run beside the host's work.
///
/// # Errors
/// `Runtime` for a tensor that is not on the CPU, and without a driver; `OutOfMemory` where the host has
/// none left.
pub fn pin_memory(tensor: &Tensor) -> Result<Tensor> {
    let device = tensor.device();
    ensure!(
        device.is_cpu(),
        Runtime,
        "cannot pin a tensor on {device}: only dense CPU tensors can be pinned"
    );
    if is_tensor_pinned(tensor) {
        return Ok(tensor.clone());
    }
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let steps = sizes.iter().zip(strides.iter()).map(|(&size, &stride)| (size - 1) * stride);
    let elements = if tensor.numel() == 0 { 0 } else { 1 + steps.sum::<i64>() };
    let storage = pinned_storage(elements as usize * tensor.itemsize())?;
    let keys = KeySet::for_tensor(device.device_type, tensor.layout(), tensor.dtype());
    let base = TensorBase::new_with_storage(storage, tensor.dtype(), keys, &sizes, &strides, 0)?;
    let pinned = Tensor::from(base);
    op::copy_(&pinned, &op::detach(tensor)?, false)?;
    Ok(pinned)
}

/// Whether a tensor's memory is pinned. Never an error.
pub fn is_tensor_pinned(tensor: &Tensor) -> bool {
    tensor.device().is_cpu()
        && tensor.storage_opt().is_some_and(|storage| is_pinned(storage.data_ptr()))
}
