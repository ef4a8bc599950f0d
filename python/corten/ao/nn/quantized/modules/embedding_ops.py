"""Embeddings whose tables have 8 or 4 bits, with a scale and zero point of each row."""

from __future__ import annotations

import corten
from corten import nn

from .utils import _hide_packed_params_repr, _quantize_weight, check_qconfig

__all__ = ["EmbeddingPackedParams", "Embedding", "EmbeddingBag"]


def _empty_table(rows, width, dtype):
    return corten._empty_per_channel_affine_quantized(
        [rows, width], scales=corten.ones(rows, dtype=corten.float),
        zero_points=corten.zeros(rows, dtype=corten.float), axis=0, dtype=dtype,
    )


class EmbeddingPackedParams(nn.Module):
    """A table in the form that look-ups read: each row beside its scale and zero point."""

    _version = 1

    def __init__(self, num_embeddings, embedding_dim, dtype=corten.quint8):
        super().__init__()
        self.dtype = dtype
        self._check(
            f"Unsupported dtype on quantized embedding! Supports quint8 and quint4x2. Got dtype: {dtype}"
        )
        self.set_weight(_empty_table(num_embeddings, embedding_dim, dtype))

    def _check(self, text):
        if self.dtype not in (corten.quint8, corten.quint4x2):
            raise NotImplementedError(text)

    def set_weight(self, weight):
        """Packs a quantized table."""
        self._check("Unsupported dtype for quantized embedding prepack! Supports quint8 and quint4x2.")
        self._packed_weight = corten.ops.quantized.embedding_bag_prepack(weight)

    def _weight(self):
        self._check("Unsupported dtype for quantized embedding unpack! Supports quint8 and quint4x2.")
        return corten.ops.quantized.embedding_bag_unpack(self._packed_weight)

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __repr__(self):
        return repr(self._weight())


def _observer_of(cls, mod, float_kind):
    """The observer of the table of a float module or one in training."""
    name = float_kind.__name__
    if hasattr(mod, "weight_fake_quant"):
        from corten.ao.nn import qat

        if name == "Embedding" and type(mod) is not qat.Embedding:
            raise AssertionError(
                f"nnq.{cls.__name__}.from_float with fake quant only works for {qat.Embedding.__name__}"
            )
        observer = mod.weight_fake_quant
    else:
        if type(mod) is not float_kind:
            raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {name}")
        check_qconfig(mod, f"{name} input float module must have qconfig defined")
        if mod.qconfig is not None and mod.qconfig.weight is not None:
            observer = mod.qconfig.weight()
        else:
            from corten.ao.quantization.qconfig import float_qparams_weight_only_qconfig

            observer = float_qparams_weight_only_qconfig.weight()
    if observer.qscheme != corten.per_channel_affine_float_qparams:
        raise AssertionError(f"{name} quantization is only supported with float_qparams_weight_only_qconfig.")
    if observer.dtype not in (corten.quint8, corten.quint4x2):
        raise AssertionError(
            f"The only supported dtype for nnq.{name} is torch.quint8 and torch.quint4x2, got {observer.dtype}"
        )
    return observer


class Embedding(nn.Module):
    """A table of 8 or 4 bits whose rows are looked up as floats."""

    _version = 1

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False, sparse=False, _weight=None, dtype=corten.quint8,
    ):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.dtype = dtype
        if _weight is None:
            _weight = _empty_table(num_embeddings, embedding_dim, corten.quint8)
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError(
                "Shape of weight does not match num_embeddings and embedding_dim: expected "
                f"{[num_embeddings, embedding_dim]}, got {list(_weight.shape)}"
            )
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        self._packed_params.set_weight(_weight)

    def _op(self, name):
        bits = "4bit" if self.dtype == corten.quint4x2 else "byte"
        return getattr(corten.ops.quantized, f"{name}_{bits}")

    def forward(self, indices):
        return self._op("embedding")(self._packed_params._packed_weight, indices)

    def _get_name(self):
        return "QuantizedEmbedding"

    def __repr__(self):
        return _hide_packed_params_repr(self, EmbeddingPackedParams)

    def extra_repr(self):
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w):
        """Packs a quantized table."""
        self._packed_params.set_weight(w)

    def weight(self):
        """The quantized table."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a float or trained one, with the parameters that its observer finds."""
        observer = _observer_of(cls, mod, nn.Embedding)
        observer(mod.weight)
        made = Embedding(mod.num_embeddings, mod.embedding_dim, dtype=observer.dtype)
        made.set_weight(_quantize_weight(mod.weight.float(), observer))
        return made

    @classmethod
    def from_reference(cls, ref_embedding):
        """The module of a reference module."""
        ref = ref_embedding
        return cls(
            ref.num_embeddings, ref.embedding_dim, ref.padding_idx, ref.max_norm, ref.norm_type,
            ref.scale_grad_by_freq, ref.sparse, ref.get_quantized_weight(), ref.weight_dtype,
        )


class EmbeddingBag(Embedding):
    """A table of 8 or 4 bits whose rows are looked up as floats and added up by bags."""

    _version = 1

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="sum",
        sparse=False, _weight=None, include_last_offset=False, dtype=corten.quint8,
    ):
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode = mode
        self.pruned_weights = False
        self.include_last_offset = include_last_offset
        self.dtype = dtype

    def forward(self, indices, offsets=None, per_sample_weights=None, compressed_indices_mapping=None):
        return self._op("embedding_bag")(
            self._packed_params._packed_weight, indices, offsets, False, 0, self.pruned_weights,
            per_sample_weights, compressed_indices_mapping, self.include_last_offset,
        )

    def _get_name(self):
        return "QuantizedEmbeddingBag"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a float or trained one, with the parameters that its observer finds."""
        observer = _observer_of(cls, mod, nn.EmbeddingBag)
        observer(mod.weight)
        made = EmbeddingBag(
            mod.num_embeddings, mod.embedding_dim, max_norm=mod.max_norm, norm_type=mod.norm_type,
            scale_grad_by_freq=mod.scale_grad_by_freq, mode=mod.mode, sparse=mod.sparse,
            include_last_offset=mod.include_last_offset, dtype=observer.dtype,
        )
        made.set_weight(_quantize_weight(mod.weight.float(), observer))
        return made

    @classmethod
    def from_reference(cls, ref_embedding_bag):
        """The module of a reference module."""
        ref = ref_embedding_bag
        return cls(
            ref.num_embeddings, ref.embedding_dim, ref.max_norm, ref.norm_type, ref.scale_grad_by_freq, ref.mode,
            ref.sparse, ref.get_quantized_weight(), ref.include_last_offset, ref.weight_dtype,
        )
