//! One communicator of NCCL: how ranks meet in it, what runs in it, how it ends.

use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use corten_cuda::{Event, Stream};

use super::engine::NcclOptions;
use super::functions::{Comm, Functions, IN_PROGRESS, NO_COLOR, SUCCESS, UniqueId};
use super::issue::{Issue, Plan, RankPosition};
use crate::error::{DistError, Result};
use crate::interrupt;
use crate::store::Store;

/// How long to wait for a thread that is inside of the library before its communicator is aborted all
/// the same.
const PATIENCE: Duration = Duration::from_secs(1);

/// A communicator with its stream. The library is called by one thread at a time, but for the abort.
pub(super) struct Communicator {
    functions: &'static Functions,
    /// The library's communicator; null once it is aborted or destroyed.
    comm: AtomicPtr<std::ffi::c_void>,
    calls: Mutex<()>,
    pub(super) place: RankPosition,
    /// Where calls run that the caller does not wait for.
    pub(super) stream: Stream,
    /// The end of the last call, and the stream that it ran in. Whoever starts one holds it meanwhile.
    pub(super) last: Mutex<Option<(Stream, Arc<Event>)>>,
}

/// The ranks of a communicator that is about to be made, and where they meet.
pub(super) struct Meeting<'a> {
    pub(super) functions: &'static Functions,
    pub(super) store: &'a dyn Store,
    /// The name of the communicator, the same on all of its ranks and used once.
    pub(super) name: &'a str,
    pub(super) place: RankPosition,
    pub(super) options: &'a NcclOptions,
    pub(super) deadline: Instant,
}

impl Meeting<'_> {
    /// Meets the other ranks. `made` is given the communicator before they are here, so that another
    /// thread can abort it.
    ///
    /// # Errors
    /// `Backend` when a rank does not come in time, which is named, and where the library fails.
    pub(super) fn join(&self, made: impl FnOnce(&Arc<Communicator>)) -> Result<Arc<Communicator>> {
        let id = self.id()?;
        corten_cuda::bind(self.place.device)?;
        let mut comm: Comm = std::ptr::null_mut();
        let (size, rank) = (self.place.size as c_int, self.index() as c_int);
        let status = match self.functions.comm_init_rank_config {
            Some(init) => {
                let name =
                    self.options.net_name.as_deref().and_then(|name| CString::new(name).ok());
                let mut config = self.options.config(self.functions, name.as_deref());
                // SAFETY: the library writes one communicator and reads the settings, whose name lives
                // until after the call; the device's context is current.
                unsafe { init(&raw mut comm, size, id, rank, &raw mut config) }
            }
            // SAFETY: as above.
            None => unsafe { (self.functions.comm_init_rank)(&raw mut comm, size, id, rank) },
        };
        if status != SUCCESS && status != IN_PROGRESS {
            return Err(self.failed(&self.functions.words(status)));
        }
        let communicator =
            Arc::new(Communicator::new(self.functions, comm, self.place, self.options)?);
        made(&communicator);
        match communicator.settle(self.deadline) {
            Ok(()) => Ok(communicator),
            Err(Unsettled::Late) => {
                communicator.abort();
                Err(self.failed(&self.late()))
            }
            Err(Unsettled::Failed(error)) => Err(error),
        }
    }

    /// This rank's number in the communicator.
    fn index(&self) -> usize {
        match self.place.peer {
            Some(peer) => usize::from(peer < self.place.rank),
            None => self.place.rank,
        }
    }

    /// The id that the first rank makes; every rank says that it has come.
    fn id(&self) -> Result<UniqueId> {
        let key = format!("{}/id", self.name);
        self.store.set(&self.key(self.index()), b"1")?;
        let mut id = UniqueId([0; 128]);
        if self.index() == 0 {
            // SAFETY: the library writes 128 bytes.
            let status = unsafe { (self.functions.get_unique_id)(&raw mut id) };
            if status != SUCCESS {
                return Err(self.failed(&self.functions.words(status)));
            }
            self.store.set(&key, &id.0)?;
            return Ok(id);
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        let first = |error: DistError| match error.payload() {
            Some(_) => error,
            None => DistError::backend(format!(
                "nccl: rank {} waited for the id of the communicator {} from its first rank: {}",
                self.place.rank,
                self.name,
                error.message()
            )),
        };
        self.store.wait(std::slice::from_ref(&key), Some(left)).map_err(first)?;
        let bytes = self.store.get(&key)?;
        id.0 = bytes.try_into().map_err(|bytes: Vec<u8>| {
            self.failed(&format!("its id in the store has {} bytes, not 128", bytes.len()))
        })?;
        Ok(id)
    }

    fn key(&self, index: usize) -> String {
        format!("{}/here/{index}", self.name)
    }

    fn late(&self) -> String {
        let numbers: Vec<usize> = match self.place.peer {
            Some(peer) if peer < self.place.rank => vec![peer, self.place.rank],
            Some(peer) => vec![self.place.rank, peer],
            None => (0..self.place.size).collect(),
        };
        let missing: Vec<String> = numbers
            .iter()
            .enumerate()
            .filter(|(index, _)| !self.store.check(&[self.key(*index)]).unwrap_or(true))
            .map(|(_, number)| number.to_string())
            .collect();
        match missing.len() {
            0 => "the ranks were not connected in time, although all have come".into(),
            1 => format!("rank {} did not come in time", missing[0]),
            _ => format!("ranks {} did not come in time", missing.join(", ")),
        }
    }

    fn failed(&self, why: &str) -> DistError {
        DistError::backend(format!(
            "nccl: rank {} of {} could not make the communicator {}: {why}",
            self.place.rank, self.place.size, self.name
        ))
    }
}

/// Why a communicator does not answer.
enum Unsettled {
    /// It is still busy.
    Late,
    Failed(DistError),
}

impl Communicator {
    fn new(
        functions: &'static Functions,
        comm: Comm,
        place: RankPosition,
        options: &NcclOptions,
    ) -> Result<Self> {
        let priority = if options.high_priority { -1 } else { 0 };
        Ok(Self {
            functions,
            comm: AtomicPtr::new(comm),
            calls: Mutex::new(()),
            place,
            stream: Stream::new(place.device, priority)?,
            last: Mutex::new(None),
        })
    }

    fn enter(&self) -> MutexGuard<'_, ()> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The library's communicator.
    ///
    /// # Errors
    /// `Backend` once it has ended.
    fn comm(&self) -> Result<Comm> {
        let comm = self.comm.load(Ordering::Acquire);
        if comm.is_null() {
            return Err(DistError::backend("nccl: the communicator was aborted"));
        }
        Ok(comm)
    }

    /// The address of the library's communicator; 0 once it has ended.
    pub(super) fn address(&self) -> usize {
        self.comm.load(Ordering::Acquire).addr()
    }

    /// What the library has found out meanwhile; it may still be busy.
    fn state(&self) -> Result<c_int> {
        let _calls = self.enter();
        let comm = self.comm()?;
        let mut state = SUCCESS;
        // SAFETY: the communicator exists; the library writes one status.
        let status = unsafe { (self.functions.comm_get_async_error)(comm, &raw mut state) };
        match (status, state) {
            (SUCCESS, SUCCESS | IN_PROGRESS) => Ok(state),
            (SUCCESS, failed) | (failed, _) => {
                Err(DistError::backend(format!("nccl: {}", self.functions.words(failed))))
            }
        }
    }

    /// The error that the library has found since, if there is one.
    pub(super) fn async_error(&self) -> Option<DistError> {
        if self.address() == 0 {
            return None;
        }
        // Whoever is inside of the library finds out itself.
        drop(self.calls.try_lock().ok()?);
        self.state().err()
    }

    /// Waits until the library's own threads have done what they were given.
    fn settle(&self, deadline: Instant) -> std::result::Result<(), Unsettled> {
        let mut pause = Duration::from_micros(50);
        loop {
            if self.state().map_err(Unsettled::Failed)? == SUCCESS {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Unsettled::Late);
            }
            interrupt::check().map_err(Unsettled::Failed)?;
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    /// Gives a plan to a stream.
    ///
    /// # Errors
    /// `Backend` with the library's words, also when it does not connect the ranks in time.
    pub(super) fn run(&self, plan: &Plan, stream: Stream, deadline: Instant) -> Result<()> {
        let (issue, (status, scaled)) = {
            let _calls = self.enter();
            let issue = Issue { functions: self.functions, comm: self.comm()?, stream };
            (issue, issue.run(plan)?)
        };
        let settled = match status {
            IN_PROGRESS => self.settle(deadline).map_err(|unsettled| match unsettled {
                Unsettled::Failed(error) => error,
                Unsettled::Late => {
                    DistError::backend("nccl: the library did not connect the ranks in time")
                }
            }),
            _ => Ok(()),
        };
        let _calls = self.enter();
        if self.comm().is_ok() {
            issue.give_back(&scaled);
        }
        settled
    }

    /// A communicator of the ranks with the same `color`, in the order of `key`; nothing for those
    /// without a color.
    ///
    /// # Errors
    /// `Backend` with the library's words, `Runtime` for libraries before 2.18.
    pub(super) fn split(
        &self,
        color: Option<c_int>,
        place: RankPosition,
        options: &NcclOptions,
        deadline: Instant,
    ) -> Result<Option<Arc<Self>>> {
        let Some(split) = self.functions.comm_split else {
            return Err(DistError::runtime("nccl: communicators are split by NCCL 2.18 or newer"));
        };
        corten_cuda::bind(self.place.device)?;
        let mut comm: Comm = std::ptr::null_mut();
        let status = {
            let _calls = self.enter();
            let name = options.net_name.as_deref().and_then(|name| CString::new(name).ok());
            let mut config = options.config(self.functions, name.as_deref());
            let (color, key) = (color.unwrap_or(NO_COLOR), place.rank as c_int);
            // SAFETY: the communicator exists; the library writes one communicator, now or before this
            // one has settled, and reads the settings.
            unsafe { split(self.comm()?, color, key, &raw mut comm, &raw mut config) }
        };
        if status != SUCCESS && status != IN_PROGRESS {
            return Err(DistError::backend(format!(
                "nccl: split: {}",
                self.functions.words(status)
            )));
        }
        let settled = |communicator: &Self| {
            communicator.settle(deadline).map_err(|unsettled| match unsettled {
                Unsettled::Late => DistError::backend("nccl: a split did not end in time"),
                Unsettled::Failed(error) => error,
            })
        };
        settled(self)?;
        // SAFETY: read again, as the library may have written it on a thread of its own.
        let comm = unsafe { std::ptr::read_volatile(&raw const comm) };
        if color.is_none() || comm.is_null() {
            return Ok(None);
        }
        let part = Self::new(self.functions, comm, place, options)?;
        settled(&part)?;
        Ok(Some(Arc::new(part)))
    }

    /// Ends what runs in it. Its memory is given back; later calls fail.
    pub(super) fn abort(&self) {
        let begun = Instant::now();
        // A thread inside of the library that waits there for ranks comes back only after the abort.
        let mut calls = self.calls.try_lock();
        while calls.is_err() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
            calls = self.calls.try_lock();
        }
        let comm = self.comm.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if comm.is_null() || corten_cuda::is_in_bad_fork() {
            return;
        }
        // SAFETY: this thread alone has taken the communicator; the library allows an abort while another
        // thread is in a call.
        unsafe { (self.functions.comm_abort)(comm) };
    }

    /// Gives it up when the ranks have done all that they were given; aborts it where that takes too
    /// long.
    pub(super) fn finish(&self, deadline: Instant) {
        let finalized = match (self.functions.comm_finalize, self.comm()) {
            (Some(finalize), Ok(comm)) => {
                let calls = self.enter();
                // SAFETY: the communicator exists.
                let status = unsafe { finalize(comm) };
                drop(calls);
                (status == SUCCESS || status == IN_PROGRESS) && self.settle(deadline).is_ok()
            }
            (None, Ok(_)) => true,
            (_, Err(_)) => return,
        };
        if !finalized {
            return self.abort();
        }
        let _calls = self.enter();
        let comm = self.comm.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !comm.is_null() {
            // SAFETY: this thread alone has taken the communicator, and nothing runs in it.
            unsafe { (self.functions.comm_destroy)(comm) };
        }
    }
}
