//! gloo's objects, owned: devices, contexts, transfers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::library::{ErrorText, Functions, Handle, StoreFunctions, functions};
use super::reduce::ReduceFunction;
use crate::buffer::Buffer;
use crate::error::{DistError, Result};
use crate::store::Store;

/// gloo adds times to a clock of nanoseconds, which ends some centuries from now.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A time as the shim takes it. Zero would mean forever.
fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.min(LONGEST).as_millis()).unwrap_or(i64::MAX).max(1)
}

fn number(rank: usize) -> c_int {
    c_int::try_from(rank).unwrap_or(c_int::MAX)
}

/// Calls a function with a place for its error.
fn with_error<T>(call: impl FnOnce(ErrorText) -> T) -> (T, String) {
    let mut text = [0u8; 1024];
    let place = ErrorText { text: text.as_mut_ptr().cast(), capacity: text.len() };
    let result = call(place);
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    (result, text.to_string_lossy().into_owned())
}

/// The result of a function that returns 0 on success.
fn checked(call: impl FnOnce(ErrorText) -> c_int) -> Result<()> {
    match with_error(call) {
        (0, _) => Ok(()),
        (_, text) => Err(DistError::backend(text)),
    }
}

/// The result of a function that returns null on failure.
fn created(call: impl FnOnce(ErrorText) -> Handle) -> Result<Handle> {
    let (handle, text) = with_error(call);
    if handle.is_null() { Err(DistError::backend(text)) } else { Ok(handle) }
}

/// A listening socket and the thread that moves bytes.
pub(super) struct Device {
    handle: Handle,
    functions: &'static Functions,
}

// SAFETY: the shim's objects are gloo's shared pointers, which may be used and dropped on any thread.
unsafe impl Send for Device {}
// SAFETY: making a context does not change the device; gloo locks what its threads share.
unsafe impl Sync for Device {}

impl Device {
    /// The device of an interface, of a host's address, or of this host's name.
    ///
    /// # Errors
    /// `Runtime` where the shim is missing, `Backend` where there is no such address.
    pub(super) fn new(interface: Option<&str>, host: Option<&str>) -> Result<Self> {
        let functions = functions()?;
        let text = |text: Option<&str>| {
            let text = text.map(CString::new).transpose();
            text.map_err(|_| DistError::value("names of interfaces and hosts have no null bytes"))
        };
        let (interface, host) = (text(interface)?, text(host)?);
        let pointer =
            |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        // SAFETY: null or C strings, alive during the call.
        let new =
            |error| unsafe { (functions.device_new)(pointer(&interface), pointer(&host), error) };
        Ok(Self { handle: created(new)?, functions })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: ours, and not used afterwards. Contexts share what they need of it.
        unsafe { (self.functions.device_free)(self.handle) }
    }
}

/// Which call of a context this is: calls at the same time have different tags, the same on all ranks.
#[derive(Clone, Copy)]
pub(super) struct CallSlot {
    pub(super) tag: u32,
    pub(super) timeout: Duration,
}

/// A rank's connections to all others.
pub(super) struct Context {
    handle: Handle,
    functions: &'static Functions,
}

// SAFETY: as for devices.
unsafe impl Send for Context {}
// SAFETY: gloo runs calls with different tags at the same time; every call gets its own.
unsafe impl Sync for Context {}

impl Context {
    /// Connects to all other ranks, which find each other through the store.
    ///
    /// # Errors
    /// `Backend`, when the time is over or a connection fails.
    pub(super) fn connect(
        device: &Device,
        rank: usize,
        size: usize,
        store: &Arc<dyn Store>,
        timeout: Duration,
    ) -> Result<Self> {
        let functions = device.functions;
        let mut client = StoreClient { store: store.clone(), timeout, failure: None };
        let table = StoreFunctions {
            user: (&raw mut client).cast(),
            set: store_set,
            get: store_get,
            wait: store_wait,
        };
        // gloo gives a connection five times the time of its context.
        let time = milliseconds(timeout / 5);
        // SAFETY: the device is alive; the store is used during this call only.
        let new = |error| unsafe {
            let (rank, size) = (number(rank), number(size));
            (functions.context_new)(device.handle, rank, size, &raw const table, time, error)
        };
        match created(new) {
            Ok(handle) => Ok(Self { handle, functions }),
            // gloo passes the store's words on; the error itself may be a user's interrupt.
            Err(error) => Err(client.failure.unwrap_or(error)),
        }
    }

    /// Ends what is running, here and at the other ranks.
    pub(super) fn close(&self) {
        // SAFETY: alive.
        unsafe { (self.functions.context_close)(self.handle) }
    }

    /// Reduces elements in place on all ranks.
    pub(super) fn all_reduce(
        &self,
        data: &Buffer,
        function: ReduceFunction,
        at: CallSlot,
    ) -> Result<()> {
        let (count, itemsize) = (data.count(), data.dtype().itemsize());
        let (nobody, time) = (ptr::null_mut(), milliseconds(at.timeout));
        let (handle, pointer) = (self.handle, data.pointer());
        // SAFETY: the buffer has so many elements, which the function is for; `data` outlives the call.
        checked(|error| unsafe {
            let run = self.functions.allreduce;
            run(handle, pointer, count, itemsize, function, nobody, at.tag, time, error)
        })
    }

    /// Reduces elements into `root`'s; those of others become arbitrary.
    pub(super) fn reduce(
        &self,
        data: &Buffer,
        function: ReduceFunction,
        root: usize,
        at: CallSlot,
    ) -> Result<()> {
        let (count, itemsize) = (data.count(), data.dtype().itemsize());
        // SAFETY: as in `all_reduce`.
        checked(|error| unsafe {
            let (nobody, time, root) = (ptr::null_mut(), milliseconds(at.timeout), number(root));
            let (run, data) = (self.functions.reduce, data.pointer());
            run(self.handle, data, count, itemsize, function, nobody, root, at.tag, time, error)
        })
    }

    /// Gives `root`'s bytes to all.
    pub(super) fn broadcast(&self, data: &Buffer, root: usize, at: CallSlot) -> Result<()> {
        // SAFETY: the buffer has so many bytes and outlives the call.
        checked(|error| unsafe {
            let (time, root) = (milliseconds(at.timeout), number(root));
            let (data, nbytes) = (data.pointer(), data.nbytes());
            (self.functions.broadcast)(self.handle, data, nbytes, root, at.tag, time, error)
        })
    }

    /// Gathers `lengths[r]` bytes of each rank in `output`, where this rank's own are already.
    ///
    /// # Safety
    /// `output` must have as many bytes as `lengths`, of all ranks, say together.
    pub(super) unsafe fn all_gather(
        &self,
        output: *mut u8,
        lengths: &[usize],
        at: CallSlot,
    ) -> Result<()> {
        // SAFETY: the caller's promise; a null input says that the output has it.
        checked(|error| unsafe {
            let time = milliseconds(at.timeout);
            let (output, lengths) = (output.cast(), lengths.as_ptr());
            (self.functions.allgather)(
                self.handle,
                ptr::null(),
                output,
                lengths,
                at.tag,
                time,
                error,
            )
        })
    }

    /// Gathers the inputs, of one size, in `root`'s `output`.
    ///
    /// # Safety
    /// `output` must have as many bytes as the inputs of all ranks together, if this is the root.
    pub(super) unsafe fn gather(
        &self,
        input: &Buffer,
        output: *mut u8,
        root: usize,
        at: CallSlot,
    ) -> Result<()> {
        // SAFETY: the caller's promise, and the buffer outlives the call.
        checked(|error| unsafe {
            let (time, root) = (milliseconds(at.timeout), number(root));
            let (input, nbytes, output) = (input.pointer(), input.nbytes(), output.cast());
            (self.functions.gather)(self.handle, input, nbytes, output, root, at.tag, time, error)
        })
    }

    /// Gives `root`'s r-th input to rank r. All have the output's size.
    pub(super) fn scatter(
        &self,
        inputs: &[Buffer],
        output: &Buffer,
        root: usize,
        at: CallSlot,
    ) -> Result<()> {
        let inputs: Vec<*const c_void> =
            inputs.iter().map(|piece| piece.pointer().cast_const()).collect();
        // SAFETY: the group has checked that root's inputs are one for each rank, of the output's size.
        checked(|error| unsafe {
            let (time, root) = (milliseconds(at.timeout), number(root));
            let (inputs, run) = (inputs.as_ptr(), self.functions.scatter);
            let (output, nbytes) = (output.pointer(), output.nbytes());
            run(self.handle, inputs, output, nbytes, root, at.tag, time, error)
        })
    }

    /// Sends bytes to each rank and receives bytes from each, `lengths` in the order of ranks.
    ///
    /// # Safety
    /// Both memories must have as many bytes as their lengths, of all ranks, say together.
    pub(super) unsafe fn all_to_all(
        &self,
        (input, input_lengths): (*const u8, &[i64]),
        (output, output_lengths): (*mut u8, &[i64]),
        at: CallSlot,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        checked(|error| unsafe {
            let (time, run) = (milliseconds(at.timeout), self.functions.alltoall);
            let (from, to) = (input_lengths.as_ptr(), output_lengths.as_ptr());
            run(self.handle, input.cast(), from, output.cast(), to, at.tag, time, error)
        })
    }

    /// Waits for all ranks.
    pub(super) fn barrier(&self, at: CallSlot) -> Result<()> {
        // SAFETY: alive.
        checked(|error| unsafe {
            (self.functions.barrier)(self.handle, at.tag, milliseconds(at.timeout), error)
        })
    }

    /// Starts to send.
    pub(super) fn send(&self, data: Buffer, to: usize, slot: u64) -> Result<Transfer> {
        // SAFETY: the transfer holds the memory.
        let handle = created(|error| unsafe {
            let (start, nbytes) = (data.pointer().cast_const(), data.nbytes());
            (self.functions.send)(self.handle, start, nbytes, number(to), slot, error)
        })?;
        Ok(Transfer { handle, sending: true, _memory: data, functions: self.functions })
    }

    /// Starts to receive from a rank, or from whichever sends first.
    pub(super) fn recv(&self, data: Buffer, from: Option<usize>, slot: u64) -> Result<Transfer> {
        // SAFETY: the transfer holds the memory.
        let handle = created(|error| unsafe {
            let (start, nbytes) = (data.pointer(), data.nbytes());
            (self.functions.recv)(self.handle, start, nbytes, from.map_or(-1, number), slot, error)
        })?;
        Ok(Transfer { handle, sending: false, _memory: data, functions: self.functions })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: ours, and not used afterwards. Transfers share the connections.
        unsafe { (self.functions.context_free)(self.handle) }
    }
}

/// Bytes on their way between two ranks. Dropping it gives the operation up.
pub(super) struct Transfer {
    handle: Handle,
    sending: bool,
    _memory: Buffer,
    functions: &'static Functions,
}

// SAFETY: as for devices.
unsafe impl Send for Transfer {}
// SAFETY: gloo's buffers lock what a waiting and an aborting thread share.
unsafe impl Sync for Transfer {}

impl Transfer {
    /// Waits for the end and says which rank the other side is. One thread waits, once.
    pub(super) fn wait(&self, timeout: Duration) -> Result<Option<usize>> {
        let mut rank: c_int = -1;
        // SAFETY: alive; `rank` is ours.
        checked(|error| unsafe {
            let (sending, time) = (c_int::from(self.sending), milliseconds(timeout));
            (self.functions.wait)(self.handle, sending, time, &raw mut rank, error)
        })?;
        Ok(usize::try_from(rank).ok())
    }

    /// Has the wait end with an error.
    pub(super) fn abort(&self) {
        // SAFETY: alive.
        unsafe { (self.functions.abort)(self.handle, c_int::from(self.sending)) }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // SAFETY: ours, and not used afterwards.
        unsafe { (self.functions.transfer_free)(self.handle) }
    }
}

/// The store that the shim's functions ask.
struct StoreClient {
    store: Arc<dyn Store>,
    /// How long to wait for other ranks, whatever gloo thinks.
    timeout: Duration,
    /// What the store said when it failed.
    failure: Option<DistError>,
}

/// Runs the body of a store's function; panics do not reach C++.
///
/// # Safety
/// `user` must be the client of [`Context::connect`], which only this thread uses.
unsafe fn answered(
    user: *mut c_void,
    error: ErrorText,
    body: impl FnOnce(&StoreClient) -> Result<()>,
) -> c_int {
    // SAFETY: the caller's promise.
    let client = unsafe { &mut *user.cast::<StoreClient>() };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(client)));
    let failure = match result {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(_) => DistError::store("the store panicked"),
    };
    let text = failure.message().to_owned();
    client.failure = Some(failure);
    let length = text.len().min(error.capacity.saturating_sub(1));
    if !error.text.is_null() && error.capacity > 0 {
        // SAFETY: the shim gives `capacity` bytes.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), error.text.cast(), length);
            error.text.add(length).write(0);
        }
    }
    1
}

/// # Safety
/// `key` must be a C string.
unsafe fn key_of(key: *const c_char) -> Result<String> {
    // SAFETY: the caller's promise.
    let key = unsafe { CStr::from_ptr(key) };
    key.to_str().map(String::from).map_err(|_| DistError::store("a key of gloo is not Unicode"))
}

/// # Safety
/// For the shim: `user` is the client of [`Context::connect`], `value` has `length` bytes.
unsafe extern "C" fn store_set(
    user: *mut c_void,
    key: *const c_char,
    value: *const c_char,
    length: usize,
    error: ErrorText,
) -> c_int {
    let set = |client: &StoreClient| {
        // SAFETY: a key and a value of the shim.
        let (key, value) = unsafe {
            let bytes: &[u8] =
                if length == 0 { &[] } else { slice::from_raw_parts(value.cast(), length) };
            (key_of(key)?, bytes)
        };
        client.store.set(&key, value)
    };
    // SAFETY: the shim hands the client back that it was given.
    unsafe { answered(user, error, set) }
}

/// # Safety
/// As for [`store_set`].
unsafe extern "C" fn store_get(
    user: *mut c_void,
    key: *const c_char,
    sink: *mut c_void,
    put: unsafe extern "C" fn(*mut c_void, *const c_char, usize),
    error: ErrorText,
) -> c_int {
    let get = |client: &StoreClient| {
        // SAFETY: a key of the shim.
        let key = unsafe { key_of(key)? };
        client.store.wait(std::slice::from_ref(&key), Some(client.timeout))?;
        let value = client.store.get(&key)?;
        // SAFETY: the shim's sink, which copies the value.
        unsafe { put(sink, value.as_ptr().cast(), value.len()) };
        Ok(())
    };
    // SAFETY: as in `store_set`.
    unsafe { answered(user, error, get) }
}

/// # Safety
/// As for [`store_set`]; `keys` has `count` C strings.
unsafe extern "C" fn store_wait(
    user: *mut c_void,
    keys: *const *const c_char,
    count: usize,
    _timeout_ms: i64,
    error: ErrorText,
) -> c_int {
    let wait = |client: &StoreClient| {
        // SAFETY: keys of the shim.
        let keys: Result<Vec<String>> = unsafe {
            let keys = if count == 0 { &[][..] } else { slice::from_raw_parts(keys, count) };
            keys.iter().map(|&key| key_of(key)).collect()
        };
        client.store.wait(&keys?, Some(client.timeout))
    };
    // SAFETY: as in `store_set`.
    unsafe { answered(user, error, wait) }
}
