"""Batches in page-locked memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import corten


def pin_memory(data, device=None):
    """The structure with its tensors pinned."""
    if isinstance(data, corten.Tensor):
        return data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return type(data)({key: pin_memory(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value) for value in data))
    if isinstance(data, Sequence):
        return type(data)([pin_memory(value) for value in data])
    return data
