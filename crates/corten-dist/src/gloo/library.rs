//! `libcorten_gloo.so`, the shim over gloo's C++ interface: where it is, and its functions.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use corten_core::config;

use super::compiled;
use super::reduce::ReduceFunction;
use crate::error::{DistError, Result};

/// The file's name.
const FILE: &str = "libcorten_gloo.so";

/// What `corten_gloo_interface` must say.
const INTERFACE: c_int = 3;

/// Where a function writes the reason of its failure.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ErrorText {
    pub(super) text: *mut c_char,
    pub(super) capacity: usize,
}

/// The functions of a store, and what they are called with.
#[repr(C)]
pub(super) struct StoreFunctions {
    pub(super) user: *mut c_void,
    pub(super) set:
        unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, usize, ErrorText) -> c_int,
    pub(super) get: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        *mut c_void,
        unsafe extern "C" fn(*mut c_void, *const c_char, usize),
        ErrorText,
    ) -> c_int,
    pub(super) wait:
        unsafe extern "C" fn(*mut c_void, *const *const c_char, usize, i64, ErrorText) -> c_int,
}

/// A context, device or transfer of the shim.
pub(super) type Handle = *mut c_void;

/// Declares the table and how it is filled.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The shim's functions; what each does is said in `shim.cpp`.
        #[allow(missing_docs, reason = "the shim has the documentation")]
        pub(super) struct Functions {
            $($(#[$doc])* pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(library: Library) -> std::result::Result<Self, String> {
                Ok(Self { $($name: {
                    let name = concat!("corten_gloo_", stringify!($name), "\0");
                    let address = library.symbol(name)?;
                    // SAFETY: the shim whose interface has this number defines the function so.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(address) }
                },)* })
            }
        }
    };
}

functions! {
    version: fn() -> c_int;
    device_new: fn(*const c_char, *const c_char, ErrorText) -> Handle;
    device_free: fn(Handle);
    context_new: fn(Handle, c_int, c_int, *const StoreFunctions, i64, ErrorText) -> Handle;
    context_free: fn(Handle);
    context_close: fn(Handle);
    allreduce: fn(Handle, *mut c_void, usize, usize, ReduceFunction, *mut c_void, u32, i64, ErrorText) -> c_int;
    reduce: fn(Handle, *mut c_void, usize, usize, ReduceFunction, *mut c_void, c_int, u32, i64, ErrorText) -> c_int;
    broadcast: fn(Handle, *mut c_void, usize, c_int, u32, i64, ErrorText) -> c_int;
    allgather: fn(Handle, *const c_void, *mut c_void, *const usize, u32, i64, ErrorText) -> c_int;
    gather: fn(Handle, *const c_void, usize, *mut c_void, c_int, u32, i64, ErrorText) -> c_int;
    scatter: fn(Handle, *const *const c_void, *mut c_void, usize, c_int, u32, i64, ErrorText) -> c_int;
    alltoall: fn(Handle, *const c_void, *const i64, *mut c_void, *const i64, u32, i64, ErrorText) -> c_int;
    barrier: fn(Handle, u32, i64, ErrorText) -> c_int;
    send: fn(Handle, *const c_void, usize, c_int, u64, ErrorText) -> Handle;
    recv: fn(Handle, *mut c_void, usize, c_int, u64, ErrorText) -> Handle;
    wait: fn(Handle, c_int, i64, *mut c_int, ErrorText) -> c_int;
    abort: fn(Handle, c_int);
    transfer_free: fn(Handle);
}

/// A loaded library, which is never unloaded: its threads may run until the process ends.
#[derive(Clone, Copy)]
struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> std::result::Result<Self, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| format!("{} has a null byte", path.display()))?;
        // SAFETY: a path with a null at its end. The library's initialisers are gloo's and the C++ library's.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(last_error()) } else { Ok(Self(handle)) }
    }

    /// The address of a function; `name` ends with a null.
    fn symbol(self, name: &str) -> std::result::Result<*mut c_void, String> {
        let name = CStr::from_bytes_with_nul(name.as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the library is loaded and stays so.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if address.is_null() {
            return Err(format!("it has no function {}", name.to_string_lossy()));
        }
        Ok(address)
    }

    fn functions(self) -> std::result::Result<Functions, String> {
        let interface = self.symbol("corten_gloo_interface\0")?;
        // SAFETY: every version of the shim has this function of this type.
        let interface = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(interface)()
        };
        if interface != INTERFACE {
            return Err(format!("its interface has number {interface}, not {INTERFACE}"));
        }
        Functions::find(self)
    }
}

/// What the loader said last.
fn last_error() -> String {
    // SAFETY: the text belongs to the thread until its next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::from("the loader gives no reason");
    }
    // SAFETY: not null, and a C string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The functions, from the first place that has them: `CORTEN_GLOO_LIBRARY`, the folder of this
/// program or extension module, the user's cache, where the shim is compiled if it can be.
///
/// # Errors
/// `Runtime`, with the line that installs what is missing.
pub(super) fn functions() -> Result<&'static Functions> {
    static FUNCTIONS: OnceLock<std::result::Result<Functions, String>> = OnceLock::new();
    let found = FUNCTIONS.get_or_init(|| {
        let path = find()?;
        Library::open(&path)
            .and_then(Library::functions)
            .map_err(|error| format!("gloo cannot be used: {}: {error}", path.display()))
    });
    found.as_ref().map_err(|error| DistError::runtime(error.clone()))
}

/// Whether [`functions`] is likely to find the library; nothing is loaded or compiled.
pub(super) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE
        .get_or_init(|| prepared().is_ok_and(|path| path.is_some()) || compiled::is_possible())
}

/// gloo's version: major, minor, patch.
///
/// # Errors
/// As for [`functions`].
pub(super) fn version() -> Result<(u32, u32, u32)> {
    // SAFETY: a function without arguments.
    let number = unsafe { (functions()?.version)() }.cast_unsigned();
    Ok((number / 10_000, number / 100 % 100, number % 100))
}

fn find() -> std::result::Result<PathBuf, String> {
    match prepared()? {
        Some(path) => Ok(path),
        None => compiled::library(FILE),
    }
}

/// The library that somebody put where it is looked for.
fn prepared() -> std::result::Result<Option<PathBuf>, String> {
    if let Some(path) = config::var("CORTEN_GLOO_LIBRARY").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(Some(path))
        } else {
            Err(format!("CORTEN_GLOO_LIBRARY names {}, which is not a file", path.display()))
        };
    }
    Ok(beside().filter(|path| path.is_file()))
}

/// Where the library is in a wheel: beside what holds this code.
fn beside() -> Option<PathBuf> {
    // SAFETY: all members may be zero; `dladdr` fills them for an address of this library.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = beside as fn() -> Option<PathBuf>;
    // SAFETY: the structure is ours, the address that of a function.
    let known = unsafe { libc::dladdr(here as *const c_void, &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: `dladdr` gave a C string that lives as long as the library is loaded.
    let file = unsafe { CStr::from_ptr(found.dli_fname) };
    let path = Path::new(file.to_str().ok()?);
    Some(path.parent()?.join(FILE))
}
