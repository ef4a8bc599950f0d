"""Jagged tensors by the place that files and other libraries know."""

from __future__ import annotations

from corten.nested._jagged import NestedTensor, rebuilt
from corten.utils.weak import WeakTensorKeyDictionary

__all__ = ["NestedTensor", "jagged_from_list"]


def _rebuild_njt(constructor_kwargs):
    """The tensor of the parts that a file has."""
    return rebuilt(constructor_kwargs)


def jagged_from_list(tensors, offsets, dtype=None, device=None):
    """The nested tensor of tensors, with their history, and its offsets."""
    from corten.nested import as_nested_tensor, nested_tensor_from_jagged

    import corten

    made = as_nested_tensor(tensors, dtype=dtype, device=device, layout=corten.jagged)
    if offsets is not None:
        made = nested_tensor_from_jagged(made._values, offsets, jagged_dim=made._ragged_idx)
    return made, made.offsets()

#: Symbols of ragged sizes by their offsets: none, as sizes are numbers.
_tensor_symint_registry = WeakTensorKeyDictionary()
