//! Kernels that come compiled with a program: a file for each generation of devices.
//!
//! A pack is `sm_XY.pack` in the folder `CORTEN_KERNEL_PACK`, or in `kernels` beside the file that this code is
//! in (the extension module, or a program). `tests/cuda/kernel_pack.py` writes it: a header, the keys of
//! its kernels in order, and each kernel deflated with a dictionary of its own. Only the index is read at
//! once. A kernel whose text has changed has another key, so that a stale pack is as if it were not there.

use crate::compile::Compiled;
use crate::disk_cache::Key;
use corten_core::config;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const MAGIC: &[u8; 8] = b"cortenP1";
/// The header: the magic word, the number of kernels and the length of the dictionary.
const HEADER: usize = 16;
/// A row of the index: a key, an offset, a deflated and an inflated length.
const ROW: usize = 32;
/// The largest kernel that is believed.
const MOST_BYTES: u32 = 64 << 20;

/// Where a kernel is in its file.
#[derive(Clone, Copy)]
struct Row {
    offset: u64,
    deflated: u32,
    inflated: u32,
}

struct Pack {
    file: File,
    rows: HashMap<u128, Row>,
    /// What kernels are inflated after.
    dictionary: Vec<u8>,
}

/// The kernel with this key in the pack of its architecture.
pub(crate) fn read(key: &Key) -> Option<Compiled> {
    let pack = pack_of(key.compute())?;
    let row = *pack.rows.get(&key.in_pack())?;
    let mut deflated = vec![0; row.deflated as usize];
    pack.file.read_exact_at(&mut deflated, row.offset).ok()?;
    let start = pack.dictionary.len();
    let mut bytes = pack.dictionary.clone();
    bytes.resize(start + row.inflated as usize, 0);
    let mut state = DecompressorOxide::new();
    let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, _, written) = decompress(&mut state, &deflated, &mut bytes, start, flags);
    if status != TINFLStatus::Done || written != row.inflated as usize {
        return None;
    }
    let mut rest = &bytes[start..];
    let compiled = Compiled::read(&mut rest)?;
    rest.is_empty().then_some(compiled)
}

/// The pack for a compute capability: its own, else of an earlier one with the same first digit, whose code
/// such devices run.
fn pack_of(compute: i32) -> Option<Arc<Pack>> {
    static OPENED: Mutex<Vec<(i32, Option<Arc<Pack>>)>> = Mutex::new(Vec::new());
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, pack)) = opened.iter().find(|(known, _)| *known == compute) {
        return pack.clone();
    }
    let folder = folder();
    let candidates = (compute / 10 * 10..=compute).rev();
    let pack = folder.and_then(|folder| {
        candidates.into_iter().find_map(|compute| open(&folder.join(format!("sm_{compute}.pack"))))
    });
    let pack = pack.map(Arc::new);
    opened.push((compute, pack.clone()));
    pack
}

fn folder() -> Option<PathBuf> {
    match config::var("CORTEN_KERNEL_PACK") {
        Some(empty) if empty.is_empty() => None,
        Some(named) => Some(PathBuf::from(named)),
        None => Some(this_file()?.parent()?.join("kernels")),
    }
}

/// The shared library or the program that this code is in.
fn this_file() -> Option<PathBuf> {
    // SAFETY: all members may be zero; `dladdr` fills them for an address of this library.
    let found = unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        match libc::dladdr(this_file as *const c_void, &raw mut found) {
            0 => return None,
            _ => found,
        }
    };
    if found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name ends with a zero and lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

fn open(path: &Path) -> Option<Pack> {
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    let [count, dictionary] = [8, 12].map(|at| u32_at(&header, at));
    if &header[..8] != MAGIC || u64::from(count) * ROW as u64 + u64::from(dictionary) > length {
        return None;
    }
    let mut index = vec![0; count as usize * ROW];
    file.read_exact_at(&mut index, HEADER as u64).ok()?;
    let mut preset = vec![0; dictionary as usize];
    file.read_exact_at(&mut preset, (HEADER + index.len()) as u64).ok()?;
    let mut rows = HashMap::with_capacity(count as usize);
    for row in index.chunks_exact(ROW) {
        let key = u128::from_le_bytes(*row.first_chunk()?);
        let [deflated, inflated] = [24, 28].map(|at| u32_at(row, at));
        let offset = u64::from(u32_at(row, 16)) | u64::from(u32_at(row, 20)) << 32;
        let end = offset.checked_add(u64::from(deflated));
        if end.is_some_and(|end| end <= length) && inflated <= MOST_BYTES {
            rows.insert(key, Row { offset, deflated, inflated });
        }
    }
    Some(Pack { file, rows, dictionary: preset })
}

/// Four bytes as a number; a header and a row have them.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_le_bytes)
}
