"""Quantization. The names can be imported; what needs quantized tensors raises and says so."""

from . import nn, quantization

__all__ = ["nn", "quantization"]
