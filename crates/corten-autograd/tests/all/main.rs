//! The tests of the crate in one executable: each links the whole library.

mod common;
mod engine;
mod hooks;
mod saved;
mod tools;
mod views;
