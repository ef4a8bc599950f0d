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


_solve_triangular = _C._linalg.linalg_solve_triangular


@overridable
def solve_triangular(A, B, *, upper, left=True, unitriangular=False, out=None):
    """The solution of a system whose matrix is triangular, in the precision of the matrix."""
    if isinstance(A, _C.Tensor) and isinstance(B, _C.Tensor) and A.dtype != B.dtype:
        floats = (_C.float32, _C.float64)
        if A.dtype in floats and B.dtype in floats:
            B = B.to(A.dtype)
    options = {} if out is None else {"out": out}
    return _solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular, **options)


__all__ += ["LinAlgError", "diagonal"]
#: Paragraphs for the documentation of functions.
common_notes = {
    "experimental_warning": "", "sync_note": "", "sync_note_ex": "", "sync_note_has_ex": "",
}
