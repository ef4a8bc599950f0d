"""The classes of results with several named values: ``return_types.max`` has ``values`` and
``indices``."""

from __future__ import annotations

from corten import _C


def __getattr__(name):
    fields = None if name.startswith("__") else _C._result_fields(name)
    if not fields:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = _C._result_type(name, fields)
    return found


def __dir__():
    return sorted({*globals(), *_C._result_names()})
