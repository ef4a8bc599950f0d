"""Dynamically quantized modules of block-sparse weights, which can be imported but not made."""

from corten.ao._absent import classes

__all__ = ["Linear"]
__getattr__ = classes(__name__, __all__)
