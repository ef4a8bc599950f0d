"""Whether operators are recorded: context managers and decorators."""

from __future__ import annotations

import threading

from corten import _C
from corten._C import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401

__all__ = [
    "enforce_grad_layout_policy", "no_grad", "enable_grad", "set_grad_enabled", "inference_mode",
    "set_multithreading_enabled",
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


def is_multithreading_enabled():
    """Whether backward passes may use several threads."""
    enabled = _C._set_multithreading_enabled(True)
    _C._set_multithreading_enabled(enabled)
    return enabled


class _LayoutPolicy(threading.local):
    enforced = True


_layout_policy = _LayoutPolicy()


class enforce_grad_layout_policy:
    """Whether gradients must have the strides of their leaves, in this thread. Without it they may
    have others; here they keep those of their leaves."""

    def __init__(self, enable=True):
        self.prev = _layout_policy.enforced
        _layout_policy.enforced = self.mode = enable

    def __enter__(self):
        pass

    def __exit__(self, kind, value, traceback):
        _layout_policy.enforced = self.prev

    def clone(self):
        """Another one with the same setting."""
        return type(self)(self.mode)


class _force_original_view_tracking:
    """Views are tracked as they are made; there is no other way here."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        pass

    def __exit__(self, kind, value, traceback):
        pass
