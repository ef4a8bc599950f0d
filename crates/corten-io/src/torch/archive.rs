//! The records of a zip archive.

use corten_core::{LentMemory, Result, Storage, bail, ensure, err, try_with_capacity};
use std::collections::HashMap;
use std::io::{Read, Seek};
use zip::{CompressionMethod, ZipArchive};

/// A compressed record that grows more than a hundredfold, to more than this, is refused.
const LARGEST_INFLATED: u64 = 1 << 28;
const LARGEST_RATIO: u64 = 100;

/// Mapped data of elements must begin at a multiple of this; others are copied.
const MAPPED_ALIGNMENT: u64 = 16;

/// The records of an archive, by their names below the folder of the first.
pub(super) struct Archive<R> {
    zip: ZipArchive<R>,
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

fn failed(name: &str, why: impl std::fmt::Display) -> corten_core::Error {
    err!(Runtime, "PytorchStreamReader failed reading file {name:.80}: {why}")
}

impl<R: Read + Seek> Archive<R> {
    pub(super) fn new(file: R, mapped: Option<LentMemory>) -> Result<Self> {
        let zip = ZipArchive::new(file)
            .map_err(|error| broken(format_args!("failed finding central directory ({error})")))?;
        let names: Vec<String> = (0..zip.len())
            .map(|at| match zip.name_for_index(at) {
                Some(Ok(name)) => Ok(name.into_owned()),
                _ => Err(broken("the name of a record is malformed")),
            })
            .collect::<Result<_>>()?;
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
        let mut entry = self.zip.by_index(at).map_err(|error| failed(name, error))?;
        let (size, packed) = (entry.size(), entry.compressed_size());
        let most = largest_inflated.max(LARGEST_RATIO.saturating_mul(packed));
        match entry.compression() {
            CompressionMethod::Stored => ensure!(
                size == packed,
                Runtime,
                "PytorchStreamReader failed reading file {name:.80}: its two lengths differ"
            ),
            _ if size > most => {
                return Err(failed(name, format_args!("it would grow to {size} bytes")));
            }
            _ => {}
        }
        let count = usize::try_from(size).map_err(|_| failed(name, "it is too large"))?;
        // What a file says of its length is believed in steps.
        let mut bytes = try_with_capacity(count.min(1 << 24))?;
        let read = entry.by_ref().take(size).read_to_end(&mut bytes);
        read.map_err(|error| failed(name, error))?;
        ensure!(
            bytes.len() == count,
            Runtime,
            "PytorchStreamReader failed reading file {name:.80}: unexpected end of file"
        );
        Ok(bytes)
    }

    /// A storage with the bytes of a record: a part of the mapped file where there is one.
    pub(super) fn storage(&mut self, name: &str, nbytes: usize) -> Result<Storage> {
        let at = self.index(name)?;
        let entry = self.zip.by_index_raw(at).map_err(|error| failed(name, error))?;
        let size = entry.size();
        if size != nbytes as u64 {
            bail!(
                Runtime,
                "PytorchStreamReader failed reading file {name:.80}: it has {size} bytes, but {nbytes} are expected"
            );
        }
        let place = match (entry.compression(), entry.data_start()) {
            (CompressionMethod::Stored, Some(start)) if entry.compressed_size() == size => {
                Some(start)
            }
            _ => None,
        };
        drop(entry);
        if let (Some(mapped), Some(start)) = (&self.mapped, place)
            && start.is_multiple_of(MAPPED_ALIGNMENT)
            && let Ok(start) = usize::try_from(start)
        {
            return mapped.slice(start, nbytes);
        }
        Ok(Storage::from_vec(self.read(name, LARGEST_INFLATED)?))
    }
}
