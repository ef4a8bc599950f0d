//! The tests of the crate in one executable: each links the whole library.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod collectives;
mod ddp;
#[cfg(target_os = "linux")]
mod gloo;
mod groups;
#[cfg(unix)]
mod nccl;
mod stores;
