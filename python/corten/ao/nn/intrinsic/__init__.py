"""Fused modules: chains of modules that are observed and quantized as one."""

from .modules import *  # noqa: F401, F403
from .modules import __all__
from .modules.fused import _FusedModule  # noqa: F401


def __getattr__(name):
    if name in ("qat", "quantized"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
