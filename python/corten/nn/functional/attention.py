"""Attention."""

from __future__ import annotations

import math
import warnings

import corten
from corten._overriding import dispatch, overridden
from ._ops import available, direct, needs, ops
from .dropout import dropout

direct(globals(), {"scaled_dot_product_attention": "scaled_dot_product_attention"})


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask as numbers to add: −inf where a boolean mask says True."""
    if mask is None:
        return None
    if mask.dtype != corten.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for "
            "both instead.",
            stacklevel=2,
        )
    if mask.is_floating_point():
        return mask
    zeros = corten.zeros_like(mask, dtype=target_type)
    return zeros.masked_fill_(mask, float("-inf"))


def _project(query, key, value, weights, bias):
    """Queries, keys and values in the model's space."""
    if isinstance(weights, tuple):
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        return tuple(ops.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    width = query.size(-1)
    if query is key and key is value:
        # One product for all three, then each as a contiguous block.
        joined = ops.linear(query, weights, bias)
        joined = joined.unflatten(-1, (3, width)).unsqueeze(0).transpose(0, -2).squeeze(-2)
        return tuple(joined.contiguous().unbind(0))
    if key is value:
        w_query, w_rest = weights.split([width, width * 2])
        b_query, b_rest = (None, None) if bias is None else bias.split([width, width * 2])
        joined = ops.linear(key, w_rest, b_rest)
        joined = joined.unflatten(-1, (2, width)).unsqueeze(0).transpose(0, -2).squeeze(-2)
        k, v = joined.contiguous().unbind(0)
        return ops.linear(query, w_query, b_query), k, v
    return _project(query, key, value, weights.chunk(3), bias)


def _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the inputs are batched; refuses ranks that do not fit together."""
    rank = query.dim()
    if rank not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{rank}-D query tensor"
        )
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"For {'batched' if rank == 3 else 'unbatched'} ({rank}-D) `query`, expected `key` and "
            f"`value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors "
            "respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"For {'batched' if rank == 3 else 'unbatched'} ({rank}-D) `query`, expected "
            f"`key_padding_mask` to be `None` or {rank - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {'batched' if rank == 3 else 'unbatched'} ({rank}-D) `query`, expected `attn_mask` "
            f"to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
        )
    if rank == 2 and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
            )
    return rank == 3


def _mask_with_batch(attn_mask, target, source, batch, heads):
    """An attention mask with a leading dimension, of a shape that fits."""
    if attn_mask is None:
        return None
    expected = (target, source) if attn_mask.dim() == 2 else (batch * heads, target, source)
    if tuple(attn_mask.shape) != expected:
        raise RuntimeError(
            f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be "
            f"{expected}."
        )
    return attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask


def _heads_first(x, batch, heads, width):
    """(length, batch, heads * width) as (batch * heads, length, width)."""
    return x.view(x.shape[0], batch * heads, width).transpose(0, 1)


class _Keys:
    """Keys and values with their masks, to which positions can be appended."""

    def __init__(self, k, v, attn_mask, padding_mask):
        self.k, self.v, self.attn_mask, self.padding_mask = k, v, attn_mask, padding_mask

    def append(self, k, v, dim):
        self.k, self.v = corten.cat([self.k, k], dim), corten.cat([self.v, v], dim)
        if self.attn_mask is not None:
            self.attn_mask = ops.pad(self.attn_mask, (0, 1))
        if self.padding_mask is not None:
            self.padding_mask = ops.pad(self.padding_mask, (0, 1))

    def merged_mask(self, batch, heads):
        """Both masks as one, broadcastable to (batch * heads, target, source)."""
        if self.padding_mask is None:
            return self.attn_mask
        source = self.k.size(1)
        if tuple(self.padding_mask.shape) != (batch, source):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(batch, source)}, but got "
                f"{self.padding_mask.shape}"
            )
        padding = self.padding_mask.view(batch, 1, 1, source).expand(-1, heads, -1, -1)
        padding = padding.reshape(batch * heads, 1, source)
        return padding if self.attn_mask is None else self.attn_mask + padding


def _canonical_masks(query, key_padding_mask, attn_mask, is_causal, need_weights):
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    other = None if attn_mask is None else attn_mask.dtype
    padding = _canonical_mask(key_padding_mask, "key_padding_mask", other, "attn_mask", query.dtype)
    if is_causal and key_padding_mask is None and not need_weights:
        return None, padding, True
    mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
    return mask, padding, is_causal and key_padding_mask is None


@needs("linear", "bmm", "softmax", "scaled_dot_product_attention")
def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
    add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True,
    key_padding_mask=None, need_weights=True, attn_mask=None, use_separate_proj_weight=False,
    q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
    average_attn_weights=True, is_causal=False,
):
    """Attention of several heads over (length, batch, width) inputs.

    Returns the output and, if ``need_weights``, the attention weights.
    """
    relevant = (
        query, key, value, in_proj_weight, in_proj_bias,
        bias_k, bias_v, out_proj_weight, out_proj_bias,
    )
    if overridden(*relevant):
        return dispatch(multi_head_attention_forward, relevant, locals())
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = query is key, key is value
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    target, batch, width = query.shape
    head_width = _head_width(width, embed_dim_to_check, num_heads)
    attn_mask, key_padding_mask, is_causal = _canonical_masks(
        query, key_padding_mask, attn_mask, is_causal, need_weights
    )
    weights = in_proj_weight
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        _check_lengths(key.shape[:2] == value.shape[:2], key, value)
    else:
        _check_lengths(key.shape == value.shape, key, value)
    q, k, v = _project(query, key, value, weights, in_proj_bias)
    attn_mask = _mask_with_batch(attn_mask, target, key.shape[0], batch, num_heads)
    keys = _Keys(k, v, attn_mask, key_padding_mask)
    if bias_k is not None and bias_v is not None:
        _refuse_static(static_k, static_v)
        keys.append(bias_k.repeat(1, batch, 1), bias_v.repeat(1, batch, 1), 0)
    q = _heads_first(q, batch, num_heads, head_width)
    keys.k = _given_or(static_k, keys.k, batch, num_heads, head_width)
    keys.v = _given_or(static_v, keys.v, batch, num_heads, head_width)
    if add_zero_attn:
        zero = keys.k.new_zeros(batch * num_heads, 1, head_width)
        keys.append(zero, zero, 1)
    mask = keys.merged_mask(batch, num_heads)
    p = dropout_p if training else 0.0
    attend = _attend_with_weights if need_weights else _attend
    out, attention = attend(q, keys.k, keys.v, mask, p, is_causal, batch, num_heads)
    out = ops.linear(out, out_proj_weight, out_proj_bias).view(target, batch, out_proj_weight.size(0))
    if need_weights and average_attn_weights:
        attention = attention.mean(dim=1)
    if not batched:
        out = out.squeeze(1)
        attention = attention.squeeze(0) if need_weights else None
    return out, attention


def _head_width(width, expected, heads):
    if width != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {width}")
    if width % heads != 0:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")
    return width // heads


def _check_lengths(fit, key, value):
    if not fit:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _refuse_static(static_k, static_v):
    for static, name in ((static_k, "key"), (static_v, "value")):
        if static is not None:
            raise AssertionError(f"bias cannot be added to static {name}.")


def _given_or(static, x, batch, heads, width):
    if static is None:
        return _heads_first(x, batch, heads, width)
    if static.size(0) != batch * heads or static.size(2) != width:
        raise AssertionError(
            f"expecting static keys of shape ({batch * heads}, _, {width}), but got {static.shape}"
        )
    return static


def _attend_with_weights(q, k, v, mask, p, is_causal, batch, heads):
    """Attention step by step, for those who want to see the weights."""
    target, width = q.shape[1:]
    q = q * math.sqrt(1.0 / width)
    if mask is None:
        scores = corten.bmm(q, k.transpose(-2, -1))
    else:
        scores = corten.baddbmm(mask, q, k.transpose(-2, -1))
    attention = scores.softmax(dim=-1)
    if p > 0.0:
        attention = dropout(attention, p)
    out = corten.bmm(attention, v).transpose(0, 1).contiguous().view(target * batch, heads * width)
    return out, attention.view(batch, heads, target, k.size(1))


def _attend(q, k, v, mask, p, is_causal, batch, heads):
    """Attention as one operator."""
    target, width = q.shape[1:]
    if mask is not None:
        if mask.size(0) == 1 and mask.dim() == 3:
            mask = mask.unsqueeze(0)
        else:
            mask = mask.view(batch, heads, -1, k.size(1))
    split = [x.view(batch, heads, x.size(1), width) for x in (q, k, v)]
    out = ops.scaled_dot_product_attention(*split, mask, p, is_causal)
    out = out.permute(2, 0, 1, 3).contiguous().view(batch * target, heads * width)
    return out, None


__all__ = available(globals())
