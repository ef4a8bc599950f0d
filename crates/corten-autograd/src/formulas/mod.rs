//! Gradient formulas longer than a line, one module per operator family.
//!
//! A function computes with ordinary operators, so that its result can be differentiated again.
//! It need not broadcast, sum to the input's shape or cast: the engine does.

pub mod activation_pointwise;
pub mod any;
pub mod attention;
pub mod combine;
pub mod conv;
pub mod copy;
pub mod decomposed;
pub mod dropout;
pub mod embedding;
pub mod fake_quantize;
pub mod fft;
pub mod grid;
pub mod index;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod opaque;
pub mod pad;
pub mod pointwise;
pub mod pool;
pub mod reduce;
pub mod reduce_places;
pub mod rnn;
pub mod scan;
pub mod softmax;
pub mod sparse;
pub mod sparse_compressed;
pub mod special;
pub mod tools;
pub mod view;
pub mod vision;
