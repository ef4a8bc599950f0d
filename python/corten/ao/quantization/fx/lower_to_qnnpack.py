"""Lowering to the kernels of QNNPACK, which are those of this package."""

from __future__ import annotations

from ._lower_to_native_backend import _lower_to_native_backend

__all__ = ["lower_to_qnnpack"]


def lower_to_qnnpack(model, qconfig_map, node_name_to_scope):
    """The reference graph with quantised modules and operators."""
    return _lower_to_native_backend(model, qconfig_map, node_name_to_scope)
