"""Modules with fake quantization of their weights, for training."""

from .modules import *  # noqa: F401, F403
from .modules import __all__  # noqa: F401


def __getattr__(name):
    if name == "dynamic":
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
