//! Queues of work of devices, as far as those who order work need to know of them.

use crate::Result;
use std::sync::OnceLock;

/// A stream of a GPU.
///
/// ```
/// use corten_core::DeviceStream;
///
/// let default = DeviceStream { device: 0, number: 0 };
/// assert_ne!(default, DeviceStream { number: 3, ..default });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStream {
    /// The index of the GPU.
    pub device: i8,
    /// The back end's short number of the stream; 0 is the default one.
    pub number: u16,
}

/// What the back end of GPUs answers about streams.
///
/// ```
/// use corten_core::{DeviceStream, DeviceStreams, Result};
///
/// /// A GPU that was never used.
/// struct Idle;
///
/// impl DeviceStreams for Idle {
///     fn in_use(&self) -> bool {
///         false
///     }
///
///     fn current_device(&self) -> i8 {
///         0
///     }
///
///     fn current(&self, device: i8) -> DeviceStream {
///         DeviceStream { device, number: 0 }
///     }
///
///     fn make_current(&self, _: i8, _: DeviceStream) -> Result<()> {
///         Ok(())
///     }
///
///     fn wait(&self, _: DeviceStream, _: DeviceStream) -> Result<()> {
///         Ok(())
///     }
///
///     fn record(&self, _: *const u8, _: DeviceStream) -> Result<()> {
///         Ok(())
///     }
/// }
///
/// assert_eq!(Idle.current(1).device, 1);
/// ```
pub trait DeviceStreams: Sync {
    /// Whether a GPU has been used: before that there is nothing to order.
    fn in_use(&self) -> bool;

    /// The current GPU of this thread.
    fn current_device(&self) -> i8;

    /// The stream in which this thread's work on a GPU is done.
    fn current(&self, device: i8) -> DeviceStream;

    /// Makes a GPU the current one of this thread, and a stream of it the one for its work.
    ///
    /// # Errors
    /// Those of the back end.
    fn make_current(&self, device: i8, stream: DeviceStream) -> Result<()>;

    /// Lets the work of a stream from now on wait for what another one has been given until now.
    ///
    /// # Errors
    /// Those of the back end.
    fn wait(&self, waiting: DeviceStream, done: DeviceStream) -> Result<()>;

    /// Keeps a block of memory from being reused, after it is freed, until a stream has done what it has then.
    /// Memory of others is left alone.
    ///
    /// # Errors
    /// Those of the back end.
    fn record(&self, memory: *const u8, user: DeviceStream) -> Result<()>;
}

static STREAMS: OnceLock<&'static dyn DeviceStreams> = OnceLock::new();

/// Says who knows the streams of GPUs.
pub fn set_device_streams(streams: &'static dyn DeviceStreams) {
    // The first one stays: there is one back end.
    let _ = STREAMS.set(streams);
}

/// The streams of GPUs, once a GPU has been used.
pub fn device_streams() -> Option<&'static dyn DeviceStreams> {
    STREAMS.get().copied().filter(|streams| streams.in_use())
}
