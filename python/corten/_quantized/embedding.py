"""Tables of embeddings in rows of 8, 4 or 2 bits with a scale and an offset each.

A row of bytes ends with its scale and offset: two floats of 32 bits behind elements of 8 bits, of 16 bits behind
smaller ones, of which the first stand in the low bits of a byte.
"""

from __future__ import annotations

import corten
from corten._quantized.packed import ScriptObject, register


def _rows(weight, operator):
    if weight.dtype not in (corten.float32, corten.float16):
        raise RuntimeError(f"quantized::{operator}: expected a weight of float32 or float16, but got {weight.dtype}")
    return weight.detach().float().contiguous()


def _bytes_of(numbers):
    """Numbers as bytes, along the last dimension."""
    return numbers.contiguous().view(corten.uint8)


def embedding_bag_byte_prepack(weight):
    """Rows of numbers as rows of bytes, between their least and greatest numbers."""
    rows = _rows(weight, "embedding_bag_byte_prepack")
    if rows.dim() < 2:
        raise RuntimeError("embedding_bag_byte_prepack: weight tensor is expected to have at least 2 dimensions")
    if rows.size(-1) == 0:
        return corten.empty(*rows.shape[:-1], 8, dtype=corten.uint8)
    least, most = rows.amin(-1, keepdim=True), rows.amax(-1, keepdim=True)
    span = most - least
    steps = ((rows - least) * (255.0 / (span + 1e-8))).round()
    tail = corten.cat([span / 255.0, least], -1)
    return corten.cat([steps.to(corten.uint8), _bytes_of(tail)], -1)


def embedding_bag_byte_unpack(weight):
    """Rows of bytes as rows of numbers."""
    elements, tail = weight[..., :-8], weight[..., -8:].contiguous().view(corten.float32)
    return elements.float() * tail[..., :1] + tail[..., 1:]


def _packed_bits(steps, bits):
    """Small integers side by side in bytes."""
    each = 8 // bits
    missing = -steps.size(-1) % each
    if missing:
        steps = corten.nn.functional.pad(steps, (0, missing))
    steps = steps.to(corten.int32).unflatten(-1, (-1, each))
    shifted = steps * corten.tensor([1 << bits * i for i in range(each)], dtype=corten.int32)
    return shifted.sum(-1).to(corten.uint8)


def _unpacked_bits(elements, bits):
    """Small integers out of bytes."""
    each = 8 // bits
    parts = [(elements >> (bits * i)) & ((1 << bits) - 1) for i in range(each)]
    return corten.stack(parts, -1).flatten(-2)


def _nbit_prepack(weight, bits, optimized_qparams, nbins, ratio):
    name = f"embedding_bag_{bits}bit_prepack"
    rows = _rows(weight, name)
    if rows.dim() != 2:
        raise RuntimeError(f"{name}: expected a matrix, but got {rows.dim()} dimensions")
    if rows.size(-1) % (8 // bits):
        raise RuntimeError(
            f"qembeddingbag_{bits}bit_prepack only works for the number of columns a multiple of {8 // bits}"
        )
    if optimized_qparams:
        least, most = _optimized_range(rows, bits, nbins, ratio)
    else:
        least, most = rows.amin(-1, keepdim=True), rows.amax(-1, keepdim=True)
    least = least.half().float()
    span = most - least
    levels = (1 << bits) - 1
    scale = corten.where(span == 0, corten.ones_like(span), span / levels).half().float()
    scale = corten.where(scale == 0, corten.ones_like(scale), scale)
    inverse = 1.0 / scale
    bad = inverse.isinf()
    scale, inverse = corten.where(bad, corten.ones_like(scale), scale), inverse.masked_fill(bad, 1.0)
    steps = ((rows - least) * inverse).round().clamp(0, levels)
    tail = corten.cat([scale, least], -1).half()
    return corten.cat([_packed_bits(steps, bits), _bytes_of(tail)], -1)


def _optimized_range(rows, bits, nbins, ratio):
    """Ranges whose rounding errors are the least, found by narrowing them."""
    pairs = [corten.choose_qparams_optimized(row, row.numel(), nbins, ratio, bits) for row in rows]
    most, least = (corten.stack([corten.as_tensor(pair[i]).reshape(1) for pair in pairs]) for i in (0, 1))
    return least, most


def embedding_bag_4bit_prepack(weight, optimized_qparams=False, nbins=200, ratio=0.16):
    """Rows of numbers as rows of 4 bits."""
    return _nbit_prepack(weight, 4, optimized_qparams, nbins, ratio)


def embedding_bag_2bit_prepack(weight, optimized_qparams=False, nbins=200, ratio=0.16):
    """Rows of numbers as rows of 2 bits."""
    return _nbit_prepack(weight, 2, optimized_qparams, nbins, ratio)


def _nbit_unpack(weight, bits):
    elements, tail = weight[..., :-4], weight[..., -4:].contiguous().view(corten.float16).float()
    return _unpacked_bits(elements, bits).float() * tail[..., :1] + tail[..., 1:]


def embedding_bag_4bit_unpack(weight):
    """Rows of 4 bits as rows of numbers."""
    return _nbit_unpack(weight, 4)


def embedding_bag_2bit_unpack(weight):
    """Rows of 2 bits as rows of numbers."""
    return _nbit_unpack(weight, 2)


_UNPACK = {8: embedding_bag_byte_unpack, 4: embedding_bag_4bit_unpack, 2: embedding_bag_2bit_unpack}


def _bag(
    weight, bits, indices, offsets, mode, pruned_weights, per_sample_weights, compressed_indices_mapping,
    include_last_offset,
):
    if mode != 0:
        raise RuntimeError("embedding_bag of quantized rows: only the mode 'sum' is supported")
    if indices.dtype not in (corten.int32, corten.int64):
        raise RuntimeError(f"Expect 32 or 64 bit indices, but found {indices.dtype} instead.")
    if indices.dim() not in (1, 2):
        raise RuntimeError("qembedding/qembedding_bag operator supports 1 or 2d indices, got " + str(indices.dim()))
    if indices.dim() == 2:
        if offsets is not None:
            raise RuntimeError("embedding_bag operator: input is 2D, then offsets has to be None, as input is treated is a "
                               "mini-batch of fixed length sequences.")
        offsets = corten.arange(0, indices.numel(), max(indices.size(1), 1), dtype=indices.dtype)
        if indices.size(1) == 0:
            offsets = corten.zeros(indices.size(0), dtype=indices.dtype)
        include_last_offset = False
    elif offsets is None:
        raise RuntimeError("embedding_bag operator expects offsets to be set for 1D indices.")
    indices = indices.reshape(-1).to(corten.int64)
    factors = per_sample_weights
    if pruned_weights and compressed_indices_mapping is not None and compressed_indices_mapping.numel() > 1:
        indices = compressed_indices_mapping[indices].to(corten.int64)
        kept = (indices >= 0).float()
        factors, indices = kept if factors is None else kept * factors.reshape(-1), indices.clamp(min=0)
    chosen = _UNPACK[bits](weight.index_select(0, indices))
    if factors is not None:
        chosen = chosen * factors.reshape(-1, 1).float()
    ends = offsets.to(corten.int64)
    if not include_last_offset:
        ends = corten.cat([ends, ends.new_full((1,), indices.numel())])
    lengths = ends[1:] - ends[:-1]
    bags = corten.repeat_interleave(corten.arange(lengths.numel()), lengths)
    sums = corten.zeros(lengths.numel(), chosen.size(-1))
    return sums.index_add_(0, bags, chosen[: bags.numel()])


def _rowwise(bits):
    def rowwise_offsets(
        weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False,
        per_sample_weights=None, compressed_indices_mapping=None, include_last_offset=False,
    ):
        """Sums of rows at indices, of a bag from each offset on."""
        return _bag(
            weight, bits, indices, offsets, mode, pruned_weights, per_sample_weights, compressed_indices_mapping,
            include_last_offset,
        )

    return rowwise_offsets


embedding_bag_byte_rowwise_offsets = _rowwise(8)
embedding_bag_4bit_rowwise_offsets = _rowwise(4)
embedding_bag_2bit_rowwise_offsets = _rowwise(2)


@register
class EmbeddingPackedParamsBase(ScriptObject):
    """A table of embeddings whose rows have scales and float zero points."""

    _qualified_name = "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase"
    _methods = ["bit_rate", "unpack", "version"]

    def __init__(self, weight):
        if weight.dtype not in (corten.quint8, corten.quint4x2):
            raise RuntimeError(
                f"embedding_bag_prepack currently only supports quint8 and quint4x2 weights, but got {weight.dtype}"
            )
        if weight.qscheme() != corten.per_channel_affine_float_qparams:
            raise RuntimeError(
                "Expect embedding_bag weights to be quantized using kPerChannelAffineFloatQParams"
            )
        self._weight = weight
        self._bits = 8 if weight.dtype is corten.quint8 else 4
        scales, zero_points = weight.q_per_channel_scales().float(), weight.q_per_channel_zero_points().float()
        tail = corten.stack([scales, -scales * zero_points], -1)
        elements = weight.int_repr().reshape(weight.size(0), -1)
        self._packed = corten.cat([elements, _bytes_of(tail if self._bits == 8 else tail.half())], -1)

    def bit_rate(self):
        """The bits of an element."""
        return self._bits

    def version(self):
        """The version of the state."""
        return 1

    def unpack(self):
        """The quantised table."""
        return self._weight

    def _state(self):
        return 1, [self._weight], [], [self._bits]

    def _restore(self, state):
        self.__init__(state[1][0])


def embedding_bag_prepack(weight):
    """Packs a quantised table."""
    return EmbeddingPackedParamsBase(weight)


def embedding_bag_unpack(W_prepack):
    """The quantised table."""
    return W_prepack.unpack()


def _packed_bag(bits):
    def embedding_bag(
        weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False,
        per_sample_weights=None, compressed_indices_mapping=None, include_last_offset=False,
    ):
        """Sums of rows of a packed table, of a bag from each offset on."""
        return _bag(
            weight._packed, bits, indices, offsets, mode, pruned_weights, per_sample_weights,
            compressed_indices_mapping, include_last_offset,
        )

    return embedding_bag


embedding_bag_byte, embedding_bag_4bit = _packed_bag(8), _packed_bag(4)


def _packed_rows(bits):
    def embedding(weight, indices, pruned_weights=False):
        """Rows of a packed table."""
        if indices.dim() not in (1, 2):
            raise RuntimeError(
                f"qembedding/qembedding_bag operator supports 1 or 2d indices, got {indices.dim()}"
            )
        chosen = weight._packed.index_select(0, indices.reshape(-1).to(corten.int64))
        return _UNPACK[bits](chosen).reshape(*indices.shape, -1)

    return embedding


embedding_byte, embedding_4bit = _packed_rows(8), _packed_rows(4)
