//! What makes programs in Rust short: literals, factories, conversions, slices.

mod conversions;
mod factories;
mod literals;

pub use literals::{Literal, from_literal};
