//! Kernels by family, under the names that the registry gives them.

pub mod activation_pointwise;
pub mod combine;
pub mod conv;
pub mod copy;
pub mod distance;
pub mod embedding;
pub mod factory;
pub mod fft;
pub mod fill;
pub mod index;
pub mod linalg;
pub mod loss;
pub mod loss_pointwise;
pub mod matmul;
pub mod norm;
pub mod optim;
pub mod pointwise;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod softmax;
pub mod sort;
pub mod unfold;
