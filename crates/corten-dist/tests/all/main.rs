//! The tests of the crate in one executable: each links the whole library.
#![allow(
    unreachable_pub,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::type_complexity,
    reason = "programs of several processes say by their output and environment what they do"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod collectives;
mod ddp;
#[cfg(target_os = "linux")]
mod gloo;
mod groups;
#[cfg(unix)]
mod mpi;
mod nccl;
mod stores;
