//! Kernels by family, under the names that the registry gives them.

pub mod activation_pointwise;
pub mod attention;
pub mod combine;
pub mod conv;
pub mod copy;
pub mod ctc;
pub mod distance;
pub mod embedding;
pub mod factory;
pub mod fill;
pub mod fused_attention;
pub mod index;
pub mod loss;
pub mod loss_pointwise;
pub mod matmul;
pub mod norm;
pub mod optim;
pub mod pointwise;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod rnn;
pub mod scan;
pub mod softmax;
pub mod sort;
pub mod unfold;
