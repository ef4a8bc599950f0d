"""Whether operators are recorded: context managers and decorators."""

from __future__ import annotations

from corten import _C
from corten._C import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401

__all__ = [
    "no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "set_multithreading_enabled",
]


class set_multithreading_enabled:
    """Whether backward passes may use several threads."""

    def __init__(self, mode):
        self.prev = _C._set_multithreading_enabled(mode)
        self.mode = mode

    def __enter__(self):
        pass

    def __exit__(self, kind, value, traceback):
        _C._set_multithreading_enabled(self.prev)

    def clone(self):
        """Another one with the same mode."""
        return type(self)(self.mode)


class _force_original_view_tracking:
    """Views are tracked as they are made; there is no other way here."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        pass

    def __exit__(self, kind, value, traceback):
        pass
