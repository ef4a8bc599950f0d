"""Attention whose every step can be observed and quantized."""

from __future__ import annotations

import warnings

import corten
from corten import nn
from corten.nn import functional as F

__all__ = ["MultiheadAttention"]


def _bool_mask(mask, name, stacklevel):
    if mask is None or mask.dtype != corten.uint8:
        return mask
    warnings.warn(
        f"Byte tensor for `{name}` in `nn.MultiheadAttention` is deprecated. Use bool tensor instead.",
        stacklevel=stacklevel,
    )
    return mask.to(corten.bool)


def _one_more(mask):
    """A mask with a column for a further key."""
    return None if mask is None else F.pad(mask, (0, 1))


def _with_zeros(tensor):
    """Heads with a further key of zeros."""
    zeros = corten.zeros((tensor.size(0), 1, *tensor.size()[2:]))
    if tensor.is_quantized:
        zeros = corten.quantize_per_tensor(zeros, tensor.q_scale(), tensor.q_zero_point(), tensor.dtype)
    return corten.cat([tensor, zeros], dim=1)


class MultiheadAttention(nn.MultiheadAttention):
    """Attention of several heads with a linear map for each of its inputs; products of heads are in float."""

    _FLOAT_MODULE = nn.MultiheadAttention
    __constants__ = ["batch_first"]

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
        vdim=None, batch_first=False, device=None, dtype=None,
    ):
        from corten.ao.nn.quantized import FloatFunctional
        from corten.ao.quantization import DeQuantStub, QuantStub

        made = {"device": device, "dtype": dtype}
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, **made
        )
        self.linear_Q = nn.Linear(self.embed_dim, self.embed_dim, bias=bias, **made)
        self.linear_K = nn.Linear(self.kdim, self.embed_dim, bias=bias, **made)
        self.linear_V = nn.Linear(self.vdim, self.embed_dim, bias=bias, **made)
        # A linear map of the type that is quantized, for which the one of the base class was made.
        self.out_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=bias, **made)
        self.q_scaling_product = FloatFunctional()
        self.quant_attn_output = QuantStub()
        self.quant_attn_output_weights = QuantStub()
        self.dequant_q = DeQuantStub()
        self.dequant_k = DeQuantStub()
        self.dequant_v = DeQuantStub()

    def _get_name(self):
        return "QuantizableMultiheadAttention"

    def _maps(self):
        return self.linear_Q, self.linear_K, self.linear_V

    @classmethod
    def from_float(cls, other):
        """The observed module with the parameters of a float one."""
        from corten.ao import quantization

        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"Expected type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        made = cls(
            other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None,
            other.bias_k is not None, other.add_zero_attn, other.kdim, other.vdim, other.batch_first,
        )
        made.bias_k = other.bias_k
        made.bias_v = other.bias_v
        made.qconfig = other.qconfig
        made.out_proj.weight = other.out_proj.weight
        made.out_proj.bias = other.out_proj.bias
        if other._qkv_same_embed_dim:
            weights = other.in_proj_weight.chunk(3, dim=0)
        else:
            weights = (other.q_proj_weight, other.k_proj_weight, other.v_proj_weight)
        biases = [None] * 3 if other.in_proj_bias is None else other.in_proj_bias.chunk(3, dim=0)
        for linear, weight, bias in zip(made._maps(), weights, biases):
            linear.weight = nn.Parameter(weight, weight.requires_grad)
            linear.bias = None if bias is None else nn.Parameter(bias, bias.requires_grad)
        made.eval()
        return quantization.prepare(made, inplace=True)

    def dequantize(self):
        """The float module of a quantized one."""
        parts = [linear._weight_bias() for linear in self._maps()]
        weights = [weight.dequantize() for weight, _ in parts]
        biases = [bias for _, bias in parts]
        made = self._FLOAT_MODULE(
            self.embed_dim, self.num_heads, self.dropout, biases[0] is not None, self.bias_k is not None,
            self.add_zero_attn, self.kdim, self.vdim, self.batch_first,
        )
        if made._qkv_same_embed_dim != self._qkv_same_embed_dim:
            raise AssertionError(
                f"_qkv_same_embed_dim mismatch: {made._qkv_same_embed_dim} != {self._qkv_same_embed_dim}"
            )
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                setattr(made, name, nn.Parameter(getattr(self, name).dequantize()))
        weight, bias = self.out_proj._weight_bias()
        made.out_proj.weight = nn.Parameter(weight.dequantize())
        if bias is not None:
            made.out_proj.bias = nn.Parameter(bias)
        if made._qkv_same_embed_dim:
            made.in_proj_weight = nn.Parameter(corten.cat(weights))
        else:
            for name, weight in zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights):
                setattr(made, name, nn.Parameter(weight))
        if made.in_proj_bias is not None:
            made.in_proj_bias = nn.Parameter(corten.cat([bias.detach() for bias in biases]))
        return made

    @classmethod
    def from_observed(cls, other):
        """Refused: the quantized module is made by ``torch.ao.nn.quantized.MultiheadAttention.from_observed``."""
        raise NotImplementedError(
            "It looks like you are trying to prepare an MHA module. Please, see the examples on quantizable MHAs."
        )

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
        average_attn_weights=True, is_causal=False,
    ):
        """The attended values and, if ``need_weights``, the weights of each target position."""
        return self._forward_impl(
            query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )

    def _forward_impl(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
        average_attn_weights=True, is_causal=False,
    ):
        if attn_mask is not None and is_causal:
            raise AssertionError("Only allow causal mask or attn_mask")
        if is_causal:
            raise AssertionError("causal mask not supported by AO MHA module")
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        self._check_inputs(query, key, value)
        q, k, v = (linear(x) for linear, x in zip(self._maps(), (query, key, value)))
        q = self.q_scaling_product.mul_scalar(q, float(self.embed_dim // self.num_heads) ** -0.5)
        attn_mask = self._attn_mask(attn_mask, query, key)
        masks = [attn_mask, _bool_mask(key_padding_mask, "key_padding_mask", 4)]
        k, v, masks = self._with_bias_kv(k, v, masks)
        q, k, v = (self._heads(x) for x in (q, k, v))
        self._check_padding(masks[1], query.size(1), k.size(1))
        if self.add_zero_attn:
            k, v = _with_zeros(k), _with_zeros(v)
            masks = [_one_more(mask) for mask in masks]
        q, k, v = self.dequant_q(q), self.dequant_k(k), self.dequant_v(v)
        weights = self._weights(corten.bmm(q, k.transpose(1, 2)), masks)
        output = self.out_proj(self.quant_attn_output(self._merged(corten.bmm(weights, v), query)))
        weights = self.quant_attn_output_weights(weights)
        if not need_weights:
            return output, None
        weights = weights.view(query.size(1), self.num_heads, query.size(0), k.size(1))
        return output, weights.mean(dim=1) if average_attn_weights else weights

    def _check_inputs(self, query, key, value):
        if query.size(2) != self.embed_dim:
            raise AssertionError(f"embed_dim mismatch: {self.embed_dim} != {query.size(2)}")
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key and value size mismatch: key.size()={key.size()}, value.size()={value.size()}"
            )

    def _attn_mask(self, mask, query, key):
        """The mask of positions with a dimension for heads."""
        if mask is None:
            return None
        mask = _bool_mask(mask, "attn_mask", 5)
        if not mask.is_floating_point() and mask.dtype != corten.bool:
            raise AssertionError(f"Only float and bool types are supported for attn_mask, not {mask.dtype}")
        if mask.dim() not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
        rank = mask.dim()
        heads = 1 if rank == 2 else query.size(1) * self.num_heads
        mask = mask.unsqueeze(0) if rank == 2 else mask
        if list(mask.size()) != [heads, query.size(0), key.size(0)]:
            raise RuntimeError(f"The size of the {rank}D attn_mask is not correct.")
        return mask

    def _with_bias_kv(self, k, v, masks):
        if self.bias_k is None and self.bias_v is None:
            return k, v, masks
        for name, other in (("bias_k", "bias_v"), ("bias_v", "bias_k")):
            if getattr(self, name) is None:
                raise AssertionError(f"self.{other} must be None when self.{name} is None")
        batch = k.size(1)
        k = corten.cat([k, self.bias_k.repeat(1, batch, 1)])
        v = corten.cat([v, self.bias_v.repeat(1, batch, 1)])
        return k, v, [_one_more(mask) for mask in masks]

    def _heads(self, x):
        """(length, batch, width) as (batch * heads, length, width of a head)."""
        head = self.embed_dim // self.num_heads
        return x.contiguous().view(-1, x.size(1) * self.num_heads, head).transpose(0, 1)

    def _check_padding(self, mask, batch, length):
        if mask is None:
            return
        for dim, expected in ((0, batch), (1, length)):
            if mask.size(dim) != expected:
                raise AssertionError(f"key_padding_mask.size({dim}) must be {expected}, got {mask.size(dim)}")

    def _weights(self, products, masks):
        """What each target takes of each key."""
        attn_mask, padding = masks
        if attn_mask is not None:
            if attn_mask.dtype == corten.bool:
                products = products.masked_fill(attn_mask, float("-inf"))
            else:
                products = products + attn_mask
        if padding is not None:
            split = products.view(padding.size(0), self.num_heads, *products.shape[1:])
            split = split.masked_fill(padding.unsqueeze(1).unsqueeze(2), float("-inf"))
            products = split.view(products.shape)
        return F.dropout(F.softmax(products, dim=-1), p=self.dropout, training=self.training)

    def _merged(self, heads, query):
        """Heads side by side again."""
        length, batch = query.size(0), query.size(1)
        if self.batch_first:
            return heads.view(batch, length, self.embed_dim)
        return heads.transpose(0, 1).contiguous().view(length, batch, self.embed_dim)
