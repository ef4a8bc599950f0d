//! Kernels by family, under the names that the registry gives them.

pub mod activation_pointwise;
pub mod copy;
pub mod embedding;
pub mod fill;
pub mod index;
pub mod matmul;
pub mod pointwise;
pub mod reduce;
pub mod softmax;
