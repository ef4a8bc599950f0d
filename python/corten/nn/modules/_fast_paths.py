"""What attention does in evaluation only: nested tensors, item by item, and padding that is left
out. It needs that no gradient is recorded, and modules of the usual form."""

from __future__ import annotations

import corten
from corten.backends import mha


def _recorded(*tensors):
    return corten.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def refusal(attention, query, key, value, key_padding_mask, attn_mask):
    """Why attention does not take nested tensors; empty if it does."""
    from corten.nested import NestedTensor

    own = (attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight,
           attention.out_proj.bias)
    for applies, reason in (
        (not mha.get_fastpath_enabled(), "torch.backends.mha.get_fastpath_enabled() was not True"),
        (query.dim() != 3,
         f"input not batched; expected query.dim() of 3 but got {query.dim()}"),
        (query is not key or key is not value,
         "non-self attention was used (query, key, and value are not the same Tensor)"),
        (attention.in_proj_weight is None, "in_proj_weight was None"),
        (attention.training, "training is enabled"),
        (attention.num_heads % 2, "self.num_heads is not even"),
        (not attention.batch_first, "batch_first was not True"),
        (attention.bias_k is not None, "self.bias_k was not None"),
        (attention.add_zero_attn, "add_zero_attn was enabled"),
        (key_padding_mask is not None or attn_mask is not None,
         "supplying both src_key_padding_mask and src_mask at the same time is not supported with "
         "NestedTensor input"),
        (corten.is_autocast_enabled(), "autocast is enabled"),
        (isinstance(query, NestedTensor), "some Tensor argument has_torch_function"),
        (_recorded(query, *own),
         "grad is enabled and at least one of query or the input/output projection weights or "
         "biases requires_grad"),
    ):
        if applies:
            return reason
    return ""


def check(attention, query, key, value, key_padding_mask, attn_mask):
    """That attention takes nested tensors.

    Raises:
        AssertionError: It does not.
    """
    reason = refusal(attention, query, key, value, key_padding_mask, attn_mask)
    if reason:
        raise AssertionError(
            "MultiheadAttention does not support NestedTensor outside of its fast path. The fast "
            f"path was not hit because {reason}"
        )


def attended(attention, x, need_weights, average_attn_weights):
    """Self-attention of each item, and the weights, filled up with zeros."""
    from corten.nested._strided import of_items

    found = [
        attention(item[None], item[None], item[None], need_weights=need_weights,
                  average_attn_weights=average_attn_weights) for item in x.unbind()
    ]
    output = of_items([values[0] for values, _ in found])
    if not need_weights:
        return output, None
    return output, of_items([weights[0] for _, weights in found]).to_padded_tensor(0.0)


def encoded(layer, x):
    """What an encoder layer makes of each item."""
    from corten.nested._strided import of_items

    return of_items([layer(item[None])[0] for item in x.unbind()])


def may_drop_padding(layer):
    """Whether an encoder layer is of the form of which padding can be left out."""
    from .activation import GELU, ReLU
    from .transformer import TransformerEncoderLayer

    if not isinstance(layer, TransformerEncoderLayer):
        return False
    attention, act = layer.self_attn, layer.activation
    usual = act in (corten.nn.functional.relu, corten.nn.functional.gelu)
    return (
        not layer.norm_first and attention.batch_first and attention._qkv_same_embed_dim
        and attention.in_proj_bias is not None and (usual or isinstance(act, (ReLU, GELU)))
        and layer.norm1.eps == layer.norm2.eps and attention.num_heads % 2 == 0
    )


def padding_behind(padding):
    """The mask of as much padding, all of it behind: what is left of each item is its beginning."""
    kept = (padding == 0).sum(1, keepdim=True)
    places = corten.arange(padding.size(1), device=padding.device)
    return corten.zeros_like(padding).masked_fill(places >= kept, float("-inf"))


def drops_padding(encoder, src, mask, padding):
    """Whether a stack of encoder layers leaves padding out: its results are then 0 there."""
    first = encoder.layers[0]
    if not (mha.get_fastpath_enabled() and getattr(encoder, "use_nested_tensor", False)):
        return False
    if first.training or src.is_nested or src.dim() != 3 or padding is None or mask is not None:
        return False
    kept = padding == 0
    if encoder.mask_check and bool((kept[:, 1:] & ~kept[:, :-1]).any()):
        return False  # padding is in front of something
    return not corten.is_autocast_enabled() and not _recorded(src, *first.parameters())
