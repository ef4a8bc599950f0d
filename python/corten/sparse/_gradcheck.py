"""Gradients of functions of sparse tensors checked by those of their entries."""

from __future__ import annotations

import functools

import corten
from corten._C import Tensor

from ._compressed import CompressedTensor, in_blocks, like
from ._entries import SparseTensor, _coalesce, _made


def is_sparse(value):
    """Whether the value is a tensor of a sparse layout."""
    return isinstance(value, (SparseTensor, CompressedTensor))


def _with_all_entries(x):
    """The tensor with an entry for each element, so that zeros are changed, too."""
    dense, options = x.to_dense(), {}
    if isinstance(x, SparseTensor):
        return dense.sparse_mask(corten.ones_like(dense, dtype=corten.bool).to_sparse(x.sparse_dim()))
    if in_blocks(x.layout):
        options["blocksize"] = tuple(x.values().shape[x.dim() - 2 - x.dense_dim() + 1:][:2])
    if x.dense_dim():
        options["dense_dim"] = x.dense_dim()
    mask = corten.ones_like(dense, dtype=corten.bool).to_sparse(layout=x.layout, **options)
    return dense.sparse_mask(mask)


def _taken_apart(x, masked):
    """The entries as a leaf, and the function that makes the tensor of them."""
    x = x.detach()
    x = x if masked else _with_all_entries(x)
    if isinstance(x, SparseTensor):
        x = _coalesce(x)
        indices, values = x._held
        return values.clone().requires_grad_(), lambda v: _made(indices, v, x.shape, True)
    return x.values().clone().requires_grad_(), lambda v: like(x, v)


def as_sparse_gradcheck(gradcheck):
    """``gradcheck`` for functions of sparse tensors: with ``masked=True`` it changes the entries only,
    otherwise all elements. The check itself works with dense tensors."""

    @functools.wraps(gradcheck)
    def checked(func, inputs, **kwargs):
        masked = kwargs.pop("masked", False)
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        leaves, makers = [], []
        for value in inputs:
            leaf, maker = value, None
            if is_sparse(value) and value.requires_grad:
                leaf, maker = _taken_apart(value, masked)
            leaves.append(leaf)
            makers.append(maker)

        def of_entries(*args):
            made = func(*(arg if maker is None else maker(arg) for maker, arg in zip(makers, args)))
            several = isinstance(made, (tuple, list))
            outputs = [
                value.to_dense() if is_sparse(value) else value for value in (made if several else (made,))
            ]
            return tuple(outputs) if several else outputs[0]

        return gradcheck(of_entries, tuple(leaves), **kwargs)

    return checked


__all__ = ["as_sparse_gradcheck", "is_sparse"]
