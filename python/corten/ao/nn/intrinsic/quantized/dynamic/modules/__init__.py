"""Fused dynamically quantized modules."""

from .linear_relu import LinearReLU

__all__ = ["LinearReLU"]
