//! Compiled kernels on disk: one file per kernel, in `$XDG_CACHE_HOME/corten/kernels`.
//!
//! A file holds its whole key (text, instantiation, architecture, versions), so that two kernels whose
//! names collide are told apart. Files appear whole, by renaming; what cannot be read or written is as
//! if it were not there. `CORTEN_KERNEL_CACHE` names another directory; empty, it turns the cache off.

use crate::compile::Compiled;
use crate::driver::nvrtc;
use corten_core::config;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes that the directory holds; older files go first.
const LIMIT: u64 = 256 << 20;
const MAGIC: &[u8; 8] = b"cortenK1";

/// Everything a compiled kernel depends on.
pub(crate) fn key(text: &str, expression: &str, compute: i32) -> String {
    let (mut major, mut minor) = (0, 0);
    if let Ok(nvrtc) = nvrtc() {
        // SAFETY: NVRTC writes two numbers.
        unsafe { (nvrtc.nvrtcVersion)(&mut major, &mut minor) };
    }
    let version = env!("CARGO_PKG_VERSION");
    format!("{version} nvrtc {major}.{minor} sm_{compute} {expression}\n{text}")
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

fn file(directory: &Path, key: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    directory.join(format!("{:016x}", hasher.finish()))
}

/// The kernel with this key.
pub(crate) fn read(key: &str) -> Option<Compiled> {
    let bytes = std::fs::read(file(directory()?, key)).ok()?;
    let mut rest = bytes.strip_prefix(MAGIC)?;
    if part(&mut rest)? != key.as_bytes() {
        return None;
    }
    let symbol = String::from_utf8(part(&mut rest)?.to_vec()).ok()?;
    let image = part(&mut rest)?.to_vec();
    rest.is_empty().then_some(Compiled { image, symbol })
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
pub(crate) fn write(key: &str, compiled: &Compiled) {
    let Some(directory) = directory() else { return };
    let mut bytes = MAGIC.to_vec();
    for part in [key.as_bytes(), compiled.symbol.as_bytes(), &compiled.image] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let temporary = directory.join(format!("{}-{number}.tmp", std::process::id()));
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&temporary, bytes))
        .and_then(|()| std::fs::rename(&temporary, file(directory, key)));
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
