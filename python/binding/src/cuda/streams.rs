//! Streams by device and number, and the current one of each device.

use super::{device_index, events};
use crate::args::{Bound, parser};
use crate::py::gil::detach;
use crate::py::{Args, Obj, Py, ffi, method};
use corten::cuda::Stream;

/// PyTorch's number of the device type.
const CUDA: i64 = 1;

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cuda_getCurrentStream", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_getCurrentStream(int device)").parse(None, args)?;
            described(Stream::current(device_index(bound.int(0)?)?))
        }),
        method!("_cuda_getDefaultStream", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_getDefaultStream(int device)").parse(None, args)?;
            described(Stream::default_of(device_index(bound.int(0)?)?))
        }),
        method!("_cuda_getCurrentRawStream", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_getCurrentRawStream(int device)").parse(None, args)?;
            Obj::uint(Stream::current(device_index(bound.int(0)?)?).raw() as u64)
        }),
        method!("_cuda_getStreamFromExternal", from_external),
        method!("_cuda_setStream", set_stream),
        method!("_cuda_isCurrentStreamCapturing", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            Stream::current(-1).is_capturing()?
        ))),
        method!("_cuda_newStream", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_newStream(int device, int priority)").parse(None, args)?;
            let priority = i32::try_from(bound.int(1)?).unwrap_or(i32::MIN);
            described(Stream::new(device_index(bound.int(0)?)?, priority)?)
        }),
        method!("_cuda_streamHandle", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_streamHandle(int device, int stream)").parse(None, args)?;
            Obj::uint(named(&bound)?.raw() as u64)
        }),
        method!("_cuda_streamPriority", |_m: &Obj, args: Args<'_>| {
            let bound =
                parser!("_cuda_streamPriority(int device, int stream)").parse(None, args)?;
            Obj::int(named(&bound)?.priority()?.into())
        }),
        method!("_cuda_streamIsCapturing", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_streamIsCapturing(int device, int stream)");
            let bound = parser.parse(None, args)?;
            Ok(Obj::bool(named(&bound)?.is_capturing()?))
        }),
        method!("_cuda_streamQuery", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_streamQuery(int device, int stream)").parse(None, args)?;
            Ok(Obj::bool(named(&bound)?.query()?))
        }),
        method!("_cuda_streamSynchronize", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_streamSynchronize(int device, int stream)");
            let stream = named(&parser.parse(None, args)?)?;
            detach(|| stream.synchronize())?;
            Ok(Obj::none())
        }),
        method!("_cuda_streamWaitEvent", |_m: &Obj, args: Args<'_>| {
            let parser = parser!("_cuda_streamWaitEvent(int device, int stream, any event)");
            let bound = parser.parse(None, args)?;
            events::wait(named(&bound)?, bound.object(2)?)?;
            Ok(Obj::none())
        }),
    ]
}

/// The stream of the first two arguments, device and number.
fn named(bound: &Bound<'_>) -> Py<Stream> {
    Ok(Stream::from_id(device_index(bound.int(0)?)?, bound.int(1)?)?)
}

/// The number, the device and the device type, as PyTorch's functions give streams.
fn described(stream: Stream) -> Py<Obj> {
    Obj::int_tuple(&[stream.id(), stream.device().into(), CUDA])
}

/// The stream that another library made, from its address.
fn from_external(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_cuda_getStreamFromExternal(int handle, int device)");
    let bound = parser.parse(None, args)?;
    let (handle, device) = (bound.int(0)? as usize, device_index(bound.int(1)?)?);
    // SAFETY: the program promises, as in PyTorch, that the stream exists while it is used.
    described(unsafe { Stream::external(device, handle) })
}

fn set_stream(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_cuda_setStream(int stream_id, int device_index, int device_type=1)");
    let bound = parser.parse(None, args)?;
    let device = device_index(bound.int(1)?)?;
    let stream = Stream::from_id(device, bound.int(0)?)?;
    if corten::cuda::current_device() != stream.device() {
        corten::cuda::set_device(stream.device())?;
    }
    stream.make_current();
    Ok(Obj::none())
}
