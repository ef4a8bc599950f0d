"""Neural networks: modules, parameters, functions, initialisation."""

from __future__ import annotations

import importlib

from . import functional, grad, init, parameter, utils  # noqa: F401
from .modules import *  # noqa: F401, F403
from .modules import __all__ as _modules
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *_modules, "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter",
    "factory_kwargs",
]

# Programs reach these by both names.
functional.grad = grad


def factory_kwargs(kwargs):
    """``device``, ``dtype`` and ``memory_format`` out of a module's keyword arguments."""
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    expected = simple | {"factory_kwargs"}
    if not kwargs.keys() <= expected:
        raise TypeError(f"unexpected kwargs {kwargs.keys() - expected}")
    result = dict(kwargs.get("factory_kwargs", {}))
    for key in simple & kwargs.keys():
        if key in result:
            raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
        result[key] = kwargs[key]
    return result


def __getattr__(name):
    if name == "DataParallel":
        return importlib.import_module(f"{__name__}.parallel").DataParallel
    if name in (
        "attention", "common_types", "intrinsic", "parallel", "qat", "quantizable", "quantized",
    ):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
