"""Helpers around tensors: data loading, hooks, checkpointing."""

from __future__ import annotations

import importlib

_SUBMODULES = (
    "benchmark", "checkpoint", "data", "deterministic", "dlpack", "hooks", "mkldnn", "tensorboard",
)


def __getattr__(name):
    if name == "swap_tensors":
        from corten.utils._swap import swap_tensors

        return swap_tensors
    if name in ("generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"):
        from corten.utils import backend_registration

        return getattr(backend_registration, name)
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_SUBMODULES])
