"""Modules with fake quantization of their weights, for dynamic quantization."""

from .linear import Linear

__all__ = ["Linear"]
