//! The records of zip files, in PyTorch's archives and NumPy's: what a file says of itself is checked before
//! memory is asked for.

use crate::bytes::{filled, unreadable};
use corten_core::{Error, Result, Storage, ensure, err, try_with_capacity};
use std::io::{BufReader, Read, Seek, SeekFrom};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// Compressed records may grow this much, whatever their size.
const LARGEST_RATIO: u64 = 100;

/// What a file says of the length of a record is believed up to this.
const BELIEVED: usize = 1 << 24;

const CENTRAL_HEADER: [u8; 4] = *b"PK\x01\x02";
/// The length of the header before a record, and where the length of the name is in it.
const LOCAL_HEADER: usize = 30;
const LOCAL_NAME: usize = 26;
/// Where the checksum is in the header before a record, and in that of the directory.
const LOCAL_CHECKSUM: u64 = 14;
const CENTRAL_CHECKSUM: u64 = 16;

/// A zip file whose records have names of their own and share no bytes.
pub(crate) struct Records<R> {
    zip: ZipArchive<R>,
    /// What compressed records may still grow to.
    inflated_left: u64,
}

/// A record: its number, its length, and where its bytes begin if they are stored as they are.
pub(crate) struct Record {
    pub(crate) size: u64,
    pub(crate) stored_at: Option<u64>,
}

impl<R: Read + Seek> Records<R> {
    /// Reads the directory. Compressed records that grow more than a hundredfold, to more than `largest_inflated`
    /// bytes together, are refused later.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(file: R, largest_inflated: u64) -> Result<Self, String> {
        let told = |error: ZipError| format!("failed finding central directory ({error})");
        let mut zip = ZipArchive::new(file).map_err(told)?;
        let start = zip.central_directory_start();
        let starts = starts(&mut zip)?;
        let mut file = zip.into_inner();
        check_names(&mut file, &starts)?;
        let count = entries(&mut file, start).map_err(|error| error.to_string())?;
        let mut zip = ZipArchive::new(file).map_err(told)?;
        if count != zip.len() {
            return Err("there are two records of one name".to_owned());
        }
        let packed = check_places(&mut zip, start)?;
        let inflated_left = packed.saturating_mul(LARGEST_RATIO).max(largest_inflated);
        Ok(Self { zip, inflated_left })
    }

    /// The names in the order of the file.
    ///
    /// # Errors
    /// For a name that is no text.
    pub(crate) fn names(&self) -> Result<Vec<String>, String> {
        let name = |at| match self.zip.name_for_index(at) {
            Some(Ok(name)) => Ok(name.into_owned()),
            _ => Err("the name of a record is malformed".to_owned()),
        };
        (0..self.zip.len()).map(name).collect()
    }

    /// What the directory says of a record.
    ///
    /// # Errors
    /// `Runtime` where it cannot be read.
    pub(crate) fn describe(&mut self, at: usize) -> Result<Record> {
        let entry = self.zip.by_index_raw(at).map_err(|error| told(&error))?;
        let size = entry.size();
        let is_stored =
            entry.compression() == CompressionMethod::Stored && entry.compressed_size() == size;
        Ok(Record { size, stored_at: entry.data_start().filter(|_| is_stored) })
    }

    /// The bytes of a record, whose checksum is compared where it was written.
    ///
    /// # Errors
    /// `Runtime` where it is damaged, or would grow beyond `largest_inflated` and a hundredfold.
    pub(crate) fn read(&mut self, at: usize, largest_inflated: u64) -> Result<Vec<u8>> {
        self.read_with(at, largest_inflated, |entry, count| {
            let mut bytes = try_with_capacity(count.min(BELIEVED))?;
            let read = entry.take(count as u64).read_to_end(&mut bytes);
            read.map_err(|error| unreadable(&error))?;
            ensure!(bytes.len() == count, Runtime, "unexpected end of file");
            Ok(bytes)
        })
    }

    /// As [`read`](Self::read), into a storage.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn storage(&mut self, at: usize, largest_inflated: u64) -> Result<Storage> {
        self.read_with(at, largest_inflated, |entry, count| filled(entry, count))
    }

    fn read_with<T>(
        &mut self,
        at: usize,
        largest_inflated: u64,
        read: impl FnOnce(&mut dyn Read, usize) -> Result<T>,
    ) -> Result<T> {
        let mut entry = self.zip.by_index(at).map_err(|error| told(&error))?;
        let (size, packed) = (entry.size(), entry.compressed_size());
        // PyTorch writes zero where it was told not to compute checksums.
        let is_checked = entry.crc32() != 0;
        if entry.compression() == CompressionMethod::Stored {
            ensure!(size == packed, Runtime, "its two lengths differ");
        } else {
            let most = largest_inflated.max(LARGEST_RATIO.saturating_mul(packed));
            let left = self.inflated_left.checked_sub(size).filter(|_| size <= most);
            self.inflated_left =
                left.ok_or_else(|| err!(Runtime, "it would grow to {size} bytes"))?;
        }
        let count = usize::try_from(size).map_err(|_| err!(Runtime, "it is too large"))?;
        let found = read(&mut entry, count)?;
        if is_checked {
            // At the end the checksum is compared.
            let rest = entry.read(&mut [0]).map_err(|error| unreadable(&error))?;
            ensure!(rest == 0, Runtime, "it is longer than it says");
        }
        Ok(found)
    }

    /// Says in the bytes of the file that there are no checksums, because its data are about to change.
    ///
    /// # Errors
    /// `Runtime` where a record cannot be found, `Index` where the file is not that long.
    pub(crate) fn drop_checksums(&mut self, file: &Storage) -> Result<()> {
        for at in 0..self.zip.len() {
            let entry = self.zip.by_index_raw(at).map_err(|error| err!(Runtime, "{error}"))?;
            let places = [
                entry.header_start().saturating_add(LOCAL_CHECKSUM),
                entry.central_header_start().saturating_add(CENTRAL_CHECKSUM),
            ];
            for place in places {
                file.write_bytes(usize::try_from(place).unwrap_or(usize::MAX), &[0; 4])?;
            }
        }
        Ok(())
    }
}

/// An error of the archive in a record.
fn told(error: &ZipError) -> Error {
    match error {
        ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_) => {
            err!(Runtime, "it is encrypted, or compressed by an unknown method")
        }
        error => err!(Runtime, "{error}"),
    }
}

/// Where each record begins in the file, and the bytes of its name in the directory.
fn starts<R: Read + Seek>(zip: &mut ZipArchive<R>) -> Result<Vec<(u64, Vec<u8>)>, String> {
    let count = zip.len();
    let start = |at| {
        let entry = zip.by_index_raw(at).map_err(|error| error.to_string())?;
        Ok((entry.header_start(), entry.name_raw().to_vec()))
    };
    (0..count).map(start).collect()
}

/// Refuses records that have other names where they are than in the directory.
fn check_names<R: Read + Seek>(file: &mut R, starts: &[(u64, Vec<u8>)]) -> Result<(), String> {
    for (start, name) in starts {
        let shown = || String::from_utf8_lossy(name);
        // Bounded: names of zip files have 65,535 bytes at most.
        let mut header = vec![0; LOCAL_HEADER + name.len()];
        let read = file.seek(SeekFrom::Start(*start)).and_then(|_| file.read_exact(&mut header));
        read.map_err(|_| format!("the record {:.80} reaches beyond the file", shown()))?;
        let length = usize::from(u16::from_le_bytes([header[LOCAL_NAME], header[LOCAL_NAME + 1]]));
        if length != name.len() || header[LOCAL_HEADER..] != name[..] {
            return Err(format!("the header of the record {:.80} has another name", shown()));
        }
    }
    Ok(())
}

/// The number of entries in the directory, where those of one name count each.
fn entries<R: Read + Seek>(file: &mut R, start: u64) -> std::io::Result<usize> {
    let mut directory = BufReader::new(file);
    directory.seek(SeekFrom::Start(start))?;
    let (mut count, mut header) = (0, [0; 46]);
    while directory.read_exact(&mut header).is_ok() && header[..4] == CENTRAL_HEADER {
        let length = |at| i64::from(u16::from_le_bytes([header[at], header[at + 1]]));
        directory.seek_relative(length(28) + length(30) + length(32))?;
        count += 1;
    }
    Ok(count)
}

/// Refuses records that share bytes or reach beyond the directory; the bytes of all.
fn check_places<R: Read + Seek>(zip: &mut ZipArchive<R>, end: u64) -> Result<u64, String> {
    let mut spans = Vec::new();
    for at in 0..zip.len() {
        let entry = zip.by_index_raw(at).map_err(|error| error.to_string())?;
        let begin = entry.header_start();
        let data = entry.data_start().unwrap_or(begin);
        spans.push((begin, data.checked_add(entry.compressed_size()), at));
    }
    spans.sort_unstable();
    let (mut before, mut packed) = (0, 0_u64);
    for (begin, reach, at) in spans {
        let name = zip.name_for_index(at).and_then(Result::ok).unwrap_or_default();
        let Some(reach) = reach.filter(|&reach| reach <= end) else {
            return Err(format!("the record {name:.80} reaches beyond the file"));
        };
        if begin < before {
            return Err(format!("the record {name:.80} overlaps another"));
        }
        packed = packed.saturating_add(reach - begin);
        before = reach;
    }
    Ok(packed)
}
