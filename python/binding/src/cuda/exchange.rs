//! Order between streams when memory goes to or comes from other libraries.

use crate::py::errors::{buffer_error, type_error};
use crate::py::{Obj, Py};
use corten::cuda::Stream;

/// How DLPack names the legacy default stream.
const LEGACY: i64 = 1;
/// How it names the default stream of each thread.
const PER_THREAD: i64 = 2;

/// Lets the stream of a consumer, which it has named as DLPack wants it, wait for what this library's
/// current stream has been given; -1 asks for no order.
pub(crate) fn hand_over(device: i8, stream: &Obj) -> Py<()> {
    if !stream.is_none() && !stream.is_int() {
        return Err(type_error("stream must be ``int`` or ``none``"));
    }
    let address = if stream.is_none() { LEGACY } else { stream.to_i64()? };
    let consumer = match address {
        -1 => return Ok(()),
        0 => return Err(buffer_error("unsupported stream on CUDA: 0, which is ambiguous")),
        PER_THREAD => return Err(buffer_error("per-thread default stream is not supported.")),
        LEGACY => Stream::default_of(device),
        // SAFETY: the consumer promises that the stream exists.
        address => unsafe { Stream::external(device, address as usize) },
    };
    let own = Stream::current(device);
    if own != consumer {
        consumer.wait_stream(own)?;
    }
    Ok(())
}

/// How a producer is told which stream will use its memory: the current one of the device.
pub(crate) fn stream_for_producer(device: i8) -> Py<Obj> {
    match Stream::current(device).raw() {
        0 => Obj::int(LEGACY),
        address => Obj::uint(address as u64),
    }
}
