"""Padding modules."""

from __future__ import annotations

from corten.nn import functional as F

from .module import Module
from .utils import _ntuple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]


class _PadNd(Module):
    """`padding` is one width for all sides, or (left, right, top, bottom, …)."""

    __constants__ = ["padding"]
    _rank = 0
    _mode = "constant"

    def __init__(self, padding):
        super().__init__()
        self.padding = _ntuple(2 * self._rank)(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with ``value``."""

    _rank = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with ``value``."""

    _rank = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with ``value``."""

    _rank = 3


class _ZeroPad:
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pads the last dimension with zeros."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pads the last two dimensions with zeros."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pads the last three dimensions with zeros."""


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input):
        ranks = (self._rank + 1, self._rank + 2)
        if input.dim() not in ranks:
            raise ValueError(f"expected {ranks[0]}D or {ranks[1]}D input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with its other end."""

    _rank = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions with their other ends."""

    _rank = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions with their other ends."""

    _rank = 3


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension by reflection at its ends."""

    _rank = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions by reflection at their ends."""

    _rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions by reflection at their ends."""

    _rank = 3


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with its end values."""

    _rank = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions with their end values."""

    _rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions with their end values."""

    _rank = 3
