//! Opening a library at run time, and looking functions up in it.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;

use crate::{DistError, Result};

/// An opened library; never closed, because the threads that it starts do not end.
pub(in crate::mpi) struct Opened {
    handle: *mut c_void,
    /// What it was opened as.
    pub(in crate::mpi) name: String,
}

impl Opened {
    /// Opens a file, or a library of the system by its name. Its symbols become visible to libraries
    /// that are opened later: parts of Open MPI are, and look for them.
    ///
    /// # Errors
    /// `Backend` with the reason of the system.
    pub(in crate::mpi) fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, libc::RTLD_NOW | libc::RTLD_GLOBAL)
    }

    /// A library that the process has opened already.
    pub(in crate::mpi) fn loaded(name: &str) -> Option<Self> {
        let flags = libc::RTLD_NOW | libc::RTLD_GLOBAL | libc::RTLD_NOLOAD;
        Self::open_with(Path::new(name), flags).ok()
    }

    fn open_with(path: &Path, flags: i32) -> Result<Self> {
        let name = path.display().to_string();
        let Ok(c_name) = CString::new(path.as_os_str().as_encoded_bytes()) else {
            return Err(DistError::value(format!("{name:?} is no name of a library")));
        };
        // SAFETY: the name ends with a zero. Whoever names a library answers for what it does when opened.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), flags) };
        if handle.is_null() {
            return Err(DistError::backend(failure(&name)));
        }
        Ok(Self { handle, name })
    }

    /// The address of a symbol, or nothing where the library does not export it.
    pub(super) fn find(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open and the name ends with a zero.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// The address of a symbol.
    ///
    /// # Errors
    /// `Backend` where the library does not export it.
    pub(super) fn symbol(&self, name: &CStr) -> Result<*mut c_void> {
        self.find(name).ok_or_else(|| {
            let symbol = name.to_string_lossy();
            DistError::backend(format!(
                "{} does not export {symbol}: it is no MPI of version 3 or later",
                self.name
            ))
        })
    }
}

/// What the system says about the last failure.
fn failure(name: &str) -> String {
    // SAFETY: the function has no preconditions.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return format!("{name} cannot be opened");
    }
    // SAFETY: a message is a string that ends with a zero; this thread's next call replaces it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
