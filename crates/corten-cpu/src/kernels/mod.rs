//! The kernels, one module per family of `ops/*.toml`.

pub mod activation_pointwise;
pub mod attention;
pub mod combine;
pub mod conv;
pub mod copy;
pub mod embedding;
pub mod factory;
pub mod fft;
pub mod fill;
pub mod index;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod pointwise;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod softmax;
mod support;
pub mod unfold;
