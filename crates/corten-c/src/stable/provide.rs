//! The libraries of PyTorch that an extension needs, made when it is loaded.
//!
//! Note [Libraries made in memory]: an extension of the stable ABI is linked to `libtorch_cpu.so` and its kin by name.
//! The dynamic linker takes a library of that name that is loaded already, and finds the extension's symbols there. So
//! one is made whose symbols are the addresses of this program's functions (`elf.rs`), in memory, and loaded first; it
//! is found by extensions alone. Files in the package would have to be found, and to find the functions in turn, which
//! lie in the extension module of Python, in `libcorten.so` or in a program of Rust that exports none. Exporting them
//! to all (`RTLD_GLOBAL`) would give them to PyTorch's own libraries too, if both are in one process.

use super::elf::{Symbol, library};
use super::needed::needed;
use super::{FUNCTIONS, cudart, shims};
use corten::Result;
use corten::core::{bail, err};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The library that has the functions.
const MAIN: &str = "libtorch_cpu.so";

/// Libraries of PyTorch that extensions are linked to and use nothing of.
const OTHERS: [&str; 5] =
    ["libc10.so", "libtorch.so", "libc10_cuda.so", "libtorch_cuda.so", "libtorch_python.so"];

/// The libraries that were made.
static MADE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The symbols of the stable ABI that extensions find, in alphabetical order.
///
/// ```
/// assert!(corten_c::stable_symbols().contains(&"torch_call_dispatcher".to_owned()));
/// ```
pub fn stable_symbols() -> Vec<String> {
    let mut all: Vec<String> = symbols().into_iter().map(|(name, _)| name).collect();
    all.sort();
    all
}

fn symbols() -> Vec<(String, u64)> {
    let functions = FUNCTIONS.iter().copied().flatten();
    let functions = functions.map(|one| (one.name.to_owned(), one.address as u64));
    functions.chain(shims::functions()).collect()
}

/// Makes PyTorch's libraries for extensions of its stable ABI that something else will load, such as modules of
/// Python; [`load_library`](crate::load_library) does so by itself. What is there already stays.
///
/// ```
/// # #[cfg(all(target_os = "linux", target_env = "gnu"))]
/// corten_c::provide()?;
/// # Ok::<(), corten::Error>(())
/// ```
///
/// # Errors
/// `Runtime` when the dynamic linker does not take them, and when PyTorch itself is loaded.
pub fn provide() -> Result<()> {
    std::iter::once(MAIN).chain(OTHERS).try_for_each(make_once)
}

/// Makes the libraries of PyTorch that a library needs.
pub(crate) fn provide_for(path: &Path) -> Result<()> {
    let Ok(file) = File::open(path) else { return Ok(()) };
    // SAFETY: the file is read as bytes of any value. A library that is cut while it is loaded would end the process
    // anyway.
    let Ok(bytes) = (unsafe { Mapping::of(&file) }) else { return Ok(()) };
    let names = needed(bytes.get()).unwrap_or_default();
    for name in &names {
        if name == MAIN || OTHERS.contains(&name.as_str()) {
            make_once(name)?;
        } else if name.starts_with("libcudart.so.") && !is_loaded(name) && !is_found(name) {
            check_no_gpu(name)?;
            make_once(name)?;
        }
    }
    Ok(())
}

/// A file in memory.
struct Mapping {
    start: *mut c_void,
    length: usize,
}

impl Mapping {
    /// # Safety
    /// Nobody may make the file shorter meanwhile.
    unsafe fn of(file: &File) -> std::io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let descriptor = file.as_raw_fd();
        // SAFETY: a new mapping of an open file.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, descriptor, 0) };
        match start == libc::MAP_FAILED {
            true => Err(std::io::Error::last_os_error()),
            false => Ok(Self { start, length }),
        }
    }

    fn get(&self) -> &[u8] {
        // SAFETY: the mapping is that long and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

/// A library of this name that the process has.
fn is_loaded(name: &str) -> bool {
    opens(name, libc::RTLD_NOLOAD)
}

/// A library of this name that the dynamic linker finds, which then is loaded.
fn is_found(name: &str) -> bool {
    opens(name, 0)
}

fn opens(name: &str, flags: i32) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: the name ends with a zero byte. What the constructors of an installed library do is its author's promise.
    !unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | flags) }.is_null()
}

/// The runtime is made up only where nobody could use it.
fn check_no_gpu(name: &str) -> Result<()> {
    if is_loaded("libcuda.so.1") || is_found("libcuda.so.1") {
        bail!(
            Runtime,
            "{name} is not found, which comes with the package nvidia-cuda-runtime: load it before"
        );
    }
    Ok(())
}

fn make_once(name: &str) -> Result<()> {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.contains(name) {
        return Ok(());
    }
    if is_loaded(name) {
        bail!(
            Runtime,
            "PyTorch's {name} is loaded in this process: a library that needs it would work on PyTorch's tensors"
        );
    }
    if name == MAIN {
        super::kernels::define_operators_of_headers()?;
    }
    let bytes = contents(name);
    let handle = load(name, &bytes, made.len())?;
    check(name, handle)?;
    made.insert(name.to_owned());
    Ok(())
}

fn contents(name: &str) -> Vec<u8> {
    let symbol = |name, address| Symbol { name, address };
    if name == MAIN {
        let all = symbols();
        let all: Vec<_> = all.iter().map(|(name, address)| symbol(name, *address)).collect();
        return library(name, None, &all);
    }
    if name.starts_with("libcudart.so.") {
        let all: Vec<_> =
            cudart::functions().map(|(name, address)| symbol(name, address)).collect();
        return library(name, Some(name), &all);
    }
    library(name, None, &[])
}

/// Loads a library from its bytes. `number` is another one for each.
#[cfg(not(target_os = "linux"))]
fn load(name: &str, _bytes: &[u8], _number: usize) -> Result<*mut c_void> {
    bail!(NotImplemented, "{name} of PyTorch can be made on Linux only")
}

/// Loads a library from its bytes. `number` is another one for each.
#[cfg(target_os = "linux")]
fn load(name: &str, bytes: &[u8], number: usize) -> Result<*mut c_void> {
    let label = CString::new(name).unwrap_or_default();
    // SAFETY: the name ends with a zero byte.
    let descriptor = unsafe { libc::memfd_create(label.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        let error = std::io::Error::last_os_error();
        bail!(Runtime, "{name} cannot be made in memory: {error}");
    }
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(bytes).map_err(|error| err!(Runtime, "{name} cannot be written: {error}"))?;
    // The dynamic linker knows libraries by their paths, and descriptors are used again: so each path is another.
    let path = format!("/proc/self/{}fd/{descriptor}", "./".repeat(number));
    let path = CString::new(path).unwrap_or_default();
    // SAFETY: the path ends with a zero byte; the library has no code.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        bail!(Runtime, "{name} cannot be loaded from memory: {}", last_linker_message());
    }
    Ok(handle)
}

/// What the dynamic linker said last.
#[cfg(target_os = "linux")]
fn last_linker_message() -> String {
    // SAFETY: called by the thread that met the error, which may read the text until its next call.
    let message = unsafe { libc::dlerror() };
    match message.is_null() {
        true => "the dynamic linker does not say why".to_owned(),
        // SAFETY: the dynamic linker's text ends with a zero byte.
        false => unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned(),
    }
}

/// Whether the dynamic linker took the addresses as they are.
fn check(name: &str, handle: *mut c_void) -> Result<()> {
    if name != MAIN {
        return Ok(());
    }
    let Some(function) = FUNCTIONS.iter().copied().flatten().next() else { return Ok(()) };
    let symbol = CString::new(function.name).unwrap_or_default();
    // SAFETY: the handle is open and the name ends with a zero byte.
    let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    if !std::ptr::eq(found, function.address) {
        bail!(Runtime, "libraries of PyTorch's stable ABI need the GNU C library 2.28 or newer");
    }
    Ok(())
}

/// Adds to what the dynamic linker says about a library what it means here.
pub(crate) fn explain(message: String) -> String {
    let is_cpp = message.contains("undefined symbol")
        && ["_ZN3c10", "_ZNK3c10", "_ZN2at", "_ZNK2at", "_ZN5torch", "_ZTIN3c10"]
            .iter()
            .any(|prefix| message.contains(prefix));
    match is_cpp {
        true => format!(
            "{message}: it was built for PyTorch's C++ interface. Libraries of PyTorch's stable ABI can be loaded"
        ),
        false => message,
    }
}
