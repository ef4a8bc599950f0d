//! Kernels of tensors in coordinate format.

pub mod convert;
pub mod entries;
pub mod parts;
