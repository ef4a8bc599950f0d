"""A mode that writes down which overloads are called."""

import importlib

from module_under_test import torch

_Mode = importlib.import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode


class Log(_Mode):
    """The names of the overloads that are called in a block."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))
