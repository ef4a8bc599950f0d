//! The records of a zip archive.

use crate::records::Records;
use corten_core::{LentMemory, Result, Storage, bail, err};
use std::collections::HashMap;
use std::io::{Read, Seek};

/// A compressed record that grows more than a hundredfold, to more than this, is refused.
const LARGEST_INFLATED: u64 = 1 << 28;

/// Mapped data of elements must begin at a multiple of this; others are copied.
const MAPPED_ALIGNMENT: u64 = 16;

/// The records of an archive, by their names below the folder of the first.
///
/// What a file says of itself is checked before memory is asked for: a record lies inside the file and overlaps no
/// other, names occur once, and checksums are compared where they were written.
///
/// ```
/// use corten::io::torch::{self, Archive};
/// use corten::io::Value;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let path = std::env::temp_dir().join(format!("corten-archive-{}.pt", std::process::id()));
/// torch::save(&path, &Value::from_tensors([("weight", tensor![1., 2.]?)]))?;
/// let mut archive = Archive::new(std::fs::File::open(&path).expect("it was just written"))?;
/// assert!(archive.has("data.pkl"));
/// assert_eq!(archive.read("byteorder")?, b"little");
/// assert_eq!(archive.storage("data/0", 8)?.nbytes(), 8);
/// # std::fs::remove_file(path).ok();
/// # Ok(())
/// # }
/// ```
pub struct Archive<R> {
    zip: Records<R>,
    names: Vec<String>,
    records: HashMap<String, usize>,
    /// The whole file as memory, if storages shall be parts of it.
    mapped: Option<LentMemory>,
}

fn broken(what: impl std::fmt::Display) -> corten_core::Error {
    err!(
        Runtime,
        "PytorchStreamReader failed reading zip archive: {what}. The file is corrupted: it was not saved or transferred as a whole, or was changed afterwards."
    )
}

fn failed(name: &str, why: &corten_core::Error) -> corten_core::Error {
    err!(Runtime, "PytorchStreamReader failed reading file {name:.80}: {}", why.message())
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the directory of a file.
    ///
    /// # Errors
    /// `Runtime` where it is damaged, or names records that are not there.
    pub fn new(file: R) -> Result<Self> {
        let zip = Records::new(file, LARGEST_INFLATED).map_err(broken)?;
        let names = zip.names().map_err(broken)?;
        let Some(first) = names.first() else { return Err(broken("there are no records")) };
        let Some((folder, _)) = first.split_once('/') else {
            return Err(broken(format_args!(
                "file in archive is not in a subdirectory: {first:.80}"
            )));
        };
        let folder = format!("{folder}/");
        let numbered = names.iter().enumerate();
        let inside: Vec<(String, usize)> = numbered
            .filter_map(|(at, name)| Some((name.strip_prefix(&folder)?.to_owned(), at)))
            .collect();
        let names = inside.iter().map(|(name, _)| name.clone()).collect();
        Ok(Self { zip, names, records: inside.into_iter().collect(), mapped: None })
    }

    /// Makes storages of parts of the file, which is in memory as a whole, instead of copies.
    #[must_use]
    pub fn mapped(mut self, file: LentMemory) -> Self {
        self.mapped = Some(file);
        self
    }

    /// The names of the records, in the order of the file.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether there is a record of that name.
    pub fn has(&self, name: &str) -> bool {
        self.records.contains_key(name)
    }

    fn index(&self, name: &str) -> Result<usize> {
        let found = self.records.get(name).copied();
        found.ok_or_else(|| {
            err!(Runtime, "PytorchStreamReader failed locating file {name:.80}: file not found")
        })
    }

    /// The length of a record, and where its bytes begin in the file if they are not compressed.
    ///
    /// # Errors
    /// `Runtime` where there is none, or it is damaged.
    pub fn describe(&mut self, name: &str) -> Result<(u64, Option<u64>)> {
        let at = self.index(name)?;
        let record = self.zip.describe(at).map_err(|error| failed(name, &error))?;
        Ok((record.size, record.stored_at))
    }

    /// The bytes of a record.
    ///
    /// # Errors
    /// `Runtime` where there is none, or it is damaged.
    pub fn read(&mut self, name: &str) -> Result<Vec<u8>> {
        self.read_at_most(name, LARGEST_INFLATED)
    }

    /// The bytes of a record; one that is compressed, grows more than a hundredfold and to more than `largest` is
    /// refused.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_at_most(&mut self, name: &str, largest: u64) -> Result<Vec<u8>> {
        let at = self.index(name)?;
        self.zip.read(at, largest).map_err(|error| failed(name, &error))
    }

    /// A storage with the bytes of a record, which has `nbytes`: a part of the mapped file where there is one.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn storage(&mut self, name: &str, nbytes: usize) -> Result<Storage> {
        let (size, stored_at) = self.describe(name)?;
        if size != nbytes as u64 {
            bail!(
                Runtime,
                "PytorchStreamReader failed reading file {name:.80}: it has {size} bytes, but {nbytes} are expected"
            );
        }
        if let (Some(mapped), Some(start)) = (&self.mapped, stored_at)
            && start.is_multiple_of(MAPPED_ALIGNMENT)
            && let Ok(start) = usize::try_from(start)
        {
            return mapped.slice(start, nbytes);
        }
        let at = self.index(name)?;
        self.zip.storage(at, LARGEST_INFLATED).map_err(|error| match error.kind() {
            corten_core::ErrorKind::OutOfMemory => error,
            _ => failed(name, &error),
        })
    }

    /// Says in the file, which is in memory as a whole and can be written to, that there are no checksums: its data
    /// are about to change.
    ///
    /// # Errors
    /// `Runtime` where a record cannot be found, `Index` where the memory is not that of the file.
    pub fn drop_checksums(&mut self, file: &Storage) -> Result<()> {
        self.zip.drop_checksums(file)
    }
}
