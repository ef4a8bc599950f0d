//! The back end `gloo`: collectives of the [gloo](https://github.com/pytorch/gloo) library over TCP.
//!
//! gloo is C++. A small library, `libcorten_gloo.so`, has its functions as C functions and is loaded
//! when the first communicator is made: from `CORTEN_GLOO_LIBRARY`, from the folder of the program or
//! extension module, or compiled once into `~/.cache/corten/gloo` where a C++ compiler and gloo's
//! headers are installed.

mod compiled;
mod context;
mod engine;
mod library;
mod reduce;
mod run;
mod threads;

pub use engine::{GlooEngine, GlooOptions};

/// Whether gloo can be used: its library was found, or can be compiled. Nothing is loaded.
///
/// ```
/// let _ = corten_dist::gloo::is_available();
/// ```
pub fn is_available() -> bool {
    library::is_available()
}

/// The version of the gloo that is loaded: major, minor, patch. Loads it, and compiles it where it must.
///
/// # Errors
/// `Runtime` where it cannot be loaded, with the line that installs what is missing.
pub fn version() -> crate::Result<(u32, u32, u32)> {
    library::version()
}
