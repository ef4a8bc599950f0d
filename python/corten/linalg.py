"""Functions of ``linalg``: those of the registry that have their home here."""

from __future__ import annotations

from corten import _C
from corten._overriding import overridable

_PREFIX = "linalg_"


def _publish(names):
    for name, function in vars(_C._linalg).items():
        if not name.startswith(("_", _PREFIX)):
            names[name] = function
    return sorted(name for name in vars(_C._linalg) if not name.startswith(("_", _PREFIX)))


__all__ = _publish(globals())

LinAlgError = _C._LinAlgError


@overridable
def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of the matrices in the last two dimensions, or in two others."""
    return _C._functions.diagonal(A, offset, dim1, dim2)


__all__ += ["LinAlgError", "diagonal"]
#: Paragraphs for the documentation of functions.
common_notes = {
    "experimental_warning": "", "sync_note": "", "sync_note_ex": "", "sync_note_has_ex": "",
}
