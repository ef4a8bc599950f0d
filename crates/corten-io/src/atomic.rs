//! Files that appear under their names only when they are complete.

use corten_core::{Error, ErrorKind, Result};
use std::fs::{self, File, Permissions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a file by a function; a file of that name is replaced when the new one is complete, and stays where
/// writing fails. Behind a link it is the file that is replaced, not the link; devices and pipes are written to.
///
/// # Errors
/// Those of the function; `Runtime` where the file cannot be written.
pub fn write(
    path: impl AsRef<Path>,
    body: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    let told = |error: std::io::Error| io_error(path, &error);
    let Ok(known) = fs::metadata(path) else { return replace(path, path, None, body) };
    // What may not be written to is not replaced either.
    let file = File::options().write(true).open(path).map_err(told)?;
    if known.is_file() {
        let target = fs::canonicalize(path).map_err(told)?;
        return replace(path, &target, Some(known.permissions()), body);
    }
    let mut file = BufWriter::new(file);
    body(&mut file)?;
    file.flush().map_err(told)
}

/// Writes beside the target, and renames.
fn replace(
    path: &Path,
    target: &Path,
    permissions: Option<Permissions>,
    body: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let told = |error: std::io::Error| io_error(path, &error);
    let temporary = temporary_beside(target);
    let written = File::create(&temporary).map_err(told).and_then(|file| {
        if let Some(permissions) = permissions {
            file.set_permissions(permissions).map_err(told)?;
        }
        let mut file = BufWriter::new(file);
        body(&mut file)?;
        file.flush().map_err(told)?;
        file.get_ref().sync_all().map_err(told)?;
        fs::rename(&temporary, target).map_err(told)
    });
    if written.is_err() {
        // Nothing is left behind; the first error is the one that counts.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// An error of the system about a file.
pub(crate) fn io_error(path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Runtime, format!("{}: {error}", path.display()))
}

/// A name that no other writer has, of this process or of another.
fn temporary_beside(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (process, number) =
        (corten_core::clock::process_id(), COUNT.fetch_add(1, Ordering::Relaxed));
    path.with_file_name(format!(".corten-{process}-{number}.tmp"))
}
