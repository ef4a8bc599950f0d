"""Dropout in its forms."""

from __future__ import annotations

import warnings

from corten._overriding import dispatch, overridden
from ._ops import available, needs, ops


def _check(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@needs("dropout")
def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes elements with probability ``p`` and scales the others by ``1 / (1 - p)``."""
    if overridden(input):
        return dispatch(dropout, (input,), locals())
    _check(p)
    return ops.dropout_(input, p, training) if inplace else ops.dropout(input, p, training)


@needs("alpha_dropout")
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance for SELU networks."""
    if overridden(input):
        return dispatch(alpha_dropout, (input,), locals())
    _check(p)
    op = ops.alpha_dropout_ if inplace else ops.alpha_dropout
    return op(input, p, training)


@needs("feature_alpha_dropout")
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Alpha dropout of whole channels."""
    if overridden(input):
        return dispatch(feature_alpha_dropout, (input,), locals())
    _check(p)
    op = ops.feature_alpha_dropout_ if inplace else ops.feature_alpha_dropout
    return op(input, p, training)


def _feature_dropout(input, p, training, inplace):
    op = ops.feature_dropout_ if inplace else ops.feature_dropout
    return op(input, p, training)


@needs("feature_dropout")
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of a (C, L) or (N, C, L) input."""
    if overridden(input):
        return dispatch(dropout1d, (input,), locals())
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    batched = input.dim() == 3
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _feature_dropout(input, p, training, inplace)
    if not batched:
        result = result.squeeze_(0) if inplace else result.squeeze(0)
    return result


@needs("feature_dropout")
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of an (N, C, H, W) input."""
    if overridden(input):
        return dispatch(dropout2d, (input,), locals())
    _check(p)
    if input.dim() not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated and "
            "will result in an error in a future release. To retain the behavior and silence this "
            "warning, please use dropout instead. Note that dropout2d exists to provide "
            "channel-wise dropout on inputs with 2 spatial dimensions, a channel dimension, and "
            "an optional batch dimension (i.e. 3D or 4D inputs).",
            stacklevel=2,
        )
    elif input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return _feature_dropout(input, p, training, inplace)


@needs("feature_dropout")
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of a (C, D, H, W) or (N, C, D, H, W) input."""
    if overridden(input):
        return dispatch(dropout3d, (input,), locals())
    _check(p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated and "
            "will result in an error in a future release. To retain the behavior and silence this "
            "warning, please use dropout instead. Note that dropout3d exists to provide "
            "channel-wise dropout on inputs with 3 spatial dimensions, a channel dimension, and "
            "an optional batch dimension (i.e. 4D or 5D inputs).",
            stacklevel=2,
        )
    batched = input.dim() == 5
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _feature_dropout(input, p, training, inplace)
    if not batched:
        result = result.squeeze_(0) if inplace else result.squeeze(0)
    return result


__all__ = available(globals())
