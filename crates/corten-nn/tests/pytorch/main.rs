//! Modules beside PyTorch's, from the same seeds: nothing else draws random numbers in this process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod attention;
#[path = "../common/mod.rs"]
mod common;
mod losses;
mod modules;
mod recurrent;
