"""The accelerator of this machine, whatever its kind."""

from __future__ import annotations

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count",
    "is_available", "set_device_idx", "set_device_index", "synchronize",
]


def is_available():
    """Whether there is one."""
    return False


def device_count():
    """How many there are."""
    return 0


def current_accelerator(check_available=False):
    """Its device, or ``None``."""
    return None


def _absent(*args, **kwargs):
    """Needs an accelerator."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_index = current_device_idx = set_device_index = set_device_idx = _absent
synchronize = _absent
