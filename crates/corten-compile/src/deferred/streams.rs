//! Streams of GPUs: a program runs in the one that was current when its calls were recorded.

use corten_core::{Device, DeviceStream, DeviceStreams, Result, device_streams};

/// Where the calls of a program on a GPU run.
#[derive(Clone, Copy, Default)]
pub(super) struct RecordedStream(Option<DeviceStream>);

impl RecordedStream {
    /// Whether a call on a device belongs into the program: those of the host always do, others where all are on
    /// one device and in one stream.
    pub(super) fn takes(&mut self, device: Device) -> bool {
        if device.is_cpu() {
            return true;
        }
        let Some(streams) = device_streams() else { return true };
        let current = streams.current(device.index);
        *self.0.get_or_insert(current) == current
    }

    /// Makes the stream the current one until what is returned is dropped.
    ///
    /// # Errors
    /// Those of the back end.
    pub(super) fn enter(self) -> Result<Option<Entered>> {
        let (Some(stream), Some(streams)) = (self.0, device_streams()) else { return Ok(None) };
        let device = streams.current_device();
        let entered = Entered { streams, device, previous: streams.current(stream.device) };
        streams.make_current(stream.device, stream)?;
        Ok(Some(entered))
    }
}

/// Restores the device and the stream that were current.
pub(super) struct Entered {
    streams: &'static dyn DeviceStreams,
    device: i8,
    /// Of the device whose stream was entered.
    previous: DeviceStream,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let own = self.streams.current(self.device);
        let own = if own.device == self.previous.device { self.previous } else { own };
        // They were current before: the back end knows them.
        let _ = self.streams.make_current(self.previous.device, self.previous);
        let _ = self.streams.make_current(self.device, own);
    }
}
