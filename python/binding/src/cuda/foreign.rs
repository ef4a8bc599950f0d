//! Memory that is not this library's: of other libraries on a GPU, of other processes, and of the host.

use super::device_index;
use crate::args::parser;
use crate::py::errors::value_error;
use crate::py::gil::{Shared, detach};
use crate::py::{Args, Obj, Py, ffi, method};
use crate::tensor;
use corten::cuda::{self, Stream};
use corten_core::Device;
use corten_core::geometry::{ForeignMemory, ForeignStrides};

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = memory_functions();
    rows.extend(settings_functions());
    rows
}

/// Memory that others have, or that others see.
fn memory_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cuda_tensorFromAddress", tensor_from_address),
        method!("_cuda_deviceOfAddress", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_deviceOfAddress(any address)").parse(None, args)?;
            match cuda::device_of_address(address(bound.object(0)?)?)? {
                Some(device) => Obj::int(device.into()),
                None => Ok(Obj::none()),
            }
        }),
        method!("_cuda_mapped", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_mapped(Tensor tensor, int device)").parse(None, args)?;
            tensor::wrap(&cuda::mapped(&bound.tensor(0)?, device_index(bound.int(1)?)?)?)
        }),
        method!("_cuda_hostRegister", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_hostRegister(any address, int size, int flags)");
            let bound = parser.parse(None, args)?;
            let (size, flags) = (bound.int(1)? as usize, bound.int(2)? as u32);
            let start = address(bound.object(0)?)? as usize;
            // SAFETY: the program promises, as in CUDA, that the memory stays until it is unregistered.
            Obj::int(detach(|| unsafe { cuda::register_host(start, size, flags) })?.into())
        }),
        method!("_cuda_hostUnregister", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_hostUnregister(any address)").parse(None, args)?;
            Obj::int(cuda::unregister_host(address(bound.object(0)?)? as usize)?.into())
        }),
        method!("_cuda_ipcMemoryHandle", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_ipcMemoryHandle(int device, any address)");
            let bound = parser.parse(None, args)?;
            let device = device_index(bound.int(0)?)?;
            let (name, offset) = cuda::ipc_memory_handle(device, address(bound.object(1)?)?)?;
            Obj::tuple([Obj::bytes(&name), Obj::uint(offset)])
        }),
        method!("_cuda_openIpcMemory", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_openIpcMemory(int device, any handle)");
            let bound = parser.parse(None, args)?;
            let name = bound.object(1)?.as_bytes()?.try_into();
            let name = name.map_err(|_| value_error("a handle of memory has 64 bytes"))?;
            Obj::uint(cuda::open_ipc_memory(device_index(bound.int(0)?)?, name)?)
        }),
        method!("_cuda_closeIpcMemory", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_closeIpcMemory(int device, any address)");
            let bound = parser.parse(None, args)?;
            let (device, start) = (device_index(bound.int(0)?)?, address(bound.object(1)?)?);
            // SAFETY: the object that stands for the opened memory is gone, and with it all tensors over it.
            detach(|| unsafe { cuda::close_ipc_memory(device, start) })?;
            Ok(Obj::none())
        }),
    ]
}

/// Switches for those who look for mistakes.
fn settings_functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cuda_profiler", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_profiler(bool collects)").parse(None, args)?;
            cuda::profiler(bound.bool(0)?)?;
            Ok(Obj::none())
        }),
        method!("_cuda_sleep", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_sleep(int cycles)").parse(None, args)?;
            cuda::sleep(bound.int(0)?)?;
            Ok(Obj::none())
        }),
        method!("_cuda_setSyncDebugMode", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_setSyncDebugMode(int mode)").parse(None, args)?;
            cuda::set_sync_debug_mode(bound.int(0)? as u8);
            Ok(Obj::none())
        }),
        method!("_cuda_getSyncDebugMode", |_m: &Obj, _a: Args<'_>| Obj::int(
            cuda::sync_debug_mode().into()
        )),
        method!("_cuda_setCaching", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_setCaching(bool kept)").parse(None, args)?;
            cuda::set_caching(bound.bool(0)?);
            Ok(Obj::none())
        }),
        method!("_cuda_isCaching", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(cuda::is_caching()))),
    ]
}

/// An address, which may be above the largest signed number.
fn address(object: &Obj) -> Py<u64> {
    crate::types::generator::seed_from(object)
}

/// A tensor over memory of a GPU that an object keeps alive: the object, the address, sizes, strides in bytes
/// or `None`, dtype, device, and the stream to wait for: its address as the array interface has it, or `None`.
fn tensor_from_address(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "_cuda_tensorFromAddress(any owner, any address, int[] sizes, int[]? strides, ScalarType dtype, \
         int device, any stream=None)"
    );
    let bound = parser.parse(None, args)?;
    let start = address(bound.object(1)?)?;
    let sizes = bound.ints(2)?;
    let strides = if bound.has(3) { Some(bound.ints(3)?) } else { None };
    let dtype = bound.dtype_opt(4)?.ok_or_else(|| value_error("a dtype is expected"))?;
    let device = device_index(bound.int(5)?)?;
    let memory = ForeignMemory {
        address: start as usize,
        byte_offset: 0,
        sizes: &sizes,
        strides: match &strides {
            Some(strides) => ForeignStrides::Bytes(strides),
            None => ForeignStrides::Contiguous,
        },
        itemsize: dtype.itemsize(),
        available: None,
    };
    let geometry = memory.check().map_err(|error| memory.explain(error))?;
    if let Some(stream) = bound.get(6).filter(|stream| !stream.is_none()) {
        wait_for(device, stream.to_i64()?)?;
    }
    let owner = Box::new(Shared::new(bound.object(0)?.clone()));
    let place = Device::cuda(device);
    let data = start as *mut u8;
    tensor::wrap(&tensor::over_foreign_on(place, owner, data, &geometry, dtype, false)?)
}

/// Lets this thread's work on a GPU wait for a stream that the array interface names.
fn wait_for(device: i8, stream: i64) -> Py<()> {
    let producer = match stream {
        0 => {
            return Err(value_error(
                "__cuda_array_interface__: stream 0 is ambiguous between None, 1 and 2",
            ));
        }
        1 => Stream::default_of(device),
        // The default stream of each thread has this address too.
        // SAFETY: the producer promises that the stream exists.
        address => unsafe { Stream::external(device, address as usize) },
    };
    let own = Stream::current(device);
    if own != producer {
        own.wait_stream(producer)?;
    }
    Ok(())
}
