"""Fused modules, which can be imported but not made."""

from corten.ao._absent import classes

from . import qat, quantized  # noqa: F401

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvBn1d", "ConvBn2d", "ConvBn3d",
    "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d",
    "LinearBn1d", "LinearLeakyReLU", "LinearReLU", "LinearTanh",
]
__getattr__ = classes(__name__, __all__)
