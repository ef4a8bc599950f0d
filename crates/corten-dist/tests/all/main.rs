//! Tests of the crate, over ranks that are threads of one process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod ddp;
