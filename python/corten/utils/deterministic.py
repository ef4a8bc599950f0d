"""What ``use_deterministic_algorithms(True)`` does beyond the kernels."""

from __future__ import annotations

import sys
import types

from corten import _C


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """Whether new memory is filled while the same results are asked for in every run: with
        NaN, the greatest integer or True."""
        return _C._get_deterministic_fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        _C._set_deterministic_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
