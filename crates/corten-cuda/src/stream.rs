//! Streams: pools of each device, the current stream of a thread, and streams from outside.

use crate::device::{MOST_DEVICES, bound, resolve};
use crate::driver::{Handle, driver, error};
use crate::event::Event;
use crate::failure;
use crate::joint;
use corten_core::{Result, ensure, flush_deferred};
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Streams per pool, as in PyTorch.
const POOL: usize = 32;
/// Priorities of pools: 0 and three higher ones.
const PRIORITIES: usize = 4;
/// CU_STREAM_NON_BLOCKING: no order with the legacy default stream.
const NON_BLOCKING: u32 = 1;

/// A queue of work of one device. Copies name the same queue; pooled streams are never destroyed.
///
/// ```
/// use corten_cuda::{Stream, StreamGuard};
///
/// # fn main() -> corten_core::Result<()> {
/// if corten_cuda::is_available() {
///     let (main, side) = (Stream::current(0), Stream::new(0, -1)?);
///     side.wait_stream(main)?;
///     {
///         let _guard = StreamGuard::new(side);
///         assert_eq!(Stream::current(0), side); // what is computed here goes into `side`
///     }
///     main.wait_stream(side)?;
///     side.synchronize()?;
///     assert!(side.query()?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    device: i8,
    id: i64,
    handle: Handle,
}

/// The streams that somebody has vouched for, device and address, in the order in which they came.
fn external_streams() -> MutexGuard<'static, Vec<(i8, i64)>> {
    static KNOWN: Mutex<Vec<(i8, i64)>> = Mutex::new(Vec::new());
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The short numbers of streams from outside begin here.
const EXTERNAL: u16 = 0x8000;

/// What calls that wait for a stream do besides: nothing (0), warn (1) or fail (2).
static SYNC_DEBUG_MODE: AtomicU8 = AtomicU8::new(0);

/// What calls that wait for a stream do besides: 0 for nothing, 1 for a warning, 2 for an error.
pub fn set_sync_debug_mode(mode: u8) {
    SYNC_DEBUG_MODE.store(mode, Ordering::Relaxed);
}

/// The mode of [`set_sync_debug_mode`].
pub fn sync_debug_mode() -> u8 {
    SYNC_DEBUG_MODE.load(Ordering::Relaxed)
}

/// Says that a call waits, where that was asked for.
fn report_synchronization() -> Result<()> {
    match sync_debug_mode() {
        0 => Ok(()),
        1 => {
            corten_core::warn("called a synchronizing CUDA operation".to_owned());
            Ok(())
        }
        _ => corten_core::bail!(Runtime, "called a synchronizing CUDA operation"),
    }
}

thread_local! {
    static CURRENT: [Cell<Option<Stream>>; MOST_DEVICES] =
        const { [const { Cell::new(None) }; MOST_DEVICES] };
}

struct Pool {
    streams: [OnceLock<Handle>; POOL],
    next: AtomicUsize,
}

static POOLS: [[Pool; PRIORITIES]; MOST_DEVICES] = [const {
    [const { Pool { streams: [const { OnceLock::new() }; POOL], next: AtomicUsize::new(0) } };
        PRIORITIES]
}; MOST_DEVICES];

impl Stream {
    /// The default stream of a device, the legacy one that waits for and is waited for by the others
    /// which are not made non-blocking.
    pub fn default_of(device: i8) -> Self {
        Self { device: resolve(device), id: 0, handle: Handle::NULL }
    }

    /// The stream in which this thread's work on a device is done.
    pub fn current(device: i8) -> Self {
        let device = resolve(device);
        let chosen = CURRENT.with(|current| current.get(device as usize).and_then(Cell::get));
        chosen.unwrap_or(Self::default_of(device))
    }

    /// A stream of the device's pool, taken in turn. Priority 0 is the lowest, -3 the highest.
    ///
    /// # Errors
    /// `Runtime` without a driver, or when the stream cannot be made.
    pub fn new(device: i8, priority: i32) -> Result<Self> {
        let device = resolve(device);
        let level = priority.clamp(1 - PRIORITIES as i32, 0).unsigned_abs() as usize;
        bound(device)?;
        let pool = &POOLS[device as usize][level];
        let place = pool.next.fetch_add(1, Ordering::Relaxed) % POOL;
        let handle = Self::pooled(device, level, place)?;
        Ok(Self { device, id: Self::id_of(level, place), handle })
    }

    /// PyTorch's packing: bit 0 tells pooled streams from others, then the priority, then the number.
    fn id_of(level: usize, place: usize) -> i64 {
        ((place as i64) << 5) | ((level as i64 + 1) << 1) | 1
    }

    fn pooled(device: i8, level: usize, place: usize) -> Result<Handle> {
        let slot = &POOLS[device as usize][level].streams[place];
        if let Some(handle) = slot.get() {
            return Ok(*handle);
        }
        let driver = driver()?;
        let mut handle = Handle::NULL;
        // SAFETY: the driver writes one handle; the device's context is current.
        let status = unsafe {
            (driver.cuStreamCreateWithPriority)(&mut handle, NON_BLOCKING, -(level as i32))
        };
        error::check(driver, status)?;
        // Of two threads that come here at once, one makes a stream that is never used.
        Ok(*slot.get_or_init(|| handle))
    }

    /// The stream that [`id`](Self::id) and [`device`](Self::device) describe.
    ///
    /// # Errors
    /// `Runtime` for a number that no stream has.
    pub fn from_id(device: i8, id: i64) -> Result<Self> {
        let device = resolve(device);
        if id & 1 == 0 {
            let known = id == 0 || external_streams().contains(&(device, id));
            ensure!(known, Runtime, "no stream has the id {id}");
            return Ok(Self { device, id, handle: Handle(id as *mut _) });
        }
        let (level, place) = ((id >> 1) & 15, id >> 5);
        let level = usize::try_from(level - 1).unwrap_or(PRIORITIES);
        let place = usize::try_from(place).unwrap_or(POOL);
        ensure!(level < PRIORITIES && place < POOL, Runtime, "no stream has the id {id}");
        bound(device)?;
        Ok(Self { device, id, handle: Self::pooled(device, level, place)? })
    }

    /// A stream that somebody else has made (a `CUstream`) and keeps.
    ///
    /// # Safety
    /// `handle` must be a stream of the device for as long as this one or a copy is used.
    pub unsafe fn external(device: i8, handle: usize) -> Self {
        let (device, id) = (resolve(device), handle as i64);
        let mut known = external_streams();
        if !known.contains(&(device, id)) {
            known.push((device, id));
        }
        drop(known);
        Self { device, id, handle: Handle(handle as *mut _) }
    }

    /// A short number: 0 for the default stream, then the pools, then streams from outside.
    pub(crate) fn number(self) -> u16 {
        if self.id == 0 {
            return 0;
        }
        if self.id & 1 == 1 {
            let (level, place) = ((self.id >> 1) & 15, self.id >> 5);
            return (1 + (level - 1) * POOL as i64 + place) as u16;
        }
        let known = external_streams();
        let place = known.iter().position(|&stream| stream == (self.device, self.id));
        place.map_or(0, |place| EXTERNAL + (place as u16 & (EXTERNAL - 1)))
    }

    /// The stream of a short number.
    pub(crate) fn from_number(device: i8, number: u16) -> Result<Self> {
        if number >= EXTERNAL {
            let found = external_streams().get(usize::from(number - EXTERNAL)).copied();
            return Self::from_id(device, found.map_or(0, |(_, id)| id));
        }
        match usize::from(number).checked_sub(1) {
            None => Ok(Self::default_of(device)),
            Some(place) => Self::from_id(device, Self::id_of(place / POOL, place % POOL)),
        }
    }

    /// Makes the stream the current one of its device on this thread, and gives the one that was.
    pub fn make_current(self) -> Self {
        let previous = Self::current(self.device);
        CURRENT.with(|current| current[self.device as usize].set(Some(self)));
        previous
    }

    /// The device.
    pub fn device(self) -> i8 {
        self.device
    }

    /// PyTorch's number of the stream.
    pub fn id(self) -> i64 {
        self.id
    }

    /// The address that CUDA knows the stream by.
    pub fn raw(self) -> usize {
        self.handle.0.addr()
    }

    pub(crate) fn handle(self) -> Handle {
        self.handle
    }

    /// Waits for the work of the stream, also for what this thread has recorded for it.
    ///
    /// # Errors
    /// Those of the work; `Runtime` where the mode of [`set_sync_debug_mode`] says so.
    pub fn synchronize(self) -> Result<()> {
        flush_deferred()?;
        self.finish()
    }

    /// As [`synchronize`](Self::synchronize), for what the stream has been given alone.
    pub(crate) fn finish(self) -> Result<()> {
        report_synchronization()?;
        self.wait()
    }

    /// As [`synchronize`](Self::synchronize), whatever the mode.
    pub(crate) fn wait(self) -> Result<()> {
        joint::flush()?;
        bound(self.device)?;
        let driver = driver()?;
        // SAFETY: the stream exists; external ones by the contract of `external`.
        error::check(driver, unsafe { (driver.cuStreamSynchronize)(self.handle) })?;
        failure::check(self.device)
    }

    /// Whether all work of the stream is done.
    ///
    /// # Errors
    /// Those of the work.
    pub fn query(self) -> Result<bool> {
        flush_deferred()?;
        joint::flush()?;
        bound(self.device)?;
        let driver = driver()?;
        // SAFETY: as above.
        error::is_ready(driver, unsafe { (driver.cuStreamQuery)(self.handle) })
    }

    /// Work of the stream from now on waits for an event.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn wait_event(self, event: &Event) -> Result<()> {
        if event.handle().is_some() {
            flush_deferred()?;
        }
        self.pass_event(event)
    }

    /// As [`wait_event`](Self::wait_event), whatever this thread has recorded.
    fn pass_event(self, event: &Event) -> Result<()> {
        let Some(handle) = event.handle() else { return Ok(()) };
        joint::flush()?;
        bound(self.device)?;
        let driver = driver()?;
        // SAFETY: both exist.
        error::check(driver, unsafe { (driver.cuStreamWaitEvent)(self.handle, handle, 0) })
    }

    /// Work of the stream from now on waits for what another one has been given until now.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn wait_stream(self, other: Self) -> Result<()> {
        self.wait_event(&other.record_event()?)
    }

    /// As [`wait_stream`](Self::wait_stream), for what the other one has been given alone.
    pub(crate) fn follow(self, other: Self) -> Result<()> {
        let mut event = Event::new(false);
        event.mark(other)?;
        self.pass_event(&event)
    }

    /// A new event, without a time, at what the stream has been given until now.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn record_event(self) -> Result<Event> {
        let mut event = Event::new(false);
        event.record(self)?;
        Ok(event)
    }

    /// The priority: 0, or a negative number for a higher one.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn priority(self) -> Result<i32> {
        bound(self.device)?;
        let driver = driver()?;
        let mut priority = 0;
        // SAFETY: the driver writes one number.
        let status = unsafe { (driver.cuStreamGetPriority)(self.handle, &mut priority) };
        error::check(driver, status)?;
        Ok(priority)
    }

    /// Whether the stream's work is being captured into a graph instead of being done.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn is_capturing(self) -> Result<bool> {
        bound(self.device)?;
        let driver = driver()?;
        let mut state = 0;
        // SAFETY: the driver writes one number.
        let status = unsafe { (driver.cuStreamIsCapturing)(self.handle, &mut state) };
        error::check(driver, status)?;
        Ok(state == 1)
    }
}

/// Makes a stream the current one of its device until it is dropped.
#[derive(Debug)]
pub struct StreamGuard {
    previous: Stream,
}

impl StreamGuard {
    /// Makes the stream current.
    pub fn new(stream: Stream) -> Self {
        Self { previous: stream.make_current() }
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.previous.make_current();
    }
}
