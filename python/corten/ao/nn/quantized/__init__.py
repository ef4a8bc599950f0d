"""Quantized modules: weights and results in 8 bits."""

from . import functional
from .modules import *  # noqa: F401, F403
from .modules import MaxPool2d, __all__  # noqa: F401


def __getattr__(name):
    if name in ("dynamic", "reference"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
