//! The caching allocators: rules and wording one by one, and random programs against a model.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod config;
mod device;
mod host;
mod model;
mod rules;
