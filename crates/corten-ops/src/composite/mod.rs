//! Operators made of others, differentiable through them. One module per family; the registry
//! names them with `composite = "family::function"`.

pub mod attention;
pub mod combine;
pub mod conv;
pub mod copy;
pub mod dropout;
pub mod einsum;
pub mod embedding;
pub mod factory;
pub mod fft;
pub mod grids;
pub mod index;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod pad;
pub mod pointwise;
pub mod pool;
pub mod reduce;
pub mod softmax;
pub mod support;
pub mod view;

/// For operators that are other names of one: `composite = "alias::abs"`.
pub use crate::op as alias;
