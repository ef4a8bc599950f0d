"""Where functions and classes say that they are from: the module that people import them from."""

from __future__ import annotations

import sys
import types

__all__ = ["adopt"]


def adopt(home, names):
    """Gives what a module has from private ones the name of this module, as pickles and messages use it."""
    space = vars(sys.modules[home])
    root = home.partition(".")[0]
    for name in names:
        value = space.get(name)
        if isinstance(value, (type, types.FunctionType)) and value.__module__.partition(".")[0] == root:
            value.__module__ = home
