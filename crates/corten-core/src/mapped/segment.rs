//! Segments of shared memory that have a name, and a table of the processes that use them.
//!
//! Note [Segments with names]: A segment is a file whose first page counts its users: one entry for each
//! process, and the messages that are on their way with the segment's name. The page is read and
//! written through the file, by whoever holds the file's lock; the system releases the lock of a
//! process that dies. Whoever removes the last user removes the name. A process that dies leaves its
//! entry behind: entries name processes by number and start time, so that anyone can tell which of
//! them are gone (`corten/multiprocessing/_segments.py` reads the same page, and removes such names).
//! No descriptor stays open, so that their number does not limit how many segments a process has.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

/// Bytes before the data.
pub(super) const HEADER: usize = 4096;
const MAGIC: [u8; 8] = *b"CORTSEG1";
const TABLE: usize = 32;
const ENTRY: usize = 16;

/// The segments of this process.
static LIVE: Mutex<Vec<Weak<Segment>>> = Mutex::new(Vec::new());

/// How a message with a segment's name travels.
///
/// ```
/// use corten_core::mapped::Transport;
///
/// assert_ne!(Transport::Queue, Transport::Channel);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Through a queue or a pipe: whoever may read it keeps the segment.
    Queue = 8,
    /// Through a channel that two processes hold alone: its end is the message's end.
    Channel = 12,
}

/// A user's hold on a segment.
///
/// ```
/// use corten_core::mapped::Mapping;
/// use std::path::Path;
///
/// let name = format!("/dev/shm/corten-doc-{}", std::process::id());
/// let mapping = Mapping::new_segment(Path::new(&name), 64)?;
/// assert!(mapping.segment().is_some_and(|segment| segment.path() == Path::new(&name)));
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    identity: (u64, u64),
    /// The process that has an entry for this hold; 0 when none has.
    holder: AtomicU32,
}

/// The first page of a segment.
struct Page([u8; HEADER]);

impl Page {
    fn fresh(nbytes: usize) -> Self {
        let mut page = Self([0; HEADER]);
        page.0[..8].copy_from_slice(&MAGIC);
        page.0[16..24].copy_from_slice(&(nbytes as u64).to_le_bytes());
        page
    }

    fn u32(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[at..at + 4]);
        u32::from_le_bytes(bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }

    fn set(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn entries() -> impl Iterator<Item = usize> {
        (TABLE..HEADER).step_by(ENTRY)
    }

    /// The place of the entry of a process, which is made if it is missing.
    fn entry(&mut self, process: (u32, u64)) -> io::Result<usize> {
        let same = |at: &usize| (self.u32(*at), self.u64(*at + 8)) == process;
        if let Some(at) = Self::entries().find(same) {
            return Ok(at);
        }
        let unused = |at: &usize| match self.u32(*at) {
            0 => true,
            pid => start_of(pid) != Some(self.u64(*at + 8)),
        };
        let at = Self::entries().find(unused).ok_or_else(|| {
            io::Error::other("too many processes use one segment of shared memory")
        })?;
        self.set(at, process.0);
        self.set(at + 4, 0);
        self.0[at + 8..at + 16].copy_from_slice(&process.1.to_le_bytes());
        Ok(at)
    }

    fn add(&mut self, at: usize, count: i32) {
        self.set(at, self.u32(at).saturating_add_signed(count));
    }

    fn is_unused(&self) -> bool {
        let users = Self::entries().any(|at| self.u32(at) != 0 && self.u32(at + 4) != 0);
        !users
            && self.u32(Transport::Queue as usize) == 0
            && self.u32(Transport::Channel as usize) == 0
    }
}

impl Segment {
    /// A new segment for `nbytes` bytes of data, whose pages are reserved, and its file.
    pub(super) fn create(path: &Path, nbytes: usize) -> io::Result<(Arc<Self>, File)> {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let made = Self::begin(path, &file, nbytes);
        if made.is_err() {
            let _ = std::fs::remove_file(path); // nobody knows the name yet
        }
        Ok((made?, file))
    }

    fn begin(path: &Path, file: &File, nbytes: usize) -> io::Result<Arc<Self>> {
        let total = nbytes.checked_add(HEADER);
        let total = total.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let _locked = Locked::new(file)?;
        let mut page = Page::fresh(nbytes);
        let at = page.entry(this_process()?)?;
        page.add(at + 4, 1);
        file.write_all_at(&page.0, 0)?;
        super::reserve(file, total)?;
        Self::held(path, file)
    }

    /// The segment with a name, its file and the number of bytes of data. A message that came with the
    /// name is counted as received.
    pub(super) fn open(
        path: &Path,
        message: Option<Transport>,
    ) -> io::Result<(Arc<Self>, File, usize)> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let locked = Locked::new(&file)?;
        let mut page = read(&file)?;
        let at = page.entry(this_process()?)?;
        page.add(at + 4, 1);
        if let Some(transport) = message {
            page.add(transport as usize, -1);
        }
        file.write_all_at(&page.0, 0)?;
        let nbytes = usize::try_from(page.u64(16)).unwrap_or(usize::MAX);
        let held = Self::held(path, &file)?;
        drop(locked);
        Ok((held, file, nbytes))
    }

    fn held(path: &Path, file: &File) -> io::Result<Arc<Self>> {
        let identity = identity(file)?;
        let holder = AtomicU32::new(std::process::id());
        let made = Arc::new(Self { path: path.to_owned(), identity, holder });
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        // Places of segments that are gone are swept out as often as the list doubles.
        if live.len() == live.capacity() {
            live.retain(|weak| weak.strong_count() > 0);
        }
        live.push(Arc::downgrade(&made));
        Ok(made)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Counts a message with the segment's name that is about to be sent. While it is on its way any of
    /// the processes of `readers`, this one among them, keeps the segment.
    ///
    /// # Errors
    /// The name is gone.
    pub fn announce(&self, transport: Transport, readers: &[u32]) -> io::Result<()> {
        self.change(|page| {
            if self.holder.load(Ordering::Relaxed) != std::process::id() {
                let at = page.entry(this_process()?)?;
                page.add(at + 4, 1);
                self.holder.store(std::process::id(), Ordering::Relaxed);
            }
            page.add(transport as usize, 1);
            for pid in readers {
                if let Some(start) = start_of(*pid) {
                    // Where the table is full of living users, they keep the segment.
                    let _ = page.entry((*pid, start));
                }
            }
            Ok(())
        })
    }

    /// Counts a message as received by a process that has the segment already.
    pub fn received(&self, transport: Transport) -> io::Result<()> {
        self.change(|page| {
            page.add(transport as usize, -1);
            Ok(())
        })
    }

    /// Gives the hold of this process up, and removes the name if it was the last.
    pub(super) fn release(&self) {
        if self.holder.swap(0, Ordering::Relaxed) != std::process::id() {
            return;
        }
        // An entry that cannot be removed is known to be void once this process is gone.
        let _ = self.change(|page| {
            let at = page.entry(this_process()?)?;
            page.add(at + 4, -1);
            if page.u32(at + 4) == 0 {
                page.set(at, 0);
            }
            if page.is_unused() {
                std::fs::remove_file(&self.path)?;
            }
            Ok(())
        });
    }

    fn change(&self, change: impl FnOnce(&mut Page) -> io::Result<()>) -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        if identity(&file)? != self.identity {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let _locked = Locked::new(&file)?;
        let mut page = read(&file)?;
        change(&mut page)?;
        file.write_all_at(&page.0, 0)
    }
}

/// Makes the segments of this process, which was just forked, its own.
pub fn hold_after_fork() {
    // Another thread of the parent may have held the lock at that moment; nobody will release it here.
    let live = match LIVE.try_lock() {
        Ok(live) => live,
        Err(TryLockError::Poisoned(live)) => live.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    for segment in live.iter().filter_map(Weak::upgrade) {
        let held = segment.change(|page| {
            let at = page.entry(this_process()?)?;
            page.add(at + 4, 1);
            Ok(())
        });
        if held.is_ok() {
            segment.holder.store(std::process::id(), Ordering::Relaxed);
        }
    }
}

/// Gives all holds of this process up, which is about to end.
pub fn release_all() {
    let live = std::mem::take(&mut *LIVE.lock().unwrap_or_else(PoisonError::into_inner));
    for segment in live.iter().filter_map(Weak::upgrade) {
        segment.release();
    }
}

/// The lock of a file, released when dropped.
struct Locked<'a>(&'a File);

impl<'a> Locked<'a> {
    fn new(file: &'a File) -> io::Result<Self> {
        loop {
            // SAFETY: the descriptor is open.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        // The name may have been removed while the lock was waited for.
        let locked = Self(file);
        if file.metadata()?.nlink() == 0 {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        Ok(locked)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Closing would not do: a process forked at this moment has the descriptor too.
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

fn read(file: &File) -> io::Result<Page> {
    let mut page = Page([0; HEADER]);
    file.read_exact_at(&mut page.0, 0)?;
    if page.0[..8] == MAGIC {
        return Ok(page);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "not a segment of shared memory"))
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

fn this_process() -> io::Result<(u32, u64)> {
    let pid = std::process::id();
    let start = start_of(pid).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    Ok((pid, start))
}

/// When a process started, in the system's ticks; nothing if it has ended.
fn start_of(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may contain anything.
    let mut words = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = words.next()?;
    if matches!(state, "Z" | "X") { None } else { words.nth(18)?.parse().ok() }
}
