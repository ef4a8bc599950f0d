//! The kernels, one module per family of `ops/*.toml`.

pub mod activation_pointwise;
mod along_dim;
pub mod attention;
pub mod combine;
pub mod conv;
pub mod copy;
pub mod ctc;
pub mod distance;
pub mod dropout;
pub mod embedding;
pub mod embedding_bag;
pub mod factory;
#[cfg(feature = "fft")]
pub mod fft;
pub mod fill;
pub mod fused_attention;
pub mod grid;
pub mod hash;
pub mod histogram;
pub mod index;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod loss;
pub mod loss_pointwise;
pub mod margin;
pub mod matmul;
pub mod norm;
pub mod opaque;
pub mod optim;
pub mod pointwise;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod rnn;
pub mod scan;
pub mod segment;
pub mod semi_structured;
pub mod softmax;
pub mod sort;
pub mod sparse_compressed;
pub mod special;
mod support;
pub mod unfold;
pub mod upsample;
#[cfg(feature = "vision")]
pub mod vision;
