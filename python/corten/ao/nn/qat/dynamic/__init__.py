"""Modules with fake quantization of their weights, whose inputs will be quantized at run time."""

from .modules import *  # noqa: F401, F403
from .modules import __all__  # noqa: F401
