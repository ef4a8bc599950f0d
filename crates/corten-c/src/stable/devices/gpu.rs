//! What the CUDA back end answers.

use super::no_gpu;
use corten::core::{DataPtr, DeviceType, bail, err};
use corten::{Result, Tensor, cuda};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) use cuda::Stream;

fn check() -> Result<()> {
    match cuda::is_available() {
        true => Ok(()),
        false => Err(no_gpu()),
    }
}

pub(super) fn current_device() -> Result<i8> {
    check()?;
    Ok(cuda::current_device())
}

pub(super) fn set_device(device: i8) -> Result<()> {
    check()?;
    cuda::set_device(device)?;
    Ok(())
}

pub(super) fn current_stream(device: i8) -> Result<Stream> {
    check()?;
    Ok(Stream::current(device))
}

pub(super) fn new_stream(device: i8, high_priority: bool) -> Result<Stream> {
    check()?;
    Stream::new(device, -i32::from(high_priority))
}

/// # Safety
/// `stream` must be null or a stream of the device.
pub(super) unsafe fn foreign_stream(device: i8, stream: usize) -> Result<Stream> {
    check()?;
    let current = Stream::current(device);
    if stream == current.raw() {
        return Ok(current);
    }
    match stream {
        0 => Ok(Stream::default_of(device)),
        // SAFETY: the caller's.
        stream => Ok(unsafe { Stream::external(device, stream) }),
    }
}

/// Makes a stream the current one and gives the one that was.
pub(super) fn make_current(stream: &Stream) -> Result<Stream> {
    Ok(stream.make_current())
}

pub(super) fn synchronize(stream: &Stream) -> Result<()> {
    stream.synchronize()
}

pub(super) fn stream_id(stream: &Stream) -> i64 {
    stream.id()
}

pub(super) fn raw_stream(stream: &Stream) -> usize {
    stream.raw()
}

pub(super) fn blas_handle() -> Result<usize> {
    check()?;
    cuda::current_blas_handle()
}

/// Memory that extensions have taken, by its address.
static TAKEN: Mutex<BTreeMap<usize, DataPtr>> = Mutex::new(BTreeMap::new());

fn taken() -> MutexGuard<'static, BTreeMap<usize, DataPtr>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of the caching allocator on the current GPU.
pub(super) fn allocate(nbytes: u64) -> Result<*mut u8> {
    check()?;
    let size = usize::try_from(nbytes).map_err(|_| err!(OutOfMemory, "{nbytes} bytes"))?;
    let memory = corten::core::get_allocator(DeviceType::Cuda)?.allocate(size)?;
    let address = memory.get();
    taken().insert(address as usize, memory);
    Ok(address)
}

pub(super) fn free(memory: *mut u8) -> Result<()> {
    let found = taken().remove(&(memory as usize));
    match (found, memory.is_null()) {
        (None, false) => bail!(Runtime, "no memory was taken at this address"),
        _ => Ok(()),
    }
}

pub(super) fn is_pinned(tensor: &Tensor) -> bool {
    cuda::is_tensor_pinned(tensor)
}
