//! What modules do beside computing, in one executable: each links the whole library.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod features;
mod gradients;
mod lazy;
mod random_modules;
