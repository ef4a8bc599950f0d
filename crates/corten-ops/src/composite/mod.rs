//! Operators made of others, differentiable through them. One module per family; the registry
//! names them with `composite = "family::function"`.

pub mod activation;
pub mod attention;
pub mod calculus;
pub mod checks;
pub mod combine;
pub mod conv;
pub mod copy;
pub mod ctc;
pub mod distance;
pub mod dropout;
pub mod einsum;
pub mod embedding;
pub mod factory;
pub mod fake_quantize;
pub mod fft;
pub mod foreach;
pub mod grid;
pub mod grids;
pub mod grouped;
pub mod histogram;
pub mod index;
pub mod linalg;
pub mod loss;
pub mod margin;
pub mod matmul;
pub mod norm;
pub mod pad;
pub mod pointwise;
pub mod pool;
pub mod quantize;
pub mod reduce;
pub mod shuffle;
pub mod softmax;
pub mod sort;
pub mod sparse;
pub mod sparse_compressed;
pub mod special;
pub mod statistics;
pub mod support;
pub mod tools;
pub mod upsample;
pub mod view;
pub mod window;

/// For operators that are other names of one: `composite = "alias::abs"`.
pub use crate::op as alias;
