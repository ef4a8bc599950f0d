//! Tensors, the dispatcher, the operator surface, the iterator. Knows no device.
