"""Embeddings with fake quantization of their weights."""

from __future__ import annotations

import corten
from corten import nn
from corten.nn import functional as F

from ._checks import check_given, check_source

__all__ = ["Embedding", "EmbeddingBag"]


def _check_scheme(qconfig, what):
    scheme = qconfig.weight().qscheme
    if scheme != corten.per_channel_affine_float_qparams:
        raise AssertionError(
            f"{what} weights requires a qscheme of torch.per_channel_affine_float_qparams Got {scheme}"
        )


def _check_float(cls, mod, what):
    if type(mod) is not cls._FLOAT_MODULE:
        raise AssertionError(f" qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
    check_source(mod)
    _check_scheme(mod.qconfig, what)


class Embedding(nn.Embedding):
    """An embedding whose table is quantized and dequantized in each step of training."""

    _FLOAT_MODULE = nn.Embedding

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False, sparse=False, _weight=None, device=None, dtype=None, qconfig=None,
    ):
        made = {"device": device, "dtype": dtype}
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            **made,
        )
        check_given(qconfig)
        _check_scheme(qconfig, "Embedding")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs=made)

    def forward(self, input):
        return F.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module in training for a float module with a ``qconfig``; the table is shared."""
        _check_float(cls, mod, "Embedding")
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.sparse, mod.weight, qconfig=mod.qconfig,
        )

    def to_float(self):
        """The embedding without fake quantization."""
        made = nn.Embedding(
            self.num_embeddings, self.embedding_dim, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse, None,
        )
        made.weight = nn.Parameter(self.weight.detach())
        made.train(self.training)
        return made


class EmbeddingBag(nn.EmbeddingBag):
    """An embedding of bags whose table is quantized and dequantized in each step of training."""

    _FLOAT_MODULE = nn.EmbeddingBag

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
        sparse=False, _weight=None, include_last_offset=False, padding_idx=None, qconfig=None, device=None,
        dtype=None,
    ):
        made = {"device": device, "dtype": dtype}
        super().__init__(
            num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight,
            include_last_offset, padding_idx, **made,
        )
        check_given(qconfig)
        _check_scheme(qconfig, "Embedding Bag")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs=made)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module in training for a float module with a ``qconfig``; the table is shared."""
        _check_float(cls, mod, "Embedding Bag")
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type, mod.scale_grad_by_freq, mod.mode,
            mod.sparse, mod.weight, mod.include_last_offset, mod.padding_idx, qconfig=mod.qconfig,
        )

    def to_float(self):
        """The embedding without fake quantization."""
        made = nn.EmbeddingBag(
            self.num_embeddings, self.embedding_dim, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, None, self.include_last_offset, self.padding_idx,
        )
        made.weight = nn.Parameter(self.weight.detach())
        made.train(self.training)
        return made
