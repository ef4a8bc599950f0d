"""Reductions and normalisations that leave out the elements where a mask is false."""

from __future__ import annotations

from corten.masked import _ops
from corten.masked._ops import *  # noqa: F403
from corten.masked._ops import (  # noqa: F401
    _canonical_dim, _input_mask, _output_mask, _reduction_identity, _where,
)
from corten.masked.maskedtensor import (
    MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor,
)

__all__ = sorted((
    *_ops.__all__, "MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor",
))
