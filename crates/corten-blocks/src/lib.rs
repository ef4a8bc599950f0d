//! The block-quantised formats of GGML.
//!
//! A row of weights is cut into blocks of 32 or 256 elements. A block holds small integers, a scale for each group of
//! 16 or 32 of them, and in some formats a minimum for each group: the weight is `scale * integer - minimum`. The
//! layouts are those of GGML's files, little-endian; [`Format`] lists them.
//!
//! ```
//! use corten_blocks::Format;
//!
//! let weights: Vec<f32> = (0..64).map(|i| (i as f32).sin()).collect();
//! let mut bytes = vec![0; 2 * Format::Q8_0.block_bytes()];
//! Format::Q8_0.quantize(&weights, &mut bytes)?;
//! let mut back = vec![0.0; 64];
//! Format::Q8_0.dequantize(&bytes, &mut back)?;
//! assert!(weights.iter().zip(&back).all(|(a, b)| (a - b).abs() < 0.005));
//! # Ok::<(), corten_blocks::LengthError>(())
//! ```

mod activations;
mod dot;
mod format;
mod group32;
mod k_quants;
mod search;
mod table;
mod unpacked;

pub use activations::Activations;
pub use format::{Format, LengthError};
pub use unpacked::Unpacked;
