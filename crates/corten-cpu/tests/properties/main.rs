//! Properties: what the library computes on random input equals what a naive twin does.
//!
//! A twin works on a list of numbers with explicit sizes, strides and offset, and uses nothing of
//! the code under test. [`sample`] makes the random tensors and is the memory that twins read;
//! [`numbers`], [`formats`], [`strides`] and [`selection`] are the rules, stated once as plainly as
//! possible; the other modules are the properties.
//!
//! The cases are the same in every run. `PROPTEST_CASES` scales their number from 256 up or down,
//! `PROPTEST_RNG_SEED` draws others.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod casts;
mod elementwise;
mod formats;
mod indexing;
mod into;
mod large;
mod masks;
mod memory;
mod numbers;
mod outputs;
mod picking;
mod promotion;
mod reductions;
mod sample;
mod selection;
mod strides;
