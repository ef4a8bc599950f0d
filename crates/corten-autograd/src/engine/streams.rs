//! The order between streams: a node runs in the stream in which its forward operator ran.

use crate::node::Node;
use corten_core::{DeviceStream, DeviceStreams, Result, device_streams};
use corten_ops::Tensor;
use smallvec::SmallVec;

/// The number of the stream in which this thread computes on a GPU.
pub(crate) fn stream_number(device: i8) -> u16 {
    device_streams().map_or(0, |streams| streams.current(device).number)
}

/// The stream of a node; none for one whose forward operator ran on the host.
fn stream_of(node: &Node) -> Option<DeviceStream> {
    let metadata = node.input_metadata().iter().find(|metadata| metadata.device.is_cuda())?;
    Some(DeviceStream { device: metadata.device.index, number: metadata.stream })
}

/// What a backward pass knows of streams; nothing while no GPU is in use.
pub(super) struct Order {
    streams: Option<&'static dyn DeviceStreams>,
    used: SmallVec<[DeviceStream; 2]>,
}

impl Order {
    pub(super) fn new() -> Self {
        Self { streams: device_streams(), used: SmallVec::new() }
    }

    /// Makes the GPU and the stream of a node the current ones until the guard is dropped.
    #[inline]
    pub(super) fn enter(&mut self, node: &Node) -> Result<Option<StreamGuard>> {
        match self.streams {
            Some(streams) => self.enter_with(streams, node),
            None => Ok(None),
        }
    }

    fn enter_with(
        &mut self,
        streams: &'static dyn DeviceStreams,
        node: &Node,
    ) -> Result<Option<StreamGuard>> {
        let Some(stream) = stream_of(node) else { return Ok(None) };
        if !self.used.contains(&stream) {
            self.used.push(stream);
        }
        StreamGuard::new(streams, stream).map(Some)
    }

    /// Lets a node's stream wait for a gradient that the current streams compute.
    #[inline]
    pub(super) fn hand_over(&self, node: &Node, grad: &Tensor) -> Result<()> {
        match self.streams {
            Some(streams) if grad.defined() && grad.device().is_cuda() => {
                let Some(consumer) = stream_of(node) else { return Ok(()) };
                let producer = streams.current(grad.device().index);
                if producer == consumer {
                    return Ok(());
                }
                streams.wait(consumer, producer)?;
                match grad.storage_opt() {
                    Some(storage) => streams.record(storage.data_ptr(), consumer),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Lets the caller's streams wait for all that the pass has used.
    pub(super) fn finish(&self) -> Result<()> {
        let Some(streams) = self.streams else { return Ok(()) };
        for &used in &self.used {
            let caller = streams.current(used.device);
            if caller != used {
                streams.wait(caller, used)?;
            }
        }
        Ok(())
    }
}

/// A node's GPU and stream as the current ones of this thread.
pub(super) struct StreamGuard {
    streams: &'static dyn DeviceStreams,
    device: i8,
    stream: DeviceStream,
}

impl StreamGuard {
    fn new(streams: &'static dyn DeviceStreams, stream: DeviceStream) -> Result<Self> {
        let guard = Self {
            streams,
            device: streams.current_device(),
            stream: streams.current(stream.device),
        };
        streams.make_current(stream.device, stream)?;
        Ok(guard)
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        // Both were current before, so that they exist.
        let _ = self.streams.make_current(self.device, self.stream);
    }
}
