//! The schema language, the operator registry and its translation to Rust.
