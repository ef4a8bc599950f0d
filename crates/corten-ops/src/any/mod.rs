//! Operators that are the same on every device: their gradient is separate. One module per
//! family; the registry names them with `any = "family::function"`.

pub mod activation;
pub mod blocks;
pub mod border;
pub mod combine;
pub mod copy;
pub mod decomposed;
pub mod factory;
pub mod fake_quantize;
pub mod functional;
pub mod histogram;
pub mod index;
pub mod lazy;
pub mod linalg;
pub mod loss;
pub mod low_precision;
pub mod matmul;
pub mod opaque;
pub mod pad;
pub mod pointwise;
pub mod quantize;
pub mod quantized_layers;
pub mod random;
pub mod reduce;
pub mod softmax;
pub mod sparse;
pub mod sparse_compressed;
pub mod special;
pub mod tools;
pub mod view;
pub mod vision;
