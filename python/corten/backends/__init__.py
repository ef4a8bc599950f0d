"""What this build computes with."""

from __future__ import annotations

import importlib as _importlib

_SUBMODULES = (
    "cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized",
)


def __getattr__(name):
    if name in _SUBMODULES:
        return _importlib.import_module(f"corten.backends.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBMODULES})
