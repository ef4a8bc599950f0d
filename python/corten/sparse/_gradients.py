"""Sparse gradients: what the engine needs of sparse tensors, as kernels of its operators."""

from __future__ import annotations

from corten import _C

from ._compressed import OPERATORS, CompressedTensor
from ._coordinate import _OPERATORS, SparseTensor, _added, _made


def embedding_sparse_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    """One entry for each index that is not the padding: the gradient of the row it read."""
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    values = grad.reshape(-1, grad.size(-1))
    indices = indices.reshape(-1).to(_C.int64)
    if padding_idx != -1:
        kept = indices != padding_idx
        indices, values = indices[kept], values[kept]
    return _made(indices[None], values, (num_weights, grad.size(-1)), False)


def _sum(self, other, *, alpha=1):
    """A gradient that reaches a tensor twice."""
    return _added(self, other, alpha=alpha)


def _copy(self, *, memory_format=None):
    return _OPERATORS["clone"](self) if isinstance(self, SparseTensor) else self.clone()


_KERNELS = {
    "add.Tensor": _sum, "add_.Tensor": _OPERATORS["add_"], "clone": _copy,
    "detach": _OPERATORS["detach"], "alias": _OPERATORS["detach"],
    "mul.Tensor": _OPERATORS["mul"], "neg": _OPERATORS["neg"],
}


def _copy_compressed(self, *, memory_format=None):
    return OPERATORS["clone"](self) if isinstance(self, CompressedTensor) else self.clone()


_COMPRESSED_KERNELS = {
    "add.Tensor": OPERATORS["add"], "add_.Tensor": OPERATORS["add_"], "clone": _copy_compressed,
    "detach": OPERATORS["detach"], "alias": OPERATORS["detach"], "mul.Tensor": OPERATORS["mul"],
    "neg": OPERATORS["neg"],
}


def register():
    """Gives the operators that the engine calls kernels for sparse tensors."""
    for name, kernel in _KERNELS.items():
        _C._library_impl(f"aten::{name}", "SparseCPU", kernel)
    for name, kernel in _COMPRESSED_KERNELS.items():
        _C._library_impl(f"aten::{name}", "SparseCsrCPU", kernel)
