"""Marks functions and classes that PyTorch deprecates."""

from __future__ import annotations

import functools
import warnings


def deprecated(message, category=DeprecationWarning):
    """A decorator: calls of the function, or the making of the class's own instances, warn."""

    def warn():
        warnings.warn(message, category=category, stacklevel=3)

    def mark(one):
        one.__deprecated__ = message
        if isinstance(one, type):
            make = one.__new__

            def __new__(cls, *args, **kwargs):
                if cls is one:
                    warn()
                return make(cls, *args, **kwargs)

            one.__new__ = staticmethod(__new__)
            return one

        @functools.wraps(one)
        def call(*args, **kwargs):
            warn()
            return one(*args, **kwargs)

        return call

    return mark
