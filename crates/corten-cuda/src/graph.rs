//! CUDA graphs: work that is recorded once and launched as a whole.
//!
//! A capture redirects the allocations of its stream to a private pool of the caching allocator, which the
//! graph keeps: what a replay writes stays its own. Kernels that draw random numbers read seed and offset from
//! the device; a replay sets them there and moves the generator on, so that each replay draws others.

use crate::caching::{PoolId, StreamId};
use crate::device::{bound, current_device};
use crate::driver::{Handle, driver, error};
use crate::driver_memory::count_capture;
use crate::generator::{GraphRandom, default_generator};
use crate::memory::device_memory;
use crate::stream::{Stream, StreamGuard};
use corten_core::{Generator, Result, bail, ensure, flush_deferred};
use std::ffi::CString;
use std::sync::Arc;
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

/// Recorded work of one device: what kernels and copies read and wrote while it was recorded, they read and
/// write again in every replay.
///
/// ```no_run
/// use corten_cuda::Graph;
/// # fn step(x: &corten_ops::Tensor) -> corten_core::Result<corten_ops::Tensor> { Ok(x.clone()) }
/// # fn run(input: corten_ops::Tensor, batches: Vec<corten_ops::Tensor>) -> corten_core::Result<()> {
/// // Once before, so that kernels are compiled and caches are filled.
/// step(&input)?;
/// let (mut graph, output) = Graph::capture(|| step(&input))?;
/// for batch in batches {
///     corten_ops::op::copy_(&input, &batch, true)?;
///     graph.replay()?;
///     println!("{}", output.numel());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Graph {
    state: State,
    pool: PoolId,
    device: i8,
    /// Whether the record stays beside what is launched.
    keeps_record: bool,
    /// Whether it stays until it is written as a picture.
    debugs: bool,
    registered: Vec<Generator>,
    random: Vec<Arc<GraphRandom>>,
}

#[derive(Debug)]
enum State {
    Empty,
    Capturing {
        stream: Stream,
    },
    /// The record, unless it was given up, and what is launched, once it is made.
    Captured {
        graph: Option<Handle>,
        exec: Option<Handle>,
    },
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
        Self {
            state: State::Empty,
            pool: PoolId::DEFAULT,
            device: -1,
            keeps_record: false,
            debugs: false,
            registered: Vec::new(),
            random: Vec::new(),
        }
    }

    /// Whether the record stays after the capture, to be looked at or changed before
    /// [`instantiate`](Self::instantiate).
    #[must_use]
    pub fn keeping_record(mut self, keeps: bool) -> Self {
        self.keeps_record = keeps;
        self
    }

    /// Keeps the record for [`debug_dump`](Self::debug_dump).
    pub fn enable_debug_mode(&mut self) {
        self.debugs = true;
    }

    /// Lets operators of the record draw from a generator; the default one of the device needs no mention.
    pub fn register_generator(&mut self, generator: &Generator) {
        if !self.registered.iter().any(|known| known.is_same(generator)) {
            self.registered.push(generator.clone());
        }
    }

    /// Records what `work` does, on a stream of its own that is ordered with the current one, and gives the
    /// graph and what `work` returned: its tensors are written by every replay.
    ///
    /// # Errors
    /// Those of `work`, and as [`capture_begin`](Self::capture_begin) and [`capture_end`](Self::capture_end).
    pub fn capture<T>(work: impl FnOnce() -> Result<T>) -> Result<(Self, T)> {
        let outer = Stream::current(-1);
        let stream = Stream::new(outer.device(), 0)?;
        stream.wait_stream(outer)?;
        let mut graph = Self::new();
        let made = {
            let _guard = StreamGuard::new(stream);
            graph.capture_begin(None, CaptureMode::Global)?;
            let made = work();
            let ended = graph.capture_end();
            let made = made?;
            ended?;
            made
        };
        outer.wait_stream(stream)?;
        Ok((graph, made))
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
        flush_deferred()?;
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
        let default = default_generator(device)?;
        let known = self.registered.iter().filter(|generator| !generator.is_same(default));
        let all = std::iter::once(default).chain(known);
        self.random = all.map(|one| Arc::new(GraphRandom::new(one.clone(), device))).collect();
        self.random.iter().for_each(|random| random.set_capturing(true));
        (self.state, self.pool, self.device) = (State::Capturing { stream }, pool, device);
        Ok(())
    }

    /// Ends the record and makes it ready to be launched, unless it is kept.
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
        let flushed = flush_deferred();
        crate::joint::flush()?;
        let driver = driver()?;
        bound(self.device)?;
        let mut graph = Handle::NULL;
        // SAFETY: the stream exists; the driver writes one handle.
        let ended = unsafe { (driver.cuStreamEndCapture)(stream.handle(), &mut graph) };
        count_capture(self.device, false);
        self.random.iter().for_each(|random| random.set_capturing(false));
        self.state = State::Empty;
        device_memory()?.end_allocate_to_pool(self.device as usize, self.pool)?;
        error::check(driver, ended)?;
        ensure!(graph != Handle::NULL, Runtime, "Invalid capture.");
        self.state = State::Captured { graph: Some(graph), exec: None };
        flushed?;
        match self.keeps_record {
            true => Ok(()),
            false => self.make_exec(),
        }
    }

    fn make_exec(&mut self) -> Result<()> {
        let State::Captured { graph: Some(graph), exec } = &mut self.state else {
            bail!(Internal, "a graph without a record is instantiated");
        };
        let driver = driver()?;
        bound(self.device)?;
        let mut made = Handle::NULL;
        // SAFETY: the graph exists; the driver writes one handle, and keeps the old one while it is launched.
        unsafe {
            error::check(driver, (driver.cuGraphInstantiateWithFlags)(&mut made, *graph, 0))?;
            if let Some(old) = exec.replace(made) {
                (driver.cuGraphExecDestroy)(old);
            }
        }
        if !self.keeps_record && !self.debugs {
            self.forget_record()?;
        }
        Ok(())
    }

    fn forget_record(&mut self) -> Result<()> {
        if let State::Captured { graph, .. } = &mut self.state
            && let Some(graph) = graph.take()
        {
            // SAFETY: the record is used no more.
            unsafe { (driver()?.cuGraphDestroy)(graph) };
        }
        Ok(())
    }

    /// Makes the kept record ready to be launched, again if it was changed.
    ///
    /// # Errors
    /// `Runtime` in PyTorch's words before a capture has ended and for a graph that keeps no record; those of
    /// the driver.
    pub fn instantiate(&mut self) -> Result<()> {
        let State::Captured { exec, .. } = &self.state else {
            bail!(Runtime, "capture_end() must have been called before calling instantiate");
        };
        ensure!(
            exec.is_none() || self.keeps_record,
            Runtime,
            "instantiate() is intended to be called by the user only when keep_graph=true"
        );
        self.make_exec()
    }

    /// The address of the record (`cudaGraph_t`).
    ///
    /// # Errors
    /// `Runtime` in PyTorch's words unless the record was kept.
    pub fn raw_graph(&self) -> Result<usize> {
        ensure!(
            self.keeps_record,
            Runtime,
            "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true"
        );
        match self.state {
            State::Captured { graph: Some(graph), .. } => Ok(graph.0.addr()),
            _ => bail!(
                Runtime,
                "You cannot access the raw cudaGraph_t instance until capture_end() has been called"
            ),
        }
    }

    /// The address of what is launched (`cudaGraphExec_t`).
    ///
    /// # Errors
    /// `Runtime` in PyTorch's words before it is made.
    pub fn raw_exec(&self) -> Result<usize> {
        match self.state {
            State::Captured { exec: Some(exec), .. } => Ok(exec.0.addr()),
            _ => bail!(
                Runtime,
                "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called"
            ),
        }
    }

    /// Writes the record to a file in the language of Graphviz. A record that was kept for that alone is given
    /// up. Whether there was one.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn debug_dump(&mut self, path: &str) -> Result<bool> {
        let State::Captured { graph: Some(graph), .. } = self.state else { return Ok(false) };
        let Ok(path) = CString::new(path) else { bail!(Value, "embedded null character") };
        /// CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE.
        const VERBOSE: u32 = 1;
        let driver = driver()?;
        // SAFETY: the graph exists, and the text ends with a zero.
        error::check(driver, unsafe {
            (driver.cuGraphDebugDotPrint)(graph, path.as_ptr(), VERBOSE)
        })?;
        if !self.keeps_record {
            self.forget_record()?;
        }
        Ok(true)
    }

    /// Does the recorded work once more, in the current stream.
    ///
    /// # Errors
    /// `Runtime` before a capture has ended, and those of the driver.
    pub fn replay(&mut self) -> Result<()> {
        if let State::Captured { exec: None, .. } = self.state {
            self.make_exec()?;
        }
        let State::Captured { exec: Some(exec), .. } = self.state else {
            bail!(Runtime, "Called CUDAGraph::replay without a preceding successful capture.");
        };
        flush_deferred()?;
        crate::joint::flush()?;
        bound(self.device)?;
        let driver = driver()?;
        let stream = Stream::current(self.device);
        for random in &self.random {
            random.begin_replay(stream)?;
        }
        // SAFETY: both exist; the memory that the work uses is in the graph's pool or the caller's.
        error::check(driver, unsafe { (driver.cuGraphLaunch)(exec, stream.handle()) })
    }

    /// Gives the record and its claim on the pool up.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn reset(&mut self) -> Result<()> {
        if let State::Captured { exec, .. } = self.state {
            bound(self.device)?;
            self.forget_record()?;
            if let Some(exec) = exec {
                // SAFETY: it is used no more; the driver keeps it until a launch of it has ended.
                unsafe { (driver()?.cuGraphExecDestroy)(exec) };
            }
        }
        self.state = State::Empty;
        self.random.clear();
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
