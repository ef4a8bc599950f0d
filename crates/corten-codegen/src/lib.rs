//! The schema language, the operator registry and its translation to Rust.
//!
//! [`schema`] needs nothing but the standard library and is all there is without the feature
//! `generate`: `corten-ops` uses it at run time for schemas that arrive as text.

pub mod schema;
