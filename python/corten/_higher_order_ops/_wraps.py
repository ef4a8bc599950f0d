"""Operators that run a graph under a mode."""

from __future__ import annotations

import corten
from corten._ops import HigherOrderOperator

__all__ = ["wrap_with_autocast", "wrap_with_set_grad_enabled"]


class _Wrap(HigherOrderOperator):
    """An operator whose graph is a part of the program."""

    def record(self, recorder, *args, **kwargs):
        """Its calls are recorded as those of the program."""
        return self.run(*args, **kwargs)


class WrapWithSetGradEnabled(_Wrap):
    """``wrap_with_set_grad_enabled``: a graph with gradients on or off."""

    def __init__(self):
        super().__init__("wrap_with_set_grad_enabled")

    def run(self, enable_grad, wrapped_func, *args, **kwargs):
        """The results of the graph."""
        with corten.set_grad_enabled(enable_grad):
            return wrapped_func(*args, **kwargs)


class WrapWithAutocast(_Wrap):
    """``wrap_with_autocast``: a graph under casts of operands."""

    def __init__(self):
        super().__init__("wrap_with_autocast")

    def run(self, device_type, dtype, enabled, cache_enabled, wrapped_func, *args, **kwargs):
        """The results of the graph."""
        with corten.autocast(device_type, dtype, enabled, cache_enabled):
            return wrapped_func(*args, **kwargs)


wrap_with_set_grad_enabled = WrapWithSetGradEnabled()
wrap_with_autocast = WrapWithAutocast()
