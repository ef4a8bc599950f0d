"""Forward differentiation: dual tensors carry a tangent through everything that is computed."""

from __future__ import annotations

from typing import NamedTuple, Optional

import corten
from corten import _C

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]

_open = []
#: The number of the innermost level that is open, -1 if none is.
_current_level = -1


def enter_dual_level():
    """Opens a level, at which tensors can have tangents. Use :class:`dual_level` instead."""
    global _current_level
    _open.append(_C._enter_dual_level())
    _current_level = len(_open) - 1
    return _current_level


def exit_dual_level(*, level=None):
    """Closes the level; all its tangents are gone."""
    global _current_level
    if level is not None and level != len(_open) - 1:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            "not supported."
        )
    if not _open:
        raise RuntimeError("Trying to exit a forward AD level but none is open.")
    _C._exit_dual_level(_open.pop())
    _current_level = len(_open) - 1


class dual_level:
    """A context with a level of its own."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exception):
        exit_dual_level()


class UnpackedDualTensor(NamedTuple):
    """A dual tensor taken apart."""

    primal: corten.Tensor
    tangent: Optional[corten.Tensor]


def make_dual(tensor, tangent, *, level=None):
    """A view of a tensor that carries a tangent of the same shape."""
    return _C._make_dual(tensor, tangent)


def unpack_dual(tensor, *, level=None):
    """The tensor without its tangent, and the tangent, ``None`` where it has none."""
    if level is None and not _open:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_C._unpack_dual(tensor))
