//! The schema language, the operator registry and its translation to Rust.
//!
//! [`schema`] needs nothing but the standard library and is all there is without the feature
//! `generate`: `corten-ops` uses it at run time for schemas that arrive as text. The rest runs in
//! build scripts and in `xtask`: [`registry`] reads `ops/*.toml`, [`formula`] lowers expressions
//! and gradients, [`emit`] writes Rust, [`build`] is what build scripts call.

#[cfg(feature = "generate")]
pub mod build;
#[cfg(feature = "generate")]
pub mod emit;
#[cfg(feature = "generate")]
pub mod formula;
#[cfg(feature = "generate")]
pub mod registry;
#[cfg(feature = "generate")]
pub mod rust;
pub mod schema;
#[cfg(feature = "generate")]
mod sources;

#[cfg(feature = "generate")]
pub use sources::Sources;
