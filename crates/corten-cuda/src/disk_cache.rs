//! Compiled kernels on disk: one file per kernel, in `$XDG_CACHE_HOME/corten/kernels`.
//!
//! A file holds its whole key (text, instantiation, architecture, versions), so that two kernels whose
//! names collide are told apart. Files appear whole, by renaming; what cannot be read or written is as
//! if it were not there. `CORTEN_KERNEL_CACHE` names another directory; empty, it turns the cache off.

use crate::compile::Compiled;
use crate::driver::nvrtc_identity;
use corten_core::config;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes that the directory holds; older files go first.
const LIMIT: u64 = 256 << 20;
const MAGIC: &[u8; 8] = b"cortenK1";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything a compiled kernel depends on.
pub(crate) struct Key {
    /// The instantiation, a line end, and the text.
    source: String,
    /// The compute capability.
    compute: i32,
}

impl Key {
    pub(crate) fn new(text: &str, expression: &str, compute: i32) -> Self {
        Self { source: format!("{expression}\n{text}"), compute }
    }

    /// The key in a file, with the NVRTC that compiled the kernel.
    fn written(&self, compiler: &str) -> String {
        format!("{VERSION} nvrtc {compiler} sm_{} {}", self.compute, self.source)
    }

    /// The key in a pack, whose kernels are for one architecture.
    pub(crate) fn in_pack(&self) -> u128 {
        fnv1a(&[VERSION.as_bytes(), b" ", self.source.as_bytes()])
    }

    pub(crate) fn compute(&self) -> i32 {
        self.compute
    }

    /// The name of the file, the same for every compiler.
    fn file(&self, directory: &Path) -> PathBuf {
        let compute = self.compute.to_le_bytes();
        let hash = fnv1a(&[VERSION.as_bytes(), &compute, self.source.as_bytes()]);
        directory.join(format!("{hash:032x}"))
    }
}

/// The hash FNV-1a of 128 bits.
fn fnv1a(parts: &[&[u8]]) -> u128 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    })
}

fn directory() -> Option<&'static Path> {
    static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = DIRECTORY.get_or_init(|| match config::var("CORTEN_KERNEL_CACHE") {
        Some(empty) if empty.is_empty() => None,
        Some(named) => Some(PathBuf::from(named)),
        None => {
            let home = || Some(PathBuf::from(config::var("HOME")?).join(".cache"));
            let cache = config::var("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
            Some(cache.join("corten/kernels"))
        }
    });
    found.as_deref()
}

/// The kernel with this key, of the NVRTC that is installed; where none is, of any.
pub(crate) fn read(key: &Key) -> Option<Compiled> {
    let bytes = std::fs::read(key.file(directory()?)).ok()?;
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let written = std::str::from_utf8(part(&mut rest)?).ok()?;
    let compiler = written.strip_prefix(VERSION)?.strip_prefix(" nvrtc ")?.split(' ').next()?;
    let usable = nvrtc_identity().is_none_or(|installed| installed == compiler);
    if !usable || written != key.written(compiler) {
        return None;
    }
    let compiled = Compiled::read(&mut rest)?;
    rest.is_empty().then_some(compiled)
}

impl Compiled {
    /// A symbol and an image with their lengths.
    pub(crate) fn read(rest: &mut &[u8]) -> Option<Self> {
        let symbol = String::from_utf8(part(rest)?.to_vec()).ok()?;
        Some(Self { symbol, image: part(rest)?.to_vec() })
    }
}

/// A length of eight bytes, and as many bytes after it.
fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (found, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(found)
}

/// Keeps a kernel for later programs.
pub(crate) fn write(key: &Key, compiled: &Compiled) {
    let Some(directory) = directory() else { return };
    let written = key.written(nvrtc_identity().unwrap_or_default());
    let mut bytes = MAGIC.to_vec();
    for part in [written.as_bytes(), compiled.symbol.as_bytes(), &compiled.image] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let temporary = directory.join(format!("{}-{number}.tmp", std::process::id()));
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&temporary, bytes))
        .and_then(|()| std::fs::rename(&temporary, key.file(directory)));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    } else if number == 0 {
        make_space(directory);
    }
}

/// Removes the files that were written first until the rest is within the limit.
fn make_space(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let described = entries.flatten().filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(|metadata| metadata.is_file())?;
        Some((metadata.modified().ok()?, metadata.len(), entry.path()))
    });
    let mut files: Vec<_> = described.collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in files {
        if total <= LIMIT {
            return;
        }
        if std::fs::remove_file(path).is_ok() {
            total -= size;
        }
    }
}
