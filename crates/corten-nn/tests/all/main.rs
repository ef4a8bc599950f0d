//! The tests of the crate in one executable: each links the whole library.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod attention;
mod common;
mod features;
mod gradients;
mod lazy;
mod losses;
mod modules;
mod random_modules;
mod recurrent;
