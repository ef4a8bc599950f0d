//! Reading and writing tensors in files.

pub mod safetensors;
