"""Fused dynamically quantized modules, which can be imported but not made."""

from corten.ao._absent import classes

__all__ = [
    "LinearReLU",
]
__getattr__ = classes(__name__, __all__)
