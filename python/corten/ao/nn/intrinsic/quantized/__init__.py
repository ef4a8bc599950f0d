"""Fused quantized modules, which can be imported but not made."""

from corten.ao._absent import classes

from . import dynamic  # noqa: F401

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "LinearLeakyReLU", "LinearReLU", "LinearTanh",
]
__getattr__ = classes(__name__, __all__)
