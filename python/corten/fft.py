"""Functions of ``fft``: those of the registry that have their home here."""

from __future__ import annotations

from corten import _C
from corten._C import Tensor as Tensor

_PREFIX = "fft_"


def _publish(names):
    for name, function in vars(_C._fft).items():
        if not name.startswith(("_", _PREFIX)):
            names[name] = function
    return sorted(name for name in vars(_C._fft) if not name.startswith(("_", _PREFIX)))


__all__ = _publish(globals())
