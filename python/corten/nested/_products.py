"""Products of jagged tensors: linear layers, matrices, attention."""

from __future__ import annotations

import corten

from ._jagged import NestedTensor, like, made


def _linear(func, input, weight, bias=None):
    if input._ragged_idx == input.dim() - 1:
        raise RuntimeError("linear(): the last dimension must not be the ragged one")
    return like(input, func(input._values, weight, bias))


def _matmul(func, a, b):
    if isinstance(a, NestedTensor) and isinstance(b, NestedTensor):
        return _of_two(a, b)
    if isinstance(b, NestedTensor):
        raise _refusal(a, b)
    if b.dim() <= 2 and a._ragged_idx < a.dim() - (1 if b.dim() == 1 else 0):
        if a._ragged_idx == a.dim() - 1:
            raise _refusal(a, b)
        return like(a, corten.matmul(a._values, b))
    if b.dim() == a.dim() and b.size(0) in (1, len(a)) and a._ragged_idx == a.dim() - 2:
        b = b.expand(len(a), *b.shape[1:])
        return _packed([corten.matmul(x, y) for x, y in zip(a.unbind(), b)], a, a._ragged_idx)
    raise _refusal(a, b)


def _refusal(a, b):
    return RuntimeError(
        f"matmul(): not supported between inputs of shapes {tuple(a.shape)} and {b.shape}"
    )


def _of_two(a, b):
    """Products over the differing dimension are dense, one for each item."""
    over_rows = a._ragged_idx == a.dim() - 1 and b._ragged_idx == b.dim() - 2
    if not over_rows or a.dim() != b.dim() or a.shape[a._ragged_idx] != b.shape[b._ragged_idx]:
        raise _refusal(a, b)
    return corten.stack([corten.matmul(x, y) for x, y in zip(a.unbind(), b.unbind())])


def _packed(items, model, ragged):
    """Items of the lengths of ``model`` along a dimension, as a nested tensor."""
    place = ragged - 1
    # The rows come first in memory, as those of a batch that is one behind another do.
    rows = corten.cat([item.movedim(place, 0) for item in items])
    if model._lengths is None:
        return made(rows.movedim(0, place), model._offsets, None, ragged)
    ends = corten.tensor([0, *model._seqlens()], device=rows.device).cumsum(0)
    return made(rows.movedim(0, place), ends, None, ragged)


def _attention(func, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
               enable_gqa=False):
    if not all(isinstance(x, NestedTensor) for x in (query, key, value)):
        raise ValueError(
            "Expected query, key, and value to all be nested or all be dense tensors"
        )
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    if query.dim() not in (3, 4) or {query.dim()} != {key.dim(), value.dim()}:
        raise ValueError("Expected query, key, and value to all be 3 or 4 dimensional")
    if {query._ragged_idx, key._ragged_idx, value._ragged_idx} != {query.dim() - 2}:
        raise ValueError("Expected query, key, and value to be ragged at the second last dimension")
    items = [
        func(q[None], k[None], v[None], dropout_p=dropout_p, is_causal=is_causal, scale=scale,
             enable_gqa=enable_gqa)[0]
        for q, k, v in zip(query.unbind(), key.unbind(), value.unbind())
    ]
    return _packed(items, query, query._ragged_idx)


OPERATORS = {
    "linear": _linear, "matmul": _matmul, "bmm": _matmul,
    "scaled_dot_product_attention": _attention,
}
