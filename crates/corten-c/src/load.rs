//! Libraries of operators that are loaded while a program runs.

use crate::stable::{Loading, explain, provide_for};
use crate::status::{CortenStatus, check_callback, guard};
use crate::table::{CortenApi, api};
use crate::value::text_of;
use corten::Result;
use corten::core::{bail, err};
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of the function that a library of operators has.
const ENTRY: &CStr = c"corten_library_init";

/// What a library of operators has under the name `corten_library_init`: it registers its operators through the
/// functions of the table, which lives as long as the program.
pub type CortenLibraryInit = unsafe extern "C" fn(api: *const CortenApi) -> CortenStatus;

/// Libraries that have registered their operators, by the handle of the dynamic linker.
static LOADED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// What became of a library that was to be loaded.
///
/// ```
/// use corten_c::{Loaded, try_load_library};
///
/// match try_load_library("/no/such/library.so")? {
///     Loaded::Refused(why) => assert!(why.contains("/no/such/library.so")),
///     Loaded::Loaded(_) => unreachable!(),
/// }
/// # Ok::<(), corten::Error>(())
/// ```
pub enum Loaded {
    /// The dynamic linker does not load it, and why.
    Refused(String),
    /// It is loaded. Whether it has a `corten_library_init`.
    Loaded(bool),
}

/// Loads a library that registers operators: its constructors run, and then its `corten_library_init`, if it has
/// one, once. Returns whether it has. The library stays loaded. Libraries of PyTorch's stable C ABI register their
/// operators in constructors.
///
/// # Errors
/// `Runtime` when it cannot be loaded or does not register its operators, and those of its function.
pub fn load_library(path: impl AsRef<Path>) -> Result<bool> {
    match try_load_library(path)? {
        Loaded::Loaded(has_entry) => Ok(has_entry),
        Loaded::Refused(message) => bail!(Runtime, "{message}"),
    }
}

/// As [`load_library`], telling apart what the dynamic linker refuses.
///
/// # Errors
/// As [`load_library`].
pub fn try_load_library(path: impl AsRef<Path>) -> Result<Loaded> {
    let path = path.as_ref();
    let text = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| err!(Value, "the path of a library contains a zero byte"))?;
    provide_for(path)?;
    let loading = Loading::begin();
    // SAFETY: the text ends with a zero byte. What constructors of the library do is its author's promise.
    let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Ok(Loaded::Refused(explain(linker_message(path))));
    }
    check_registration(handle.addr(), loading)?;
    // SAFETY: the handle is open and the name ends with a zero byte.
    let entry = unsafe { libc::dlsym(handle, ENTRY.as_ptr()) };
    if entry.is_null() {
        return Ok(Loaded::Loaded(false));
    }
    // The lock is not held meanwhile: a library may load others.
    if !enter(handle.addr()) {
        return Ok(Loaded::Loaded(true));
    }
    // SAFETY: a function of this name has this type, which the header declares.
    let init = unsafe { std::mem::transmute::<*mut c_void, CortenLibraryInit>(entry) };
    // SAFETY: the table lives as long as the program.
    let status = unsafe { init(api()) };
    let done = check_callback(&path.display().to_string(), status);
    if done.is_err() {
        // It may try again.
        loaded().retain(|other| *other != handle.addr());
    }
    done.map(|()| Loaded::Loaded(true))
}

/// Raises what constructors of a library could not register, each time that it is loaded: they run once.
fn check_registration(handle: usize, loading: Loading) -> Result<()> {
    static FAILED: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    let done = loading.finish();
    if let Err(error) = &done {
        failed.push((handle, error.message().to_owned()));
    }
    match failed.iter().find(|(known, _)| *known == handle) {
        Some((_, message)) => bail!(Runtime, "{message}"),
        None => done,
    }
}

fn loaded() -> MutexGuard<'static, Vec<usize>> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a library. Returns whether it is new.
fn enter(handle: usize) -> bool {
    let mut all = loaded();
    let is_new = !all.contains(&handle);
    if is_new {
        all.push(handle);
    }
    is_new
}

fn linker_message(path: &Path) -> String {
    // SAFETY: called by the thread that met the error, which may read the text until its next call.
    let message = unsafe { libc::dlerror() };
    match message.is_null() {
        true => format!("{} cannot be loaded", path.display()),
        // SAFETY: the dynamic linker's text ends with a zero byte.
        false => unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned(),
    }
}

/// Loads a library of operators, as `torch.ops.load_library` of Python does: one that was built with
/// `corten_library.h` registers them in its `corten_library_init`. Its operators are called by name. `found`, unless
/// it is null, says whether the library has that function.
///
/// # Safety
/// `path` must be text, and the library one that can be loaded; `found` null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_load_library(
    path: *const c_char,
    found: *mut bool,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let has_entry = load_library(unsafe { text_of("a path", path) }?)?;
        if !found.is_null() {
            // SAFETY: the caller's.
            unsafe { found.write(has_entry) };
        }
        Ok(())
    })
}
