//! The records of zip files, in PyTorch's archives and NumPy's: what a file says of itself is checked before
//! memory is asked for.

use corten_core::{Result, ensure, err, try_with_capacity};
use std::io::{BufReader, Read, Seek, SeekFrom};
use zip::{CompressionMethod, ZipArchive};

/// Compressed records that grow more than a hundredfold, to more than this together, are refused.
const LARGEST_INFLATED: u64 = 1 << 28;
const LARGEST_RATIO: u64 = 100;

/// What a file says of the length of a record is believed up to this.
const BELIEVED: usize = 1 << 24;

const CENTRAL_HEADER: [u8; 4] = *b"PK\x01\x02";

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
    /// Reads the directory.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(file: R) -> Result<Self, String> {
        let told =
            |error: zip::result::ZipError| format!("failed finding central directory ({error})");
        let zip = ZipArchive::new(file).map_err(told)?;
        let start = zip.central_directory_start();
        let mut file = zip.into_inner();
        let count = entries(&mut file, start).map_err(|error| error.to_string())?;
        let mut zip = ZipArchive::new(file).map_err(told)?;
        if count != zip.len() {
            return Err("there are two records of one name".to_owned());
        }
        let packed = check_places(&mut zip, start)?;
        let inflated_left = packed.saturating_mul(LARGEST_RATIO).max(LARGEST_INFLATED);
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
        let entry = self.zip.by_index_raw(at).map_err(|error| err!(Runtime, "{error}"))?;
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
        let mut entry = self.zip.by_index(at).map_err(|error| err!(Runtime, "{error}"))?;
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
        let mut bytes = try_with_capacity(count.min(BELIEVED))?;
        let read = entry.by_ref().take(size).read_to_end(&mut bytes);
        read.map_err(|error| err!(Runtime, "{error}"))?;
        ensure!(bytes.len() == count, Runtime, "unexpected end of file");
        if is_checked {
            // At the end the checksum is compared.
            let rest = entry.read(&mut [0]).map_err(|error| err!(Runtime, "{error}"))?;
            ensure!(rest == 0, Runtime, "it is longer than it says");
        }
        Ok(bytes)
    }
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
        spans.push((begin, data.checked_add(entry.compressed_size())));
    }
    spans.sort_unstable();
    let (mut before, mut packed) = (0, 0_u64);
    for (begin, reach) in spans {
        let Some(reach) = reach.filter(|&reach| reach <= end) else {
            return Err("a record reaches beyond the file".to_owned());
        };
        if begin < before {
            return Err("a record overlaps another".to_owned());
        }
        packed = packed.saturating_add(reach - begin);
        before = reach;
    }
    Ok(packed)
}
