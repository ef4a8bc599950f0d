"""Functions that make masked tensors."""

from __future__ import annotations

from .core import MaskedTensor

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data, mask, requires_grad=False):
    """A copy of ``data``, a leaf, of which ``mask`` says which elements count."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """``data`` under a mask, with its history: gradients reach the elements that count."""
    return MaskedTensor._from_values(data, mask)
