//! Events: marks in streams that can be waited for and timed.

use crate::device::{bound, resolve};
use crate::driver::{Handle, RelaxedCapture, driver, error};
use crate::failure;
use crate::stream::Stream;
use corten_core::{Result, bail};

/// CU_EVENT_BLOCKING_SYNC.
const BLOCKING: u32 = 1;
/// CU_EVENT_DISABLE_TIMING.
const DISABLE_TIMING: u32 = 2;
/// CU_EVENT_INTERPROCESS.
const INTERPROCESS: u32 = 4;

/// A mark in a stream. The driver's event is made when it is recorded first, on the stream's device.
///
/// ```
/// use corten_cuda::{Event, Stream};
///
/// # fn main() -> corten_core::Result<()> {
/// if corten_cuda::is_available() {
///     let stream = Stream::current(0);
///     let (mut start, mut end) = (Event::new(true), Event::new(true));
///     start.record(stream)?;
///     // Work that is timed.
///     end.record(stream)?;
///     end.synchronize()?;
///     assert!(start.elapsed_time(&end)? >= 0.0);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Event {
    flags: u32,
    made: Option<(i8, Handle)>,
}

impl Event {
    /// An event that is not recorded yet; with `timing` it also knows when it was reached.
    pub fn new(timing: bool) -> Self {
        Self { flags: if timing { 0 } else { DISABLE_TIMING }, made: None }
    }

    /// Whether waiting threads sleep instead of polling.
    #[must_use]
    pub fn blocking(mut self, blocking: bool) -> Self {
        self.flags = if blocking { self.flags | BLOCKING } else { self.flags & !BLOCKING };
        self
    }

    /// Whether other processes may open the event; such events have no times.
    #[must_use]
    pub fn interprocess(mut self, interprocess: bool) -> Self {
        if interprocess {
            self.flags |= INTERPROCESS | DISABLE_TIMING;
        }
        self
    }

    /// The device on which it was recorded.
    pub fn device(&self) -> Option<i8> {
        self.made.map(|(device, _)| device)
    }

    /// The address that CUDA knows the event by; 0 before it is recorded.
    pub fn raw(&self) -> usize {
        self.made.map_or(0, |(_, handle)| handle.0.addr())
    }

    pub(crate) fn handle(&self) -> Option<Handle> {
        self.made.map(|(_, handle)| handle)
    }

    fn made(&mut self, device: i8) -> Result<Handle> {
        let device = resolve(device);
        match self.made {
            Some((own, handle)) if own == device => Ok(handle),
            Some((own, _)) => bail!(
                Runtime,
                "Event device cuda:{own} does not match recording stream's device cuda:{device}."
            ),
            None => {
                bound(device)?;
                let driver = driver()?;
                let mut handle = Handle::NULL;
                // SAFETY: the driver writes one handle; the device's context is current.
                let status = unsafe { (driver.cuEventCreate)(&mut handle, self.flags) };
                error::check(driver, status)?;
                self.made = Some((device, handle));
                Ok(handle)
            }
        }
    }

    /// Marks the work that the stream has been given until now.
    ///
    /// # Errors
    /// `Runtime` for a stream of another device than before, and those of the driver.
    pub fn record(&mut self, stream: Stream) -> Result<()> {
        corten_core::flush_deferred()?;
        self.mark(stream)
    }

    /// As [`record`](Self::record), for what the stream has been given alone.
    pub(crate) fn mark(&mut self, stream: Stream) -> Result<()> {
        crate::joint::flush()?;
        let handle = self.made(stream.device())?;
        bound(stream.device())?;
        let driver = driver()?;
        // SAFETY: both exist.
        error::check(driver, unsafe { (driver.cuEventRecord)(handle, stream.handle()) })
    }

    /// Whether the marked work is done; an event that is not recorded has none.
    ///
    /// # Errors
    /// Those of the work.
    pub fn query(&self) -> Result<bool> {
        let Some((device, handle)) = self.made else { return Ok(true) };
        bound(device)?;
        let driver = driver()?;
        // SAFETY: the event exists.
        error::is_ready(driver, unsafe { (driver.cuEventQuery)(handle) })
    }

    /// As [`query`](Self::query), while another thread may be capturing a graph.
    ///
    /// # Errors
    /// Those of the work.
    pub fn is_reached(&self) -> Result<bool> {
        let _relaxed = RelaxedCapture::new(driver()?);
        self.query()
    }

    /// Waits for the marked work.
    ///
    /// # Errors
    /// Those of the work.
    pub fn synchronize(&self) -> Result<()> {
        self.wait()?;
        self.made.map_or(Ok(()), |(device, _)| failure::check(device))
    }

    /// Waits, and leaves what kernels have found wrong to others.
    pub(crate) fn wait(&self) -> Result<()> {
        let Some((device, handle)) = self.made else { return Ok(()) };
        bound(device)?;
        let driver = driver()?;
        // SAFETY: the event exists.
        error::check(driver, unsafe { (driver.cuEventSynchronize)(handle) })
    }

    /// Milliseconds from this event to another one.
    ///
    /// # Errors
    /// `Value` where one of them has no time, `Runtime` where one is not reached yet.
    pub fn elapsed_time(&self, end: &Self) -> Result<f32> {
        let ((device, from), (_, to)) = match (self.made, end.made) {
            (Some(from), Some(to)) => (from, to),
            _ => bail!(Value, "Both events must be recorded before calculating elapsed time."),
        };
        if (self.flags | end.flags) & DISABLE_TIMING != 0 {
            bail!(Value, "Both events must be created with argument 'enable_timing=True'.");
        }
        bound(device)?;
        let driver = driver()?;
        let mut milliseconds = 0.0;
        // SAFETY: the driver writes one number; both events exist.
        let status = unsafe { (driver.cuEventElapsedTime)(&mut milliseconds, from, to) };
        error::check(driver, status)?;
        Ok(milliseconds)
    }

    /// A name by which another process can open the event.
    ///
    /// # Errors
    /// Those of the driver, for instance for an event that is not meant for other processes.
    pub fn ipc_handle(&mut self, device: i8) -> Result<[u8; 64]> {
        let handle = self.made(device)?;
        bound(device)?;
        let driver = driver()?;
        let mut name = [0; 64];
        // SAFETY: the driver writes 64 bytes.
        error::check(driver, unsafe { (driver.cuIpcGetEventHandle)(&mut name, handle) })?;
        Ok(name)
    }

    /// The event of another process.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn from_ipc_handle(device: i8, name: [u8; 64]) -> Result<Self> {
        let device = resolve(device);
        bound(device)?;
        let driver = driver()?;
        let mut handle = Handle::NULL;
        // SAFETY: the driver writes one handle, and refuses names that no event has.
        error::check(driver, unsafe { (driver.cuIpcOpenEventHandle)(&mut handle, name) })?;
        Ok(Self { flags: DISABLE_TIMING | INTERPROCESS, made: Some((device, handle)) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Some((device, handle)) = self.made else { return };
        if let (Ok(_), Ok(driver)) = (bound(device), driver()) {
            // SAFETY: the event exists and is used no more; the driver keeps it until it is reached.
            unsafe { (driver.cuEventDestroy_v2)(handle) };
        }
    }
}
