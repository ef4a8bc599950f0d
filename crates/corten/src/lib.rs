//! Tensors with PyTorch semantics, autograd, modules and optimizers.
