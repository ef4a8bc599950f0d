//! Files that appear under their names only when they are complete.

use corten_core::{Error, ErrorKind, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file by a function; a file of that name is replaced when the new one is complete, and stays where
/// writing fails.
///
/// # Errors
/// Those of the function; `Runtime` where the file cannot be written.
pub fn write(
    path: impl AsRef<Path>,
    body: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    let told = |error: std::io::Error| io_error(path, &error);
    let temporary = temporary_beside(path);
    let written = File::create(&temporary).map_err(told).and_then(|file| {
        let mut file = BufWriter::new(file);
        body(&mut file)?;
        file.flush().map_err(told)?;
        file.get_ref().sync_all().map_err(told)?;
        fs::rename(&temporary, path).map_err(told)
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

fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", corten_core::clock::process_id()));
    path.with_file_name(name)
}
