//! Finding NVIDIA's libraries: by full path where a user has put them, by name from the system.
//!
//! The order: the directories of `CORTEN_CUDA_LIB_DIR`; those that the program names (the Python package
//! gives `site-packages/nvidia/*/lib`); `CUDA_HOME` and `CUDA_PATH`; the system's search path. Only
//! names with a known major version are tried, so that two CUDA versions never mix.

use corten_core::{Result, bail, config, err};
use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A library of NVIDIA: the names of its files, newest version first.
pub(crate) struct Library {
    /// What messages call it.
    title: &'static str,
    /// File names to look for.
    files: &'static [&'static str],
    /// Files beside it that it opens by name, which must be opened first.
    companions: &'static [&'static str],
    /// How it is installed.
    hint: &'static str,
}

/// The driver.
pub(crate) const DRIVER: Library = Library {
    title: "the NVIDIA driver's library",
    files: &["libcuda.so.1"],
    companions: &[],
    hint: "it comes with the NVIDIA driver",
};

/// Convolutions. It finds its parts beside itself when it needs them.
pub(crate) const CUDNN: Library = Library {
    title: "cuDNN",
    files: &["libcudnn.so.9"],
    companions: &[],
    hint: "install it with `pip install nvidia-cudnn-cu13`",
};

/// The run-time compiler. It opens its built-in headers by name alone.
pub(crate) const NVRTC: Library = Library {
    title: "NVRTC",
    files: &["libnvrtc.so.13", "libnvrtc.so.12"],
    companions: &["libnvrtc-builtins.so."],
    hint: "install it with `pip install nvidia-cuda-nvrtc`",
};

/// Products of matrices.
pub(crate) const CUBLASLT: Library = Library {
    title: "cuBLASLt",
    files: &["libcublasLt.so.13", "libcublasLt.so.12"],
    companions: &[],
    hint: "install it with `pip install nvidia-cublas`",
};

/// The run-time compiler of CUDA 12, for drivers that do not load what a newer one compiles.
pub(crate) const NVRTC_12: Library = Library {
    title: "NVRTC for a driver of CUDA 12",
    files: &["libnvrtc.so.12"],
    companions: &["libnvrtc-builtins.so.12"],
    hint: "install it with `pip install nvidia-cuda-nvrtc-cu12`",
};

/// The older interface of the same, for programs that ask for a handle.
pub(crate) const CUBLAS: Library = Library {
    title: "cuBLAS",
    files: &["libcublas.so.13", "libcublas.so.12"],
    companions: &["libcublasLt.so."],
    hint: "install it with `pip install nvidia-cublas`",
};

/// An opened library; never closed.
pub(crate) struct Opened {
    handle: *mut c_void,
    name: String,
}

impl Opened {
    /// The address of a symbol, whose name ends with a zero.
    ///
    /// # Errors
    /// `Runtime` where the library does not export it.
    pub(crate) fn symbol(&self, name: &str) -> Result<*mut c_void> {
        let Ok(c_name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            bail!(Internal, "a symbol's name must end with a zero");
        };
        // SAFETY: the handle is open and the name ends with a zero.
        let address = unsafe { libc::dlsym(self.handle, c_name.as_ptr()) };
        if address.is_null() {
            bail!(
                Runtime,
                "{} does not export {}: it is too old for this program",
                self.name,
                name.trim_end_matches('\0')
            );
        }
        Ok(address)
    }
}

static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// What finds directories when a library is looked for.
static SEARCH: OnceLock<fn() -> Vec<PathBuf>> = OnceLock::new();

/// A function that finds further directories, called whenever a library is looked for and not before. It
/// may be called from any thread, and must not wait for one that uses a device.
pub fn set_library_search(search: fn() -> Vec<PathBuf>) {
    // The first one stays: a program has one.
    let _ = SEARCH.set(search);
}

/// Directories in which libraries are looked for before the system's, in this order.
pub fn set_library_directories(directories: Vec<PathBuf>) {
    *DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner) = directories;
}

/// Opens the first file of a library that can be opened.
///
/// # Errors
/// `Runtime` with every place that was looked at.
pub(crate) fn open(library: &Library) -> Result<Opened> {
    let mut tried = Vec::new();
    let directories = directories();
    let everywhere = directories.iter().map(Some).chain([None]);
    for directory in everywhere {
        for file in library.files {
            let name =
                directory.map_or_else(|| PathBuf::from(file), |directory| directory.join(file));
            if directory.is_some() && !name.exists() {
                tried.push(name.display().to_string());
                continue;
            }
            if let Some(directory) = directory {
                open_companions(library, directory);
            }
            match open_file(&name) {
                Ok(handle) => return Ok(Opened { handle, name: name.display().to_string() }),
                Err(reason) => tried.push(reason),
            }
        }
    }
    Err(err!(
        Runtime,
        "{} was not found: {}; looked for: {}",
        library.title,
        library.hint,
        tried.join(", ")
    ))
}

/// The first file of a library in the directories that are looked at, without opening it; `None` where
/// only the system's search path may have it.
pub(crate) fn find(library: &Library) -> Option<PathBuf> {
    let directories = directories();
    let named =
        |directory: &PathBuf| library.files.iter().map(|file| directory.join(file)).collect();
    directories
        .iter()
        .flat_map(|directory| -> Vec<PathBuf> { named(directory) })
        .find(|path| path.exists())
}

fn directories() -> Vec<PathBuf> {
    let list =
        |name| config::var(name).map(|value| std::env::split_paths(&value).collect::<Vec<_>>());
    let mut found = list("CORTEN_CUDA_LIB_DIR").unwrap_or_default();
    found.extend(DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
    found.extend(SEARCH.get().map(|search| search()).unwrap_or_default());
    for home in ["CUDA_HOME", "CUDA_PATH"] {
        found.extend(config::var(home).map(|home| Path::new(&home).join("lib64")));
    }
    found
}

/// Opens what a library opens by name: then the name is known to the dynamic linker.
fn open_companions(library: &Library, directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if library.companions.iter().any(|companion| name.starts_with(companion)) {
            // Where it cannot be opened, the library itself says so when it needs it.
            let _ = open_file(&path);
        }
    }
}

fn open_file(path: &Path) -> Result<*mut c_void, String> {
    let Ok(name) = CString::new(path.as_os_str().as_encoded_bytes()) else {
        return Err(format!("{} (a zero in the name)", path.display()));
    };
    // SAFETY: opening a library runs its initialisers; these are NVIDIA's, or what the user has put in
    // their place. The name ends with a zero.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: after a failure the text of the error is valid until the next call of this thread.
    let reason = unsafe { libc::dlerror() };
    if reason.is_null() {
        return Err(path.display().to_string());
    }
    // SAFETY: as above; it ends with a zero.
    Err(unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned())
}
