//! Storages over mapped files and shared memory.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;

use crate::{DataPtr, Device, Error, Result, Storage, ensure, err};
pub use segment::{Segment, Transport, hold_after_fork, release_all};
use std::sync::Arc;

mod segment;

/// Who sees writes to a mapping.
///
/// ```
/// use corten_core::Storage;
/// use corten_core::mapped::Sharing;
///
/// let path = std::env::temp_dir().join(format!("corten-doc-sharing-{}", std::process::id()));
/// std::fs::write(&path, [1, 2, 3, 4]).map_err(|error| corten_core::err!(Runtime, "{error}"))?;
/// let storage = Storage::from_file(&path, Sharing::Private, 4)?;
/// assert_eq!(storage.nbytes(), 4);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only this mapping: pages are copied when they are first written. The file stays as it is.
    Private,
    /// Everyone who maps the same file, and the file itself.
    Shared,
}

/// Mapped memory, unmapped when dropped. The descriptor stays open for sending it to others.
///
/// ```
/// use corten_core::Storage;
/// use corten_core::mapped::Mapping;
///
/// let mapping = Mapping::shared_memory(4096)?;
/// assert!(mapping.descriptor().is_some());
/// assert!(Storage::from_mapping(mapping).is_shared());
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    nbytes: usize,
    sharing: Sharing,
    descriptor: Option<OwnedFd>,
    path: Option<PathBuf>,
    /// The hold on a segment with a name, whose first page lies before `start`.
    segment: Option<Arc<Segment>>,
}

// SAFETY: the mapping belongs to the object, and unmapping works from any thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping object only tells numbers.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `nbytes` bytes of a file; 0 means all of it. For a shared mapping the file is made
    /// where it is missing, readable and writable by its owner only, and made larger, with zeros, where
    /// it is too small.
    ///
    /// # Errors
    /// `Runtime` with the reason of the system, or for a file that is too small.
    pub fn of_file(path: &Path, sharing: Sharing, nbytes: usize) -> Result<Self> {
        let shared = sharing == Sharing::Shared;
        let name = path.display();
        let mode = if shared { "read-write" } else { "read-only" };
        // Opening a pipe would wait for its other end.
        let file = OpenOptions::new()
            .read(true)
            .write(shared)
            .create(shared)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .map_err(|error| {
                os_error(format!("unable to open file <{name}> in {mode} mode"), error)
            })?;
        let mut made = Self::of_open_file(file, sharing, nbytes, shared, &format!(" <{name}>"))?;
        made.path = Some(path.to_path_buf());
        Ok(made)
    }

    /// Maps the first `nbytes` bytes behind a descriptor; 0 means all of it.
    ///
    /// # Errors
    /// As for [`of_file`](Self::of_file).
    pub fn of_descriptor(
        descriptor: OwnedFd,
        sharing: Sharing,
        nbytes: usize,
        keep_descriptor: bool,
    ) -> Result<Self> {
        Self::of_open_file(File::from(descriptor), sharing, nbytes, keep_descriptor, "")
    }

    fn of_open_file(
        file: File,
        sharing: Sharing,
        nbytes: usize,
        keep_descriptor: bool,
        name: &str,
    ) -> Result<Self> {
        let found = file.metadata();
        let found = found.map_err(|error| os_error(format!("unable to stat file{name}"), error))?;
        let present = usize::try_from(found.len()).unwrap_or(usize::MAX);
        let nbytes = if nbytes == 0 { present } else { nbytes };
        if nbytes > present {
            ensure!(
                sharing == Sharing::Shared,
                Runtime,
                "file{name} size <{present}> is smaller than the required mapping size <{nbytes}>"
            );
            file.set_len(nbytes as u64).map_err(|error| {
                os_error(format!("unable to resize file{name} to the right size"), error)
            })?;
        }
        let start = map(&file, sharing, nbytes, name)?;
        let descriptor = keep_descriptor.then(|| file.into());
        Ok(Self { start, nbytes, sharing, descriptor, path: None, segment: None })
    }

    /// Fresh memory that other processes can map through its descriptor. The pages are reserved now,
    /// so that lack of memory is an error here and not a signal later.
    #[cfg(target_os = "linux")]
    pub fn shared_memory(nbytes: usize) -> Result<Self> {
        // SAFETY: the name is a C string, and the result is checked.
        let raw = unsafe { libc::memfd_create(c"corten".as_ptr(), libc::MFD_CLOEXEC) };
        if raw < 0 {
            return Err(os_error("unable to create shared memory".into(), last_error()));
        }
        // SAFETY: the descriptor is fresh and belongs to nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        let file = File::from(descriptor);
        if nbytes > 0 {
            reserve(&file, nbytes)
                .map_err(|error| os_error("unable to reserve shared memory".into(), error))?;
        }
        let descriptor = OwnedFd::from(file);
        Self::of_descriptor(descriptor, Sharing::Shared, nbytes, true)
    }

    /// Fresh memory that other processes can map by its name, the path of a file in shared memory.
    pub fn new_segment(path: &Path, nbytes: usize) -> Result<Self> {
        let context = |error| os_error(format!("unable to create {}", path.display()), error);
        let (segment, file) = Segment::create(path, nbytes).map_err(context)?;
        Self::of_segment(segment, &file, nbytes)
    }

    /// The memory with a name. `message` says how the name came here, if a message was counted.
    pub fn open_segment(path: &Path, message: Option<Transport>) -> Result<Self> {
        let context =
            |error| os_error(format!("unable to open shared memory {}", path.display()), error);
        let (segment, file, nbytes) = Segment::open(path, message).map_err(context)?;
        Self::of_segment(segment, &file, nbytes)
    }

    fn of_segment(segment: Arc<Segment>, file: &File, nbytes: usize) -> Result<Self> {
        let present =
            file.metadata().map_err(|error| os_error("unable to stat file".into(), error))?;
        let total = nbytes.checked_add(segment::HEADER);
        let total = total.filter(|total| *total as u64 <= present.len());
        let total = total.ok_or_else(|| {
            segment.release();
            err!(Runtime, "shared memory is smaller than the {nbytes} bytes that it should have")
        })?;
        let first = map(file, Sharing::Shared, total, "").inspect_err(|_| segment.release())?;
        // SAFETY: the mapping has `total` bytes, which are more than its first page.
        let start = unsafe { first.add(segment::HEADER) };
        let (sharing, segment) = (Sharing::Shared, Some(segment));
        Ok(Self { start, nbytes, sharing, descriptor: None, path: None, segment })
    }

    /// The hold on the segment, if the memory has a name.
    pub fn segment(&self) -> Option<&Arc<Segment>> {
        self.segment.as_ref()
    }

    /// Size in bytes.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// Who sees writes.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The file, where it has a name.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The descriptor, if it was kept.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let before = if let Some(segment) = &self.segment {
            segment.release();
            segment::HEADER
        } else {
            0
        };
        if self.nbytes + before > 0 {
            // SAFETY: the mapping, with the page before it, belongs to this object and nobody uses it
            // any more.
            unsafe { libc::munmap(self.start.sub(before).cast(), self.nbytes + before) };
        }
    }
}

/// What keeps the memory of a [part](Storage::part) alive.
struct PartOwner(Storage);

fn map(file: &File, sharing: Sharing, nbytes: usize, name: &str) -> Result<*mut u8> {
    use std::os::fd::AsRawFd;
    if nbytes == 0 {
        return Ok(ptr::null_mut());
    }
    let flags = match sharing {
        Sharing::Private => libc::MAP_PRIVATE,
        Sharing::Shared => libc::MAP_SHARED,
    };
    // SAFETY: a fresh mapping of an open file at an address of the system's choice.
    let start = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(ptr::null_mut(), nbytes, protection, flags, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(os_error(
            format!("unable to mmap {nbytes} bytes from file{name}"),
            last_error(),
        ));
    }
    Ok(start.cast())
}

/// Gives a file of shared memory its pages, so that lack of memory is an error now and not a signal later.
#[cfg(target_os = "linux")]
fn reserve(file: &File, nbytes: usize) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let length = libc::off_t::try_from(nbytes)
        .map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
    loop {
        // SAFETY: the descriptor is open.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
            0 => return Ok(()),
            libc::EINTR => {}
            code => return Err(std::io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(file: &File, nbytes: usize) -> std::io::Result<()> {
    file.set_len(nbytes as u64)
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

#[cold]
fn os_error(what: String, error: std::io::Error) -> Error {
    let text = error.to_string();
    // The standard library ends the text of a system error with its number.
    match (error.raw_os_error(), text.split_once(" (os error")) {
        (Some(code), Some((reason, _))) => err!(Runtime, "{what}: {reason} ({code})"),
        _ => err!(Runtime, "{what}: {text}"),
    }
}

/// Whether memory of this process may be written: libraries mark memory as read-only for reasons of
/// their own, but writing to pages that the system protects ends the process. Unknown is taken for yes.
pub fn is_memory_writable(start: *const u8, nbytes: usize) -> bool {
    if nbytes == 0 {
        return true;
    }
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return true };
    let (first, end) = (start.addr(), start.addr().saturating_add(nbytes));
    !maps
        .lines()
        .filter_map(parse_mapping)
        .any(|(from, to, writable)| !writable && from < end && first < to)
}

/// Start, end and whether it may be written, from a line of `/proc/self/maps`.
fn parse_mapping(line: &str) -> Option<(usize, usize, bool)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    Some((address(from)?, address(to)?, words.next()?.as_bytes().get(1) == Some(&b'w')))
}

impl Storage {
    /// A storage over a mapping. Not resizable. Other processes may change shared memory at any
    /// time; programs must agree among themselves who writes.
    pub fn from_mapping(mapping: Mapping) -> Self {
        let (start, nbytes, sharing) = (mapping.start, mapping.nbytes, mapping.sharing);
        let data = DataPtr::with_owner(start, Box::new(mapping), Device::CPU);
        let storage = Self::from_data_ptr(data, nbytes);
        if sharing == Sharing::Private {
            storage.mark_own();
        }
        storage
    }

    /// The first `nbytes` bytes of a file; 0 means all of it. See [`Mapping::of_file`].
    ///
    /// # Errors
    /// As for [`Mapping::of_file`].
    pub fn from_file(path: &Path, sharing: Sharing, nbytes: usize) -> Result<Self> {
        Mapping::of_file(path, sharing, nbytes).map(Self::from_mapping)
    }

    /// The first `nbytes` bytes of a storage in shared memory as a storage of its own, not resizable. It keeps this
    /// one alive, whose [`use_count`](Self::use_count) tells whether there is one; nobody may use the contents through
    /// both. [`share`](Self::share) moves its contents to memory of its own, so that this memory can be used anew.
    ///
    /// # Errors
    /// `Runtime` for a storage that is not in shared memory, or has fewer bytes.
    ///
    /// ```
    /// use corten_core::Storage;
    /// use corten_core::mapped::Mapping;
    ///
    /// let slot = Storage::from_mapping(Mapping::shared_memory(4096)?);
    /// let part = slot.part(100)?;
    /// assert_eq!((part.nbytes(), slot.use_count()), (100, 2));
    /// # Ok::<(), corten_core::Error>(())
    /// ```
    pub fn part(&self, nbytes: usize) -> Result<Self> {
        ensure!(self.is_shared(), Runtime, "a part of a storage that is not in shared memory");
        ensure!(
            nbytes <= self.nbytes(),
            Runtime,
            "a part of {nbytes} bytes of a storage of {} bytes",
            self.nbytes()
        );
        let owner = Box::new(PartOwner(self.clone()));
        Ok(Self::from_data_ptr(DataPtr::with_owner(self.data_ptr(), owner, Device::CPU), nbytes))
    }

    /// Whether this is a [`part`](Self::part) of another storage.
    pub fn is_part(&self) -> bool {
        self.with_owner(|PartOwner(whole)| whole.is_shared()).unwrap_or(false)
    }

    /// Whether the memory can be seen by other processes.
    pub fn is_shared(&self) -> bool {
        self.with_owner(|mapping: &Mapping| mapping.sharing == Sharing::Shared).unwrap_or(false)
    }

    /// Moves the contents to memory that other processes can map. Does nothing if they are there
    /// already. Returns a copy of the descriptor.
    #[cfg(target_os = "linux")]
    pub fn share(&self) -> Result<OwnedFd> {
        if !self.is_shared() {
            self.move_to_mapping(Mapping::shared_memory(self.nbytes())?)?;
        }
        self.shared_descriptor()
    }

    /// Moves the contents to memory with a name. Does nothing if they are in shared memory already.
    pub fn share_as(&self, path: &Path) -> Result<()> {
        if !self.is_shared() {
            self.move_to_mapping(Mapping::new_segment(path, self.nbytes())?)?;
        }
        Ok(())
    }

    /// The hold on the segment, if the memory has a name.
    pub fn segment(&self) -> Option<Arc<Segment>> {
        self.with_owner(|mapping: &Mapping| mapping.segment.clone()).flatten()
    }

    fn move_to_mapping(&self, mapping: Mapping) -> Result<()> {
        self.move_to(DataPtr::with_owner(mapping.start, Box::new(mapping), Device::CPU))
    }

    fn shared_descriptor(&self) -> Result<OwnedFd> {
        let copy = self.with_owner(|mapping: &Mapping| {
            mapping.descriptor().map(|descriptor| descriptor.try_clone_to_owned())
        });
        match copy.flatten() {
            Some(Ok(descriptor)) => Ok(descriptor),
            Some(Err(error)) => Err(os_error("unable to duplicate a descriptor".into(), error)),
            None => Err(err!(Runtime, "the storage's descriptor was not kept")),
        }
    }
}
