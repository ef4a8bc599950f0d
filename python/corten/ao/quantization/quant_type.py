"""The ways in which a layer is quantised."""

from __future__ import annotations

import enum

__all__ = ["QuantType"]


class QuantType(enum.IntEnum):
    """How activations and weights of a layer are quantised."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


_quant_type_to_str = {kind: kind.name.lower() for kind in QuantType}


def _get_quant_type_to_str(quant_type):
    return _quant_type_to_str[quant_type]


def _quant_type_from_str(name):
    for quant_type, word in _quant_type_to_str.items():
        if word == name:
            return quant_type
    raise ValueError(f"Unknown QuantType name '{name}'")
