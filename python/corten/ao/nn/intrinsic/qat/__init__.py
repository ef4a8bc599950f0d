"""Fused modules with fake quantization, which can be imported but not made."""

from corten.ao._absent import classes

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearReLU",
]
__getattr__ = classes(__name__, __all__)
