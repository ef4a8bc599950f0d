"""A function as a module."""

from __future__ import annotations

from corten.nn import Module

__all__ = []


class _WrapperModule(Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args, **kwargs):
        return self.f(*args, **kwargs)
