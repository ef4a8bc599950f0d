//! The kernels, one module per family of `ops/*.toml`.

pub mod activation_pointwise;
pub mod attention;
pub mod combine;
pub mod conv;
pub mod copy;
pub mod distance;
pub mod embedding;
pub mod factory;
#[cfg(feature = "fft")]
pub mod fft;
pub mod fill;
pub mod hash;
pub mod histogram;
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
pub mod sort;
pub mod special;
mod support;
pub mod unfold;
pub mod upsample;
