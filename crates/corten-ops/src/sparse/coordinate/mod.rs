//! Kernels of tensors in coordinate format.

pub mod arithmetic;
pub mod convert;
pub mod entries;
pub mod parts;
pub mod products;
pub mod reduce;
pub mod shape;
pub mod softmax;
pub mod spread;
pub mod write;
