"""Quantisation of graphs: fusion, observers, conversion to quantise and dequantise pairs, and lowering."""

from .convert import convert
from .fuse import fuse
from .prepare import prepare

__all__ = ["convert", "fuse", "prepare"]
