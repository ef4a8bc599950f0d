"""What each thread wants cast, by kind of device. That of the CPU and of GPUs is acted on."""

from __future__ import annotations

import threading
import warnings

from corten import _C

_DRIVEN = ("cpu", "cuda")
_DEFAULT = {"cpu": _C.bfloat16, "xla": _C.bfloat16, "hpu": _C.bfloat16}


class _Others(threading.local):
    """The wishes for devices that this build does not drive."""

    def __init__(self):
        self.enabled, self.dtypes = set(), {}


_others = _Others()


def _kind(device_type):
    return _C.device(device_type).type


def is_autocast_enabled(device_type="cuda"):
    """Whether operators on such devices cast their arguments."""
    kind = _kind(device_type)
    return _C._autocast_enabled(kind) if kind in _DRIVEN else kind in _others.enabled


def set_autocast_enabled(device_type, enabled=None):
    """Turns casts on such devices on or off; with one argument, those on GPUs."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    kind = _kind(device_type)
    if kind in _DRIVEN:
        _C._set_autocast_enabled(kind, enabled)
    elif enabled:
        _others.enabled.add(kind)
    else:
        _others.enabled.discard(kind)


def get_autocast_dtype(device_type):
    """The dtype that is cast to."""
    kind = _kind(device_type)
    if kind in _DRIVEN:
        return _C._autocast_dtype(kind)
    return _others.dtypes.get(kind, _DEFAULT.get(kind, _C.float16))


def set_autocast_dtype(device_type, dtype):
    """Sets the dtype that is cast to."""
    kind = _kind(device_type)
    if kind in _DRIVEN:
        _C._set_autocast_dtype(kind, dtype)
    else:
        _others.dtypes[kind] = dtype


def _deprecated(name, kind, shown, function, new):
    def get(*args):
        warnings.warn(
            f"torch.{name}() is deprecated. Please use torch.{new}('{shown}'"
            f"{', ...' if args else ''}) instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return function(kind, *args)

    get.__name__ = get.__qualname__ = name
    get.__doc__ = f"Deprecated: ``torch.{new}`` with the kind of device."
    return get


def _old_names():
    names = {}
    for short, kind in (("cpu", "cpu"), ("gpu", "cuda"), ("ipu", "ipu"), ("xla", "xla")):
        for verb in ("get", "set"):
            name = f"{verb}_autocast_{short}_dtype"
            function = get_autocast_dtype if verb == "get" else set_autocast_dtype
            names[name] = _deprecated(name, kind, kind, function, f"{verb}_autocast_dtype")
        if short == "gpu":
            continue
        for name, function, new in (
            (f"is_autocast_{short}_enabled", is_autocast_enabled, "is_autocast_enabled"),
            (f"set_autocast_{short}_enabled", set_autocast_enabled, "set_autocast_enabled"),
        ):
            names[name] = _deprecated(name, kind, kind, function, new)
    return names


globals().update(_old_names())
