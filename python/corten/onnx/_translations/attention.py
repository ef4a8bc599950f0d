"""Attention, as products and a softmax."""

from __future__ import annotations

import math

from corten.onnx._graph import BOOL, Value
from corten.onnx._table import translation


@translation("scaled_dot_product_attention")
def attention(g, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if enable_gqa:
        key, value = (_repeated(g, part, query) for part in (key, value))
    return _attention(g, query, key, value, attn_mask, dropout_p, is_causal, scale)


def _attention(g, query, key, value, mask, dropout_p, is_causal, scale):
    rank = query.rank
    factor = _factor(g, query, scale)
    query = g.binary("Mul", query, factor)
    turned = g.transpose(key, [*range(key.rank - 2), key.rank - 1, key.rank - 2])
    scores = g.op("MatMul", query, g.binary("Mul", turned, factor), shape=(None,) * rank)
    if is_causal:
        mask = _causal(g, query, key)
    masked = mask is not None and mask.dtype == BOOL
    if masked:
        scores = g.op("Where", mask, scores, g.like(-math.inf, scores), dtype=scores.dtype)
    elif mask is not None:
        scores = g.op("Add", scores, g.cast(mask, scores.dtype))
    weights = g.op("Softmax", scores, axis=-1)
    if masked and not is_causal:
        # A row without any position is zero.
        nan = g.op("IsNaN", weights, dtype=BOOL)
        weights = g.op("Where", nan, g.like(0.0, weights), weights, dtype=weights.dtype)
    if dropout_p:
        weights = g.op("Dropout", weights, g.scalar(dropout_p, 1), g.scalar(True, BOOL))
    return g.op("MatMul", weights, value)


def _factor(g, query, scale):
    """The square root of the scale: both operands are multiplied by it, so that neither overflows."""
    if scale is None:
        width = g.size(query, -1)
        if isinstance(width, Value):
            width = g.op("Sqrt", g.op("Sqrt", g.cast(width, query.dtype), shape=()), shape=())
            return g.op("Reciprocal", width, shape=())
        scale = 1 / math.sqrt(width)
    if isinstance(scale, Value):
        return g.op("Sqrt", g.cast(scale, query.dtype), shape=())
    return math.sqrt(scale)


def _causal(g, query, key):
    """Which positions each one sees: itself and those before it."""
    sizes = g.ints([g.size(query, -2), g.size(key, -2)])
    return g.op("Trilu", g.expand(g.scalar(True, BOOL), sizes), dtype=BOOL, shape=(None, None), upper=0)


def _repeated(g, value, query):
    """The heads of keys and values as many times as there are queries for each."""
    heads, wanted = value.shape[-3], query.shape[-3]
    if heads == wanted:
        return value
    if not (isinstance(heads, int) and isinstance(wanted, int)):
        g.refuse("the numbers of heads must be known")
    spread = g.unsqueeze(value, [value.rank - 2])
    sizes = [1] * spread.rank
    sizes[-3] = wanted // heads
    spread = g.expand(spread, sizes)
    leading = [g.size(value, dim) for dim in range(value.rank)]
    leading[-3] = wanted
    return g.reshape(spread, leading, (*value.shape[:-3], wanted, *value.shape[-2:]))


@translation("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention_for_cpu(g, query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    return _attention(g, query, key, value, attn_mask, dropout_p, is_causal, scale), None


@translation("_scaled_dot_product_attention_math", "_scaled_dot_product_attention_math_for_mps")
def attention_math(g, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, dropout_mask=None, *, scale=None,
                   enable_gqa=False):
    return attention(g, query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa), None


@translation("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
def efficient_attention(g, query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *rest, scale=None):
    found = _attention(g, query, key, value, attn_bias, dropout_p, is_causal, scale)
    return (found, *(None,) * (len(g.outs) - 1))


@translation("_scaled_dot_product_flash_attention", "_scaled_dot_product_fused_attention_overrideable")
def flash_attention(g, query, key, value, *rest, scale=None, **options):
    rest = list(rest)
    bias = rest.pop(0) if rest and not isinstance(rest[0], (int, float)) else None
    dropout_p, is_causal = (*rest, *(0.0, False)[len(rest) :])[:2]
    found = _attention(g, query, key, value, bias, dropout_p, is_causal, scale)
    return (found, *(None,) * (len(g.outs) - 1))
