//! Reading and writing tensors in files: the one home of each format.
//!
//! [`torch`] has PyTorch's own files, [`safetensors`] the format of that name, [`npy`] NumPy's, [`gguf`] GGML's;
//! [`tensorboard`] has TensorBoard's event files; [`pickle`] reads pickles without running them. What files hold beside tensors is a [`Value`].

pub mod atomic;
mod bytes;
pub mod gguf;
pub mod npy;
pub mod pickle;
mod records;
pub mod safetensors;
pub mod tensorboard;
pub mod torch;
mod value;

pub use value::{Object, Value};
