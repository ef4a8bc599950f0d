"""Operators of ONNX as functions: what ``RotaryEmbedding`` and ``Attention`` compute, in operators that exports express."""

from __future__ import annotations

import math

__all__ = ["attention", "rotary_embedding"]


def rotary_embedding(X, cos_cache, sin_cache, position_ids=None, *, interleaved=False, num_heads=0, rotary_embedding_dim=0):
    """Turns pairs of elements by angles that depend on their positions.

    Args:
        X: Of shape ``(batch, heads, sequence, size)``, or ``(batch, sequence, heads * size)`` with ``num_heads``.
        cos_cache: Cosines: a row for each position with ``position_ids``, else ``(batch, sequence, size / 2)``.
        sin_cache: Sines.
        position_ids: Positions of shape ``(batch, sequence)``.
        interleaved: Whether pairs are neighbours; else they are half of the size apart.
        num_heads: The number of heads where ``X`` has three dimensions.
        rotary_embedding_dim: How many elements of each head are turned; all without it.
    """
    import corten

    flat = X.dim() == 3
    if flat:
        if num_heads == 0:
            raise AssertionError("num_heads must be given for an input of three dimensions")
        X = X.reshape(X.shape[0], X.shape[1], num_heads, -1).transpose(1, 2)
    width = rotary_embedding_dim or X.shape[-1]
    turned, rest = X[..., :width], X[..., width:]
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = cos_cache[..., : width // 2].unsqueeze(1), sin_cache[..., : width // 2].unsqueeze(1)
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned[..., : width // 2], turned[..., width // 2 :]
    real, imaginary = cos * first - sin * second, sin * first + cos * second
    if interleaved:
        found = corten.stack([real, imaginary], -1).flatten(-2)
    else:
        found = corten.cat([real, imaginary], -1)
    found = corten.cat([found, rest], -1)
    return found.transpose(1, 2).flatten(2) if flat else found


def attention(
    Q, K, V, attn_mask=None, past_key=None, past_value=None, *, is_causal=False, kv_num_heads=0, q_num_heads=0,
    qk_matmul_output_mode=0, scale=None, softcap=0.0, softmax_precision=None,
):
    """Attention with a cache: the result, the keys and values of all positions, and the scores that
    ``qk_matmul_output_mode`` names (0: of the product, 1: with the mask, 2: capped, 3: after the softmax).

    Args:
        Q: Queries of shape ``(batch, heads, sequence, size)``, or ``(batch, sequence, heads * size)`` with ``q_num_heads``.
        K: Keys; ``kv_num_heads`` heads where they have three dimensions.
        V: Values.
        attn_mask: Truth values, or numbers that are added.
        past_key: Keys of positions before.
        past_value: Values of positions before.
        is_causal: Whether positions see none behind them.
        kv_num_heads: The number of heads of keys and values.
        q_num_heads: The number of heads of queries.
        qk_matmul_output_mode: Which scores are given.
        scale: What products are multiplied with: one by the root of the size without it.
        softcap: Where above 0, scores are capped smoothly there.
        softmax_precision: The number of the element type of the softmax; not used.
    """
    import corten

    flat = Q.dim() == 3
    if flat:
        if q_num_heads == 0 or kv_num_heads == 0:
            raise AssertionError("q_num_heads and kv_num_heads must be given for inputs of three dimensions")
        Q, K, V = (part.reshape(part.shape[0], part.shape[1], heads, -1).transpose(1, 2)
                   for part, heads in ((Q, q_num_heads), (K, kv_num_heads), (V, kv_num_heads)))
    K = K if past_key is None else corten.cat([past_key, K], 2)
    V = V if past_value is None else corten.cat([past_value, V], 2)
    keys, values = K, V
    if Q.shape[1] != K.shape[1]:
        times = Q.shape[1] // K.shape[1]
        keys, values = K.repeat_interleave(times, 1), V.repeat_interleave(times, 1)
    scale = 1 / math.sqrt(Q.shape[-1]) if scale is None else scale
    stages = [(Q * math.sqrt(scale)) @ (keys * math.sqrt(scale)).transpose(-2, -1)]
    stages.append(_masked(stages[0], attn_mask, is_causal))
    stages.append(softcap * corten.tanh(stages[1] / softcap) if softcap > 0 else stages[1])
    stages.append(stages[2].softmax(-1))
    found = stages[3] @ values
    found = found.transpose(1, 2).flatten(2) if flat else found
    return found, K, V, stages[qk_matmul_output_mode]


def _masked(scores, mask, is_causal):
    import corten

    if is_causal:
        seen = corten.ones(scores.shape[-2], scores.shape[-1], dtype=corten.bool).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == corten.bool else scores + mask
