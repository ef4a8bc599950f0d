//! Tensors from Python data: numbers, nested sequences, arrays, buffers.

mod buffer;
mod factory;
mod sequence;

pub(crate) use buffer::Buffer;
pub(crate) use factory::{functions, method_rows};
pub(crate) use sequence::tensor_from;
