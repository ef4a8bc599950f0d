//! Kernels of tensors in the compressed layouts.
