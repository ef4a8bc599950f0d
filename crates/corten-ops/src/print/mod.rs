//! Tensors as text, as PyTorch prints them.

mod format;
mod options;
mod sparse;
mod text;

use crate::Tensor;
pub use options::{Options, Profile, options, set_options};
use std::fmt;
pub use text::{repr, repr_with_prefix};

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match repr(self) {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "tensor(<{error}>)"),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
