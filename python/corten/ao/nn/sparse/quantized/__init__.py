"""Quantized modules of block-sparse weights, which can be imported but not made."""

from corten.ao._absent import classes

from . import dynamic

__all__ = ["Linear", "LinearPackedParams", "dynamic"]
__getattr__ = classes(__name__, ["Linear", "LinearPackedParams"])
