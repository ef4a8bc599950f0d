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
pub(super) struct Archive<R> {
    zip: Records<R>,
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
    pub(super) fn new(file: R, mapped: Option<LentMemory>) -> Result<Self> {
        let zip = Records::new(file).map_err(broken)?;
        let names = zip.names().map_err(broken)?;
        let Some(first) = names.first() else { return Err(broken("there are no records")) };
        let Some((folder, _)) = first.split_once('/') else {
            return Err(broken(format_args!(
                "file in archive is not in a subdirectory: {first:.80}"
            )));
        };
        let folder = format!("{folder}/");
        let numbered = names.iter().enumerate();
        let inside =
            numbered.filter_map(|(at, name)| Some((name.strip_prefix(&folder)?.to_owned(), at)));
        let records = inside.collect();
        Ok(Self { zip, records, mapped })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.records.contains_key(name)
    }

    fn index(&self, name: &str) -> Result<usize> {
        let found = self.records.get(name).copied();
        found.ok_or_else(|| {
            err!(Runtime, "PytorchStreamReader failed locating file {name:.80}: file not found")
        })
    }

    /// The bytes of a record.
    pub(super) fn read(&mut self, name: &str, largest_inflated: u64) -> Result<Vec<u8>> {
        let at = self.index(name)?;
        self.zip.read(at, largest_inflated).map_err(|error| failed(name, &error))
    }

    /// A storage with the bytes of a record: a part of the mapped file where there is one.
    pub(super) fn storage(&mut self, name: &str, nbytes: usize) -> Result<Storage> {
        let at = self.index(name)?;
        let record = self.zip.describe(at).map_err(|error| failed(name, &error))?;
        let size = record.size;
        if size != nbytes as u64 {
            bail!(
                Runtime,
                "PytorchStreamReader failed reading file {name:.80}: it has {size} bytes, but {nbytes} are expected"
            );
        }
        if let (Some(mapped), Some(start)) = (&self.mapped, record.stored_at)
            && start.is_multiple_of(MAPPED_ALIGNMENT)
            && let Ok(start) = usize::try_from(start)
        {
            return mapped.slice(start, nbytes);
        }
        Ok(Storage::from_vec(self.read(name, LARGEST_INFLATED)?))
    }
}
