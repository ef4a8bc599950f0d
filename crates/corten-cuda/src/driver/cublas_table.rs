//! The functions of cuBLAS: no product is computed by it, but programs may ask for a handle.

use super::{Handle, function_table, loader};
use corten_core::{Result, err};
use std::sync::OnceLock;

function_table! {
    /// The functions of `libcublas` that are called here.
    Cublas {
        cublasCreate_v2(*mut Handle);
        cublasSetStream_v2(Handle, Handle);
    }
}

/// cuBLAS, opened at the first call.
///
/// # Errors
/// `Runtime` where it is not installed; the reason is kept and given again.
pub(crate) fn cublas() -> Result<&'static Cublas> {
    static CUBLAS: OnceLock<Result<Cublas, String>> = OnceLock::new();
    let started = CUBLAS.get_or_init(|| {
        let opened = loader::open(&loader::CUBLAS).and_then(|library| Cublas::of(&library));
        opened.map_err(|error| error.message().to_owned())
    });
    started.as_ref().map_err(|message| err!(Runtime, "{message}"))
}
