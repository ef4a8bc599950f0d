//! Paths as Python gives them, and the system's errors as Python raises them.

use crate::py::{Obj, Py, Raised, ffi, name};
use std::fs::File;
use std::path::PathBuf;

/// A path, of what `os.fsencode` takes.
///
/// # Errors
/// It is no path, or names no file that can be opened: the `OSError` that `open` raises.
pub(super) fn readable(object: &Obj) -> Py<PathBuf> {
    let path = to_path(object)?;
    let opened = File::open(&path).and_then(|file| file.metadata());
    // Folders can be opened, too.
    let opened = opened.and_then(|metadata| match metadata.is_dir() {
        true => Err(std::io::Error::from_raw_os_error(IS_A_DIRECTORY)),
        false => Ok(()),
    });
    match opened {
        Ok(()) => Ok(path),
        Err(error) => Err(os_error(&error, object)),
    }
}

const IS_A_DIRECTORY: i32 = 21;

/// A path, of what `os.fsencode` takes.
///
/// # Errors
/// It is no path.
pub(super) fn to_path(object: &Obj) -> Py<PathBuf> {
    let os = crate::py::convert::import(name!("os"))?;
    Ok(decoded(os.call_method(name!("fsencode"), &[object])?.as_bytes()?))
}

#[cfg(unix)]
fn decoded(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;

    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn decoded(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Raises an error of the system about a file, of the class that its number has.
fn os_error(error: &std::io::Error, path: &Obj) -> Raised {
    let raise = || -> Py<Raised> {
        let os = crate::py::convert::import(name!("os"))?;
        let number = Obj::int(error.raw_os_error().unwrap_or(0).into())?;
        let text = os.call_method(name!("strerror"), &[&number])?;
        // SAFETY: a class of the interpreter is live.
        let class = unsafe { Obj::borrowed(ffi::PyExc_OSError) };
        Ok(Raised::raise(&class.call(&[&number, &text, path])?))
    };
    raise().unwrap_or_else(|raised| raised)
}
