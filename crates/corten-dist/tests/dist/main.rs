//! The tests of the crate, one executable.

#[cfg(target_os = "linux")]
mod gloo;
