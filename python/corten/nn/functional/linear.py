"""Linear maps, embeddings, distances."""

from __future__ import annotations

import warnings

import corten
from corten._overriding import dispatch, overridden
from ._ops import available, direct, needs, ops

direct(globals(), {
    "linear": "linear", "bilinear": "bilinear", "cosine_similarity": "cosine_similarity",
    "pairwise_distance": "pairwise_distance", "pdist": "pdist", "one_hot": "one_hot",
})


def _renorm_rows(weight, input, max_norm, norm_type):
    with corten.no_grad():
        ops.embedding_renorm_(weight, input, max_norm, norm_type)


def _row(padding_idx, rows):
    """`padding_idx` as an index from the front; −1 for none."""
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


@needs("embedding")
def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
    sparse=False,
):
    """The rows of ``weight`` that ``input`` names; row ``padding_idx`` gets no gradient."""
    if overridden(input, weight):
        return dispatch(embedding, (input, weight), locals())
    padding_idx = -1 if padding_idx is None else _row(padding_idx, weight.size(0))
    if max_norm is not None:
        input = input.contiguous()
        _renorm_rows(weight, input, max_norm, norm_type)
    return ops.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


@needs("embedding_bag")
def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
    sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None,
):
    """Sums, means or maxima of the rows of ``weight`` in each bag of indices."""
    relevant = input, weight, offsets, per_sample_weights
    if overridden(*relevant):
        return dispatch(embedding_bag, relevant, locals())
    if weight.dtype == corten.long and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage "
            "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    _check_bag_arguments(input, offsets, mode, sparse, scale_grad_by_freq, per_sample_weights)
    if input.dim() == 2:
        offsets = corten.arange(
            0, input.numel(), max(input.size(1), 1), dtype=input.dtype, device=input.device
        )
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if max_norm is not None:
        _renorm_rows(weight, input, max_norm, norm_type)
    return ops.embedding_bag(
        weight, input, offsets, scale_grad_by_freq, _BAG_MODES[mode], sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )[0]


def _check_bag_arguments(input, offsets, mode, sparse, scale_grad_by_freq, per_sample_weights):
    if mode not in _BAG_MODES:
        raise ValueError("mode has to be one of sum or mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({tuple(per_sample_weights.shape)}) is not "
            f"None, then it must have the same shape as the input ({tuple(input.shape)})"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """``input`` divided by its ``p``-norm along ``dim``."""
    if overridden(input, out):
        return dispatch(normalize, (input, out), locals())
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    if out is None:
        return input / length
    return corten.div(input, length, out=out)


__all__ = available(globals())
