//! Where the Python packages of NVIDIA's libraries are: `nvidia/*/lib` beside this package and in `sys.path`.

use crate::py::{Obj, Py, ffi, gil};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The folders of libraries that exist.
///
/// It may be called on a thread without the interpreter lock, which it must not wait for: whoever has the
/// lock may be waiting for the driver that this thread is opening. Such a thread looks beside this package
/// only. Reading `sys.path` runs no Python code, so that the lock is kept throughout.
pub(super) fn directories() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    if gil::is_alive() && gil::is_attached() {
        match search_path() {
            Ok(found) => roots = found,
            Err(raised) => raised.clear(),
        }
    }
    roots.extend(beside_this_package());
    let mut found: Vec<PathBuf> = Vec::new();
    for root in roots {
        for folder in library_folders(&root.join("nvidia")) {
            if !found.contains(&folder) {
                found.push(folder);
            }
        }
    }
    found
}

/// `lib` in every folder, the newest CUDA first.
fn library_folders(vendor: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(vendor) else { return Vec::new() };
    let folders = entries.flatten().map(|entry| entry.path().join("lib"));
    let mut folders: Vec<PathBuf> = folders.filter(|folder| folder.is_dir()).collect();
    folders.sort_by(|a, b| b.cmp(a));
    folders
}

fn search_path() -> Py<Vec<PathBuf>> {
    // SAFETY: the lock is held; the list is borrowed and counted at once.
    let list = unsafe {
        let list = ffi::PySys_GetObject(c"path".as_ptr());
        if list.is_null() {
            return Ok(Vec::new());
        }
        Obj::borrowed(list)
    };
    if !list.is_list() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for item in list.items()? {
        if item.is_str() {
            paths.push(PathBuf::from(item.as_str()?));
        }
    }
    Ok(paths)
}

/// What `dladdr` tells about an address.
#[repr(C)]
struct Found {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
}

/// The folder that the package is in.
fn beside_this_package() -> Option<PathBuf> {
    let mut found = Found {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    let here = beside_this_package as *const c_void;
    // SAFETY: `dladdr` fills the structure for an address of this library.
    if unsafe { dladdr(here, &raw mut found) } == 0 || found.file.is_null() {
        return None;
    }
    // SAFETY: the name is terminated and lives as long as the library is loaded.
    let file = unsafe { CStr::from_ptr(found.file) };
    let file = Path::new(OsStr::from_bytes(file.to_bytes()));
    Some(file.parent()?.parent()?.to_path_buf())
}
