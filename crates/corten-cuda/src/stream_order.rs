//! Streams by short numbers, for those who order work without knowing CUDA.

use crate::caching::StreamId;
use crate::device::{current_device, is_in_bad_fork, is_initialized, set_device};
use crate::memory::device_memory;
use crate::stream::Stream;
use corten_core::{DeviceStream, DeviceStreams, Result};

/// The streams of this back end.
pub(crate) struct CudaStreams;

fn short(stream: Stream) -> DeviceStream {
    DeviceStream { device: stream.device(), number: stream.number() }
}

fn long(stream: DeviceStream) -> Result<Stream> {
    Stream::from_number(stream.device, stream.number)
}

impl DeviceStreams for CudaStreams {
    fn in_use(&self) -> bool {
        is_initialized() && !is_in_bad_fork()
    }

    fn current_device(&self) -> i8 {
        current_device()
    }

    fn current(&self, device: i8) -> DeviceStream {
        short(Stream::current(device))
    }

    fn make_current(&self, device: i8, stream: DeviceStream) -> Result<()> {
        if current_device() != device {
            set_device(device)?;
        }
        if self.current(stream.device) != stream {
            long(stream)?.make_current();
        }
        Ok(())
    }

    fn wait(&self, waiting: DeviceStream, done: DeviceStream) -> Result<()> {
        long(waiting)?.wait_stream(long(done)?)
    }

    fn record(&self, memory: *const u8, user: DeviceStream) -> Result<()> {
        let stream = StreamId(long(user)?.raw() as u64);
        // Memory of other libraries is no block of the cache.
        let _ = device_memory()?.record_stream(user.device as usize, memory as u64, stream);
        Ok(())
    }
}
