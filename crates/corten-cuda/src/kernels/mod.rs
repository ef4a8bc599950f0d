//! Kernels by family, under the names that the registry gives them.

pub mod copy;
pub mod fill;
pub mod index;
pub mod pointwise;
pub mod reduce;
pub mod softmax;
pub mod matmul;
pub mod embedding;
