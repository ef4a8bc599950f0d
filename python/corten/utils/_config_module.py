"""Modules of settings: ``patch`` changes some for a ``with`` block or a function."""

from __future__ import annotations

import contextlib
import functools
import sys
import types

__all__ = ["ConfigModule", "ContextDecorator", "install_config_module"]


class ContextDecorator(contextlib.ContextDecorator):
    """Changes settings while a block or a function runs."""

    def __init__(self, module, changes):
        self._module, self._changes, self._before = module, changes, []

    def __enter__(self):
        before = {name: getattr(self._module, name) for name in self._changes}
        self._before.append(before)
        for name, value in self._changes.items():
            setattr(self._module, name, value)
        return self

    def __exit__(self, kind, value, traceback):
        for name, kept in self._before.pop().items():
            setattr(self._module, name, kept)

    def __call__(self, function):
        if isinstance(function, type):
            raise TypeError("settings are changed for functions, not for classes")
        return super().__call__(function)


class ConfigModule(types.ModuleType):
    """The class of modules of settings. What is set must be a setting that there is."""

    def __setattr__(self, name, value):
        if not name.startswith("__") and not isinstance(value, types.ModuleType) and not hasattr(self, name):
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        super().__setattr__(name, value)

    def patch(self, arg1=None, arg2=None, **kwargs):
        """Changes settings for a block or a function: ``patch("name", value)``, ``patch({"name": value})`` or
        ``patch(name=value)``.

        Raises:
            AttributeError: There is no such setting.
        """
        changes = kwargs
        if isinstance(arg1, dict):
            changes = arg1
        elif arg1 is not None:
            changes = {arg1: arg2}
        for name in changes:
            if not hasattr(functools.reduce(getattr, name.split(".")[:-1], self), name.split(".")[-1]):
                raise AttributeError(f"{self.__name__}.{name} does not exist")
        return ContextDecorator(self, dict(changes))

    def shallow_copy_dict(self):
        """All settings by name."""
        return {
            name: value for name, value in vars(self).items()
            if not name.startswith("_") and not isinstance(value, types.ModuleType)
        }

    get_config_copy = to_dict = shallow_copy_dict

    def get_hash(self):
        """Bytes that are others where the settings are."""
        import hashlib

        return hashlib.md5(repr(sorted(self.shallow_copy_dict().items())).encode()).digest()

    def codegen_config(self):
        """Settings as statements."""
        lines = (f"{self.__name__}.{name} = {value!r}" for name, value in self.to_dict().items())
        return "\n".join(lines)


def install_config_module(module):
    """Makes a module one of settings."""
    module = sys.modules[module] if isinstance(module, str) else module
    module.__class__ = ConfigModule
