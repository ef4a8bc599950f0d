//! CUDA graphs: work that is recorded once and launched as a whole.
//!
//! A capture redirects the allocations of its stream to a private pool of the caching allocator, which the
//! graph keeps: what a replay writes stays its own. Random numbers would be the same in every replay, so
//! that operators which draw them are refused while their stream is captured.

use crate::caching::{PoolId, StreamId};
use crate::device::{bound, current_device};
use crate::driver::{Handle, driver, error};
use crate::driver_memory::count_capture;
use crate::memory::device_memory;
use crate::stream::Stream;
use corten_core::{Result, bail, ensure};
use std::sync::atomic::{AtomicU64, Ordering};

/// What else may be done while a stream is captured (CUstreamCaptureMode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum CaptureMode {
    /// No thread may make calls that a capture cannot contain.
    Global = 0,
    /// This thread may not.
    ThreadLocal = 1,
    /// Everything may be called.
    Relaxed = 2,
}

/// Recorded work of one device.
#[derive(Debug)]
pub struct Graph {
    state: State,
    pool: PoolId,
    device: i8,
}

#[derive(Debug)]
enum State {
    Empty,
    Capturing { stream: Stream },
    Ready { exec: Handle },
}

/// A name for a pool that several graphs share.
pub fn new_pool() -> PoolId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    PoolId(NEXT.fetch_add(1, Ordering::Relaxed), 0)
}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// No work yet.
    pub fn new() -> Self {
        Self { state: State::Empty, pool: PoolId::DEFAULT, device: -1 }
    }

    /// Records what the current stream is given from now on, instead of doing it.
    ///
    /// # Errors
    /// `Runtime` in PyTorch's words for the default stream and for a graph that has work already; those of
    /// the driver.
    pub fn capture_begin(&mut self, pool: Option<PoolId>, mode: CaptureMode) -> Result<()> {
        ensure!(
            matches!(self.state, State::Empty),
            Runtime,
            "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new \
             instance."
        );
        let device = current_device();
        let stream = Stream::current(device);
        ensure!(
            stream != Stream::default_of(device),
            Runtime,
            "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay \
             them on the default stream.)"
        );
        crate::joint::flush()?;
        bound(device)?;
        let driver = driver()?;
        let pool = pool.unwrap_or_else(new_pool);
        let raw = StreamId(stream.raw() as u64);
        let memory = device_memory()?;
        memory.begin_allocate_to_pool(device as usize, pool, Box::new(move |id| id == raw))?;
        // SAFETY: the stream exists.
        let status = unsafe { (driver.cuStreamBeginCapture_v2)(stream.handle(), mode as i32) };
        if let Err(error) = error::check(driver, status) {
            memory.end_allocate_to_pool(device as usize, pool)?;
            memory.release_pool(device as usize, pool)?;
            return Err(error);
        }
        count_capture(device, true);
        (self.state, self.pool, self.device) = (State::Capturing { stream }, pool, device);
        Ok(())
    }

    /// Ends the record and makes it ready to be launched.
    ///
    /// # Errors
    /// `Runtime` without a beginning, and where the capture was invalidated by a call that it cannot
    /// contain.
    pub fn capture_end(&mut self) -> Result<()> {
        let State::Capturing { stream } = self.state else {
            bail!(Runtime, "CUDAGraph::capture_end: no capture is under way");
        };
        let captured = self.end(stream);
        if captured.is_err() {
            self.reset()?;
        }
        captured
    }

    fn end(&mut self, stream: Stream) -> Result<()> {
        crate::joint::flush()?;
        let driver = driver()?;
        bound(self.device)?;
        let mut graph = Handle::NULL;
        // SAFETY: the stream exists; the driver writes one handle.
        let ended = unsafe { (driver.cuStreamEndCapture)(stream.handle(), &mut graph) };
        count_capture(self.device, false);
        self.state = State::Empty;
        device_memory()?.end_allocate_to_pool(self.device as usize, self.pool)?;
        error::check(driver, ended)?;
        ensure!(graph != Handle::NULL, Runtime, "Invalid capture.");
        let mut exec = Handle::NULL;
        // SAFETY: the graph exists; the driver writes one handle. The recorded work is needed no more.
        unsafe {
            let made = (driver.cuGraphInstantiateWithFlags)(&mut exec, graph, 0);
            (driver.cuGraphDestroy)(graph);
            error::check(driver, made)?;
        }
        self.state = State::Ready { exec };
        Ok(())
    }

    /// Does the recorded work once more, in the current stream.
    ///
    /// # Errors
    /// `Runtime` before a capture has ended, and those of the driver.
    pub fn replay(&self) -> Result<()> {
        let State::Ready { exec } = self.state else {
            bail!(Runtime, "Called CUDAGraph::replay without a preceding successful capture.");
        };
        crate::joint::flush()?;
        bound(self.device)?;
        let driver = driver()?;
        let stream = Stream::current(self.device);
        // SAFETY: both exist; the memory that the work uses is in the graph's pool or the caller's.
        error::check(driver, unsafe { (driver.cuGraphLaunch)(exec, stream.handle()) })
    }

    /// Gives the record and its claim on the pool up.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn reset(&mut self) -> Result<()> {
        if let State::Ready { exec } = self.state {
            bound(self.device)?;
            // SAFETY: the record is used no more; the driver keeps it until a launch of it has ended.
            unsafe { (driver()?.cuGraphExecDestroy)(exec) };
        }
        self.state = State::Empty;
        if self.pool != PoolId::DEFAULT {
            let pool = std::mem::replace(&mut self.pool, PoolId::DEFAULT);
            device_memory()?.release_pool(self.device as usize, pool)?;
        }
        Ok(())
    }

    /// The pool that the graph's tensors are in.
    pub fn pool(&self) -> PoolId {
        self.pool
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let State::Capturing { stream } = self.state {
            // What was recorded is given up.
            let _ = self.end(stream);
        }
        let _ = self.reset();
    }
}
