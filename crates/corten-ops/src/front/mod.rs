//! What makes programs in Rust short: literals, factories, conversions, slices.

mod compressed;
mod conversions;
mod coordinates;
mod factories;
mod literals;
#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(feature = "serde")]
mod serde;

pub use literals::{Literal, from_literal};
