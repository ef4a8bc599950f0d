"""Quantized modules that take float inputs and quantize them by their own range."""

from .modules import *  # noqa: F401, F403
from .modules import __all__  # noqa: F401
