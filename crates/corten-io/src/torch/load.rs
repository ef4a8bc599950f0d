//! Reading.

use super::archive::Archive;
use super::rebuild::{Storages, TensorHost};
use super::stream;
use crate::pickle;
use crate::value::Value;
use corten_core::{Device, Error, ErrorKind, LentMemory, Result, Storage, ensure};
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

/// A compressed pickle that grows a hundredfold to more than this is refused: its objects take a hundred times the
/// memory again.
const LARGEST_PICKLE: u64 = 1 << 24;

/// What becomes of functions and classes that are not on the list of what weights are saved with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownClasses {
    /// An error that names the first.
    #[default]
    Refuse,
    /// A [`Value::Object`] with what the file says of it.
    Keep,
}

/// What [`load_with`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Whether tensors are parts of the mapped file, of which what is used is read. Writes to them do not change
    /// the file. Checksums are not compared then. Only of zip archives.
    pub mmap: bool,
    /// Where tensors go; by default to the devices that the file names.
    pub map_location: Option<Device>,
    /// Functions and classes that are not on the list.
    pub unknown: UnknownClasses,
}

/// Reads what `torch.save` or [`save`](super::save) wrote: a zip archive or a stream.
///
/// Tensors do not require gradients, whatever those that were saved did; parameters are tensors; attributes of
/// dictionaries are left out.
///
/// # Errors
/// `Runtime` where the file cannot be read, is damaged, or asks for a function or class that is not on the list of
/// what weights are saved with; `NotImplemented` for sparse and quantised tensors.
pub fn load(path: impl AsRef<Path>) -> Result<Value> {
    load_with(path, LoadOptions::default())
}

/// [`load`] with options.
///
/// # Errors
/// As [`load`].
pub fn load_with(path: impl AsRef<Path>, options: LoadOptions) -> Result<Value> {
    let path = path.as_ref();
    let told = |error: std::io::Error| {
        Error::new(ErrorKind::Runtime, format!("{}: {error}", path.display()))
    };
    let file = File::open(path).map_err(told)?;
    let mapped = match options.mmap {
        true => Some(Storage::of_file(path)?.lend()?),
        false => None,
    };
    read(BufReader::new(file), mapped, options)
}

/// [`load`] of a file that is in memory.
///
/// # Errors
/// As [`load`].
pub fn load_bytes(bytes: &[u8], options: LoadOptions) -> Result<Value> {
    read(Cursor::new(bytes), None, options)
}

fn read<R: Read + Seek>(
    mut file: R,
    mapped: Option<LentMemory>,
    options: LoadOptions,
) -> Result<Value> {
    let told = |error: std::io::Error| Error::new(ErrorKind::Runtime, error.to_string());
    let mut head = Vec::new();
    file.by_ref().take(4).read_to_end(&mut head).map_err(told)?;
    file.seek(SeekFrom::Start(0)).map_err(told)?;
    if head == b"PK\x03\x04" {
        return read_archive(file, mapped, options);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(told)?;
    stream::read(&bytes, options)
}

/// The most parts of the value of a pickle: far more than its bytes where they are few, for lists that stand in
/// many places.
pub(super) fn parts_allowed(nbytes: usize) -> usize {
    nbytes.saturating_mul(64).clamp(1 << 18, (1 << 22).max(nbytes.saturating_mul(8)))
}

fn read_archive<R: Read + Seek>(
    file: R,
    mapped: Option<LentMemory>,
    options: LoadOptions,
) -> Result<Value> {
    let mut archive = Archive::new(file)?;
    if let Some(mapped) = mapped {
        archive = archive.mapped(mapped);
    }
    ensure!(
        !archive.has("constants.pkl"),
        Runtime,
        "TorchScript archives hold programs, not only tensors, and are not read"
    );
    let data = archive.read_at_most("data.pkl", LARGEST_PICKLE)?;
    let is_big = archive.has("byteorder") && archive.read("byteorder")? == b"big";
    let mut read = |key: &str, nbytes: usize| archive.storage(&format!("data/{key}"), nbytes);
    let mut host = TensorHost::new(Storages::new(&mut read, is_big), options);
    let (arena, root, _) = pickle::read(&data, 0, &mut host)?;
    // A small pickle may hold one large list many times.
    let value = arena.value(root, &mut parts_allowed(data.len()))?;
    host.check_sparse()?;
    Ok(value)
}
