//! The tests of the crate in one executable: each links the whole library.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod engine;
mod hooks;
mod saved;
mod tools;
mod views;
