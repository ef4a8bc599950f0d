"""Modules of sparse weights."""

from . import quantized

__all__ = ["quantized"]
