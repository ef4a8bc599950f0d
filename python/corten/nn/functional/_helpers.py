"""Private names of ``torch.nn.functional`` that packages call: checks, projections, masks."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable

import corten
from corten import Tensor, _VF
from corten._symbolic_functions import sym_int as _sym_int
from corten.nn.modules.utils import _list_with_default, _pair, _single, _triple
from . import _reduction as _Reduction
from ._ops import ops
from .attention import _canonical_mask, _check_shapes as _mha_shape_check, _project
from .normalization import _verify_batch_size, _verify_spatial_size
from .pooling import (
    _adaptive_max_pool1d, _adaptive_max_pool2d, _adaptive_max_pool3d, _check_unpool_output_size,
    _fractional_max_pool2d, _fractional_max_pool3d, _max_pool1d, _max_pool2d, _max_pool3d, _unpool_size as _unpool_output_size,
)

#: Scripts know no dtypes, so annotations call them numbers.
DType = int
torch = corten

__all__ = [
    "Callable", "DType", "_Reduction", "_VF", "_adaptive_max_pool1d", "_adaptive_max_pool2d", "_adaptive_max_pool3d",
    "_add_docstr", "_canonical_mask", "_check_key_padding_mask", "_check_unpool_output_size",
    "_enum_list_as_int_list", "_expand_single_value", "_fractional_max_pool2d",
    "_fractional_max_pool3d", "_get_softmax_dim", "_in_projection", "_in_projection_packed",
    "_is_integer", "_jit_unused", "_linear_cross_entropy_chunked_applies", "_list_or_empty",
    "_list_with_default", "_max_pool1d", "_max_pool2d", "_max_pool3d", "_mha_shape_check",
    "_no_grad_embedding_renorm_", "_none_or_dtype", "_overload", "_pair", "_single", "_sym_int",
    "_triple", "_unpool_output_size", "_verify_batch_size", "_verify_spatial_size", "importlib", "math",
    "torch", "warnings",
]


def _add_docstr(function, text):
    """Gives a function its documentation, where it takes one."""
    try:
        function.__doc__ = text
    except AttributeError:
        pass
    return function


def _overload(func):
    """Marks a function as one signature of several."""
    return corten.jit._overload(func)


def _jit_unused(fn):
    """Marks a function as one that scripts do not call."""
    return corten.jit.unused(fn)


def _is_integer(x):
    """Whether ``x`` is an integer, of Python or NumPy, or a tensor of them."""
    if isinstance(x, (int, corten.SymInt)):
        return True
    if isinstance(x, Tensor):
        return not x.is_floating_point()
    # The class of NumPy's integers is only asked for where somebody has loaded it.
    return any(base.__module__ == "numpy" and base.__name__ == "integer" for base in type(x).__mro__)


def _in_projection_packed(q, k, v, w, b=None):
    """Queries, keys and values by weights that lie one after the other."""
    return _project(q, k, v, w, b)


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """Queries, keys and values in the space of the queries."""
    width = q.size(-1)
    parts = (("query", q, w_q, b_q), ("key", k, w_k, b_k), ("value", v, w_v, b_v))
    for name, x, weight, _ in parts:
        if weight.shape != (width, x.size(-1)):
            raise AssertionError(
                f"expecting {name} weights shape of {(width, x.size(-1))}, but got {weight.shape}"
            )
    for name, _, _, bias in parts:
        if bias is not None and bias.shape != (width,):
            raise AssertionError(f"expecting {name} bias shape of {(width,)}, but got {bias.shape}")
    return tuple(ops.linear(x, weight, bias) for _, x, weight, bias in parts)


def _none_or_dtype(input):
    """The dtype of a tensor that may be absent."""
    if input is None:
        return None
    if isinstance(input, Tensor):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _check_key_padding_mask(key_padding_mask, src_len, bsz):
    for dim, expected in enumerate((bsz, src_len)):
        given = key_padding_mask.shape[dim]
        if given != expected:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {expected}, but got {given}"
            )


def _expand_single_value(v):
    """A list of what was given; none for None."""
    if v is None:
        return []
    return v if isinstance(v, list) else [v]


def _list_or_empty(l):  # noqa: E741
    return l if l else []


def _enum_list_as_int_list(l):  # noqa: E741
    return [member.value for member in (l if isinstance(l, list) else [l])]


def _get_softmax_dim(name, ndim, stacklevel):
    """The dimension that functions take where none is given."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _no_grad_embedding_renorm_(weight, input, max_norm, norm_type):
    """Shortens rows of ``weight`` that are longer than ``max_norm``, unrecorded."""
    ops.embedding_renorm_(weight.detach(), input, max_norm, norm_type)


def _linear_cross_entropy_chunked_applies(
    input, linear_weight, target, linear_bias, reduction, label_smoothing, options, *, warn=True,
):
    """Whether the loss of a linear map is computed in chunks."""
    if options is None:
        return False
    spatial = linear_weight.shape[1:-1]
    probabilities = (
        target.shape == (*input.shape[:-1], linear_weight.shape[0], *spatial)
        and target.dtype == input.dtype
        and not (target.requires_grad and corten.is_grad_enabled())
    )
    applies = (
        reduction in {"mean", "sum", "none"} and label_smoothing == 0.0
        and (target.dtype == corten.int64 or probabilities) and not spatial
    )
    if not applies and warn:
        warnings.warn(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in "
            "{'mean','sum','none'}, label_smoothing == 0, target.dtype == int64 (or a probability "
            "target with dtype matching input and requires_grad == False), out_features == (). Got "
            f"reduction={reduction!r}, label_smoothing={label_smoothing}, "
            f"target.dtype={target.dtype}, out_features={tuple(spatial)}.",
            stacklevel=3,
        )
    return applies
