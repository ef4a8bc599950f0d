//! Storages in memory that processes share.

use crate::args::parser;
use crate::py::errors::runtime_error;
use crate::py::{Args, Obj, Py, ffi, method};
use crate::storage;
use corten_core::mapped::{self, Mapping, Sharing, Transport};
use corten_core::{Device, Storage, WeakStorage};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Storages of this process by device and inode of their memory, so that what comes back from
/// another process is the storage that went there.
static KNOWN: Mutex<Option<HashMap<(u64, u64), WeakStorage>>> = Mutex::new(None);

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_share_storage", share),
        method!("_storage_from_file", from_file),
        method!("_storage_filename", filename),
        method!("_descriptor_of_storage", descriptor_of),
        method!("_storage_from_descriptor", from_descriptor),
        method!("_share_storage_as", share_as),
        method!("_announce_segment", announce),
        method!("_new_slot", |_module: &Obj, args: Args<'_>| {
            let bound = parser!("_new_slot(int nbytes)").parse(None, args)?;
            let nbytes = bound.int(0)?.max(0) as usize;
            storage::wrap(&Storage::from_mapping(Mapping::shared_memory(nbytes)?))
        }),
        method!("_slot_from_descriptor", slot_from_descriptor),
        method!("_part_of_storage", |_module: &Obj, args: Args<'_>| {
            let bound = parser!("_part_of_storage(any storage, int nbytes)").parse(None, args)?;
            let (whole, nbytes) = (storage::from_object(bound.object(0)?)?, bound.int(1)?);
            storage::wrap(&whole.part(nbytes.max(0) as usize)?)
        }),
        method!("_storage_from_segment", from_segment),
        method!("_hold_segments_after_fork", |_module: &Obj, _args: Args<'_>| {
            mapped::hold_after_fork();
            Ok(Obj::none())
        }),
        method!("_release_segments", |_module: &Obj, _args: Args<'_>| {
            mapped::release_all();
            Ok(Obj::none())
        }),
    ]
}

/// A number that Python says is a descriptor that nobody else closes.
fn owned(descriptor: i64) -> Py<OwnedFd> {
    let Some(descriptor) = i32::try_from(descriptor).ok().filter(|number| *number >= 0) else {
        return Err(runtime_error("no descriptor"));
    };
    // SAFETY: the callers in `corten.multiprocessing` hand over descriptors that they own.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// `_share_storage(storage)`: moves a storage to shared memory and returns a descriptor that belongs to
/// the caller.
fn share(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_share_storage(any storage)").parse(None, args)?;
    let storage = storage::from_object(bound.object(0)?)?;
    let file = File::from(storage.share()?);
    if let Ok(metadata) = file.metadata() {
        remember((metadata.dev(), metadata.ino()), &storage);
    }
    Obj::int(file.into_raw_fd().into())
}

/// `_descriptor_of_storage(storage)`: the descriptor that a storage in shared memory keeps, or -1.
fn descriptor_of(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_descriptor_of_storage(any storage)").parse(None, args)?;
    let storage = storage::from_object(bound.object(0)?)?;
    let kept = storage.with_owner(|mapping: &Mapping| {
        mapping.descriptor().map(|descriptor| descriptor.as_raw_fd())
    });
    Obj::int(kept.flatten().unwrap_or(-1).into())
}

/// `_share_storage_as(storage, path=None)`: moves a storage that is not shared to memory with a name, the
/// path of a file; returns the path of the memory that it is in, or None if that has no name.
fn share_as(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_share_storage_as(any storage, str? path=None)").parse(None, args)?;
    let storage = storage::from_object(bound.object(0)?)?;
    if let Some(path) = bound.str_opt(1)? {
        storage.share_as(Path::new(path))?;
    }
    let Some(segment) = storage.segment() else { return Ok(Obj::none()) };
    if let Ok(metadata) = segment.path().metadata() {
        remember((metadata.dev(), metadata.ino()), &storage);
    }
    Obj::str_from(&segment.path().to_string_lossy())
}

/// The way of a message, from the word for it.
fn transport(word: &str) -> Option<Transport> {
    match word {
        "queue" => Some(Transport::Queue),
        "channel" => Some(Transport::Channel),
        _ => None,
    }
}

/// `_announce_segment(storage, transport, readers)`: counts a message with the name of a storage's memory, which
/// the processes `readers` may read.
fn announce(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_announce_segment(any storage, str transport, int[] readers)");
    let bound = parser.parse(None, args)?;
    let storage = storage::from_object(bound.object(0)?)?;
    let readers: Vec<u32> =
        bound.ints(2)?.iter().filter_map(|pid| u32::try_from(*pid).ok()).collect();
    let (Some(segment), Some(transport)) = (storage.segment(), transport(bound.str(1)?)) else {
        return Err(runtime_error("the storage is not in shared memory with a name"));
    };
    segment.announce(transport, &readers).map_err(|error| {
        let path = segment.path().display();
        runtime_error(format!("unable to send shared memory <{path}>: {error}"))
    })?;
    Ok(Obj::none())
}

/// `_storage_from_segment(path, transport)`: the storage over the memory with a name, which came by that transport
/// or, with an empty word, by none that was counted.
fn from_segment(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_storage_from_segment(str path, str transport)");
    let bound = parser.parse(None, args)?;
    let (path, transport) = (Path::new(bound.str(0)?), transport(bound.str(1)?));
    let known = path.metadata().ok();
    let known = known.and_then(|metadata| recall((metadata.dev(), metadata.ino())));
    if let Some(found) = known {
        if let (Some(segment), Some(transport)) = (found.segment(), transport) {
            // Where the name is gone there is no count either.
            let _ = segment.received(transport);
        }
        return storage::wrap(&found);
    }
    let made = Storage::from_mapping(Mapping::open_segment(path, transport)?);
    if let Ok(metadata) = path.metadata() {
        remember((metadata.dev(), metadata.ino()), &made);
    }
    storage::wrap(&made)
}

/// `_storage_from_descriptor(descriptor, nbytes)`: the storage over shared memory; takes the
/// descriptor over.
fn from_descriptor(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_storage_from_descriptor(int descriptor, int nbytes)");
    let bound = parser.parse(None, args)?;
    let (file, nbytes) = (File::from(owned(bound.int(0)?)?), bound.int(1)?.max(0) as usize);
    let metadata = file
        .metadata()
        .map_err(|error| runtime_error(format!("unable to stat shared memory: {error}")))?;
    let identity = (metadata.dev(), metadata.ino());
    // A file can be known with another size: then the same memory gets a second storage.
    if let Some(found) = recall(identity).filter(|found| found.nbytes() == nbytes) {
        return storage::wrap(&found);
    }
    let mapping = Mapping::of_descriptor(file.into(), Sharing::Shared, nbytes, true)?;
    let made = Storage::from_mapping(mapping);
    remember(identity, &made);
    storage::wrap(&made)
}

/// `_slot_from_descriptor(descriptor, nbytes)`: the storage over shared memory that is used again and again; takes
/// the descriptor over and closes it.
fn slot_from_descriptor(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_slot_from_descriptor(int descriptor, int nbytes)");
    let bound = parser.parse(None, args)?;
    let (file, nbytes) = (owned(bound.int(0)?)?, bound.int(1)?.max(0) as usize);
    let mapping = Mapping::of_descriptor(file, Sharing::Shared, nbytes, false)?;
    storage::wrap(&Storage::from_mapping(mapping))
}

/// `_storage_from_file(filename, shared, nbytes)`: a storage over the first bytes of a file. No bytes
/// need no file.
fn from_file(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_storage_from_file(any filename, bool shared, int nbytes)");
    let bound = parser.parse(None, args)?;
    let (shared, nbytes) = (bound.bool(1)?, bound.int(2)?);
    let path = Path::new(OsStr::from_bytes(bound.object(0)?.as_bytes()?));
    let Ok(nbytes) = usize::try_from(nbytes) else {
        return Err(runtime_error(format!(
            "unable to mmap {nbytes} bytes from file <{}>: it is no size",
            path.display()
        )));
    };
    if nbytes == 0 {
        return storage::wrap(&Storage::new(0, Device::CPU)?);
    }
    let sharing = if shared { Sharing::Shared } else { Sharing::Private };
    storage::wrap(&Storage::from_file(path, sharing, nbytes)?)
}

/// `_storage_filename(storage)`: the file that a storage shares its bytes with, if it has a name.
fn filename(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_storage_filename(any storage)").parse(None, args)?;
    let storage = storage::from_object(bound.object(0)?)?;
    let name = |mapping: &Mapping| match mapping.sharing() {
        Sharing::Shared => mapping.path().map(|path| path.to_string_lossy().into_owned()),
        Sharing::Private => None,
    };
    match storage.with_owner(name).flatten() {
        Some(name) => Obj::str_from(&name),
        None => Ok(Obj::none()),
    }
}

fn recall(identity: (u64, u64)) -> Option<Storage> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.as_ref()?.get(&identity)?.upgrade()
}

fn remember(identity: (u64, u64), storage: &Storage) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_with(HashMap::new);
    // Places of storages that are gone are swept out as often as the map doubles.
    if known.len() == known.capacity() {
        known.retain(|_, weak| weak.upgrade().is_some());
    }
    known.insert(identity, storage.downgrade());
}
