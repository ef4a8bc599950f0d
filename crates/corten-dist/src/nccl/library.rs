//! NCCL, found at run time: where the library is, its version, and its functions.

use std::ffi::{CStr, CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use corten_core::config;

use crate::error::{DistError, Result};

/// The name that packages install; the number is that of its interface.
const FILE: &str = "libnccl.so.2";

/// What the engine calls. Libraries before 2.18 lack some, without which it does less.
pub const FUNCTIONS: [&CStr; 23] = [
    c"ncclGetVersion",
    c"ncclGetUniqueId",
    c"ncclGetErrorString",
    c"ncclGetLastError",
    c"ncclCommInitRank",
    c"ncclCommInitRankConfig",
    c"ncclCommSplit",
    c"ncclCommFinalize",
    c"ncclCommDestroy",
    c"ncclCommAbort",
    c"ncclCommGetAsyncError",
    c"ncclCommCount",
    c"ncclAllReduce",
    c"ncclBroadcast",
    c"ncclReduce",
    c"ncclAllGather",
    c"ncclReduceScatter",
    c"ncclSend",
    c"ncclRecv",
    c"ncclGroupStart",
    c"ncclGroupEnd",
    c"ncclRedOpCreatePreMulSum",
    c"ncclRedOpDestroy",
];

/// A library of NCCL.
#[derive(Clone, Debug)]
pub struct Nccl {
    /// The path, or the name under which the loader knows it.
    pub path: PathBuf,
    /// Major, minor, patch.
    pub version: (u32, u32, u32),
    /// Those of [`FUNCTIONS`] that it has not got.
    pub missing: Vec<&'static CStr>,
}

/// Loads NCCL from `CORTEN_NCCL_LIBRARY`, one of the folders, or where the loader finds it. It needs no
/// GPU to load, and stays loaded.
///
/// # Errors
/// `Runtime` where there is none, with the line that installs it.
pub fn find(folders: &[PathBuf]) -> Result<Nccl> {
    Ok(loaded(folders)?.0)
}

/// Whether [`find`] would find a library, as far as files tell: a large one is not loaded for that.
pub fn is_available(folders: &[PathBuf]) -> bool {
    if let Some(path) = named() {
        return path.is_file();
    }
    folders.iter().any(|folder| folder.join(FILE).is_file()) || find(folders).is_ok()
}

/// The file that the environment names.
fn named() -> Option<PathBuf> {
    config::var("CORTEN_NCCL_LIBRARY").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The library with its handle. The first one that was found is kept for the process.
pub(super) fn loaded(folders: &[PathBuf]) -> Result<(Nccl, Symbols)> {
    static FOUND: Mutex<Option<(Nccl, Symbols)>> = Mutex::new(None);
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = &*found {
        return Ok(found.clone());
    }
    let candidates: Vec<PathBuf> = match named() {
        Some(path) => vec![path],
        None => {
            let inside =
                folders.iter().map(|folder| folder.join(FILE)).filter(|path| path.is_file());
            inside.chain([PathBuf::from(FILE)]).collect()
        }
    };
    let mut reasons = Vec::new();
    for path in candidates {
        match open(&path) {
            Ok(opened) => return Ok(found.insert(opened).clone()),
            Err(reason) => reasons.push(format!("{}: {reason}", path.display())),
        }
    }
    Err(DistError::runtime(format!(
        "NCCL was not found; `pip install nvidia-nccl-cu13` (CUDA 13) or `pip install nvidia-nccl-cu12` \
         brings it, and CORTEN_NCCL_LIBRARY may name a libnccl.so.2. Tried {}",
        reasons.join("; ")
    )))
}

/// The addresses of an open library, which is never closed.
#[derive(Clone, Copy)]
pub(super) struct Symbols(*mut c_void);

// SAFETY: the loader may be asked for symbols of an open library from any thread.
unsafe impl Send for Symbols {}

impl Symbols {
    /// The address of a symbol; null where the library has none of that name.
    pub(super) fn get(self, name: &CStr) -> *mut c_void {
        // SAFETY: the library is open; the name is a C string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

fn open(path: &Path) -> std::result::Result<(Nccl, Symbols), String> {
    let name = CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| String::from("the path has a null byte"))?;
    // SAFETY: a name with a null at its end; the initialisers are NCCL's.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: the text of the loader, which is this thread's until its next call.
        let text = unsafe { libc::dlerror() };
        if text.is_null() {
            return Err(String::from("the loader gives no reason"));
        }
        // SAFETY: not null, and a C string.
        return Err(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    }
    let symbols = Symbols(handle);
    let address = symbols.get(c"ncclGetVersion");
    if address.is_null() {
        return Err(String::from("it has no ncclGetVersion"));
    }
    let mut number: c_int = 0;
    // SAFETY: every NCCL has this function of this type; 0 is success.
    let status = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(address)(
            &raw mut number,
        )
    };
    if status != 0 {
        return Err(format!("ncclGetVersion failed with {status}"));
    }
    let missing = FUNCTIONS.into_iter().filter(|name| symbols.get(name).is_null()).collect();
    let found = Nccl { path: path.to_owned(), version: version(number.cast_unsigned()), missing };
    Ok((found, symbols))
}

/// 2.28.3 is 22803; before 2.9 it was 2803.
fn version(number: u32) -> (u32, u32, u32) {
    let unit = if number < 10_000 { 1000 } else { 10_000 };
    (number / unit, number % unit / 100, number % 100)
}
