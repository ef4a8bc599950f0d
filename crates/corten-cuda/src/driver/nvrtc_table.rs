//! The functions of NVRTC.

use super::{Handle, function_table, loader, table::version};
use corten_core::{Result, err};
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

function_table! {
    /// The functions of `libnvrtc` that are called here.
    Nvrtc {
        nvrtcVersion(*mut c_int, *mut c_int);
        nvrtcGetNumSupportedArchs(*mut c_int);
        nvrtcGetSupportedArchs(*mut c_int);
        nvrtcCreateProgram(
            *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
        );
        nvrtcDestroyProgram(*mut Handle);
        nvrtcAddNameExpression(Handle, *const c_char);
        nvrtcCompileProgram(Handle, c_int, *const *const c_char);
        nvrtcGetLoweredName(Handle, *const c_char, *mut *const c_char);
        nvrtcGetProgramLogSize(Handle, *mut usize);
        nvrtcGetProgramLog(Handle, *mut c_char);
        nvrtcGetCUBINSize(Handle, *mut usize);
        nvrtcGetCUBIN(Handle, *mut c_char);
        nvrtcGetPTXSize(Handle, *mut usize);
        nvrtcGetPTX(Handle, *mut c_char);
    }
}

/// The NVRTC whose code the driver loads: not one of a newer major version.
fn library() -> &'static loader::Library {
    if version().is_ok_and(|version| version < 13_000) { &loader::NVRTC_12 } else { &loader::NVRTC }
}

/// What tells the installed NVRTC from others, without a space; `None` where there is none. The library is
/// large: it is opened only where nothing else can tell.
pub(crate) fn nvrtc_identity() -> Option<&'static str> {
    static IDENTITY: OnceLock<Option<String>> = OnceLock::new();
    let identity = IDENTITY.get_or_init(|| match loader::find(library()) {
        Some(path) => {
            let name = path.file_name()?.to_string_lossy().replace(char::is_whitespace, "_");
            Some(format!("{name}:{}", std::fs::metadata(&path).ok()?.len()))
        }
        None => {
            let (mut major, mut minor) = (0, 0);
            // SAFETY: NVRTC writes two numbers.
            unsafe { (nvrtc().ok()?.nvrtcVersion)(&mut major, &mut minor) };
            Some(format!("{major}.{minor}"))
        }
    });
    identity.as_deref()
}

/// NVRTC, opened at the first call.
///
/// # Errors
/// `Runtime` where it is not installed, with the command that installs it.
pub(crate) fn nvrtc() -> Result<&'static Nvrtc> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    let opened = NVRTC.get_or_init(|| {
        let opened = loader::open(library()).and_then(|library| Nvrtc::of(&library));
        opened.map_err(|error| error.message().to_owned())
    });
    opened.as_ref().map_err(|message| err!(Runtime, "{message}"))
}
