"""Modules with fake quantization, for dynamic quantization, which can be imported but not made."""

from corten.ao._absent import classes

__all__ = [
    "Linear",
]
__getattr__ = classes(__name__, __all__)
