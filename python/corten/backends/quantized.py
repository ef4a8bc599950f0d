"""Engines of quantised operators: in which order of operations sums are scaled.

``fbgemm``, ``qnnpack`` and ``x86`` scale as FBGEMM does, ``onednn`` as oneDNN; of convolutions ``x86`` takes oneDNN's
order where the zero points of the weight are 0 and there are no more than 100 groups. All use the same kernels.
"""

from __future__ import annotations

import sys
import types

#: The engines that can be chosen.
supported_engines = ["qnnpack", "none", "onednn", "x86", "fbgemm"]


class _Module(types.ModuleType):
    """The module, whose engine is checked when it is set."""

    _engine = "x86"

    @property
    def engine(self):
        """The engine by which weights are packed."""
        return self._engine

    @engine.setter
    def engine(self, name):
        if name not in supported_engines:
            raise RuntimeError(f"quantized engine {name} is not supported")
        type(self)._engine = name


sys.modules[__name__].__class__ = _Module
