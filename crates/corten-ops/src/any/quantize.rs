//! Quantised tensors from tensors that are not.

pub use crate::quantized::make::{
    choose_qparams_per_tensor, dequantize_dense, empty_affine, empty_per_channel, make_per_channel,
    make_per_tensor,
};
