//! Quantised tensors of parameters that are found first, and of lists.

pub use crate::quantized::make::{
    dequantize_tensors, quantize_dynamic as dynamic, quantize_tensor_qparams as tensor_qparams,
    quantize_tensors as tensors,
};
