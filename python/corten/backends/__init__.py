"""What this build computes with."""

from __future__ import annotations

import importlib as _importlib
import sys as _sys
import types as _types

_SUBMODULES = (
    "cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized",
)


def __getattr__(name):
    if name in _SUBMODULES:
        return _importlib.import_module(f"corten.backends.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBMODULES})


class _Backends(_types.ModuleType):
    @property
    def fp32_precision(self):
        """The precision of float32 for all operators on GPUs that have none of their own."""
        from corten.backends._cublas import precision

        return precision("generic")

    @fp32_precision.setter
    def fp32_precision(self, value):
        from corten.backends._cublas import set_precision

        set_precision("generic", value)


_sys.modules[__name__].__class__ = _Backends
