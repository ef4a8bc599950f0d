"""Linear algebra of the array API standard."""

from __future__ import annotations

import collections
import math

import corten
from corten import _C

from corten.array_api._array import wrapped
from corten.array_api._axes import axes_of, kept_shape, together
from corten.array_api._dtypes import KIND_OF, WIDE_UNSIGNED, as_signed, from_signed
from corten.array_api._elementwise import operands
from corten.array_api._statistics import sum as _sum

_functions = _C._functions
_linalg = _C._linalg

_Eigh = collections.namedtuple("eigh_result", ("eigenvalues", "eigenvectors"))
_Qr = collections.namedtuple("qr_result", ("Q", "R"))
_Slogdet = collections.namedtuple("slogdet_result", ("sign", "logabsdet"))
_Svd = collections.namedtuple("svd_result", ("U", "S", "Vh"))


def _product(name, compute, x1, x2):
    """A product of arrays of the data type that both promote to."""
    one, other = operands(name, x1, x2)
    if one.dtype in WIDE_UNSIGNED:
        return wrapped(from_signed(compute(as_signed(one), as_signed(other)), one.dtype))
    return wrapped(compute(one, other))


def matmul(x1, x2, /):
    """Products of matrices, or of vectors with them."""
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("matmul(): operands must have at least one dimension")
    return _product("matmul", _functions.matmul, x1, x2)


def matrix_transpose(x, /):
    """The transposes of the matrices in the last two axes."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose(): x must have at least 2 dimensions, got {x.ndim}")
    return wrapped(x.transpose(-2, -1))


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over axes of both, the last of one and the first of the other for a number."""
    if isinstance(axes, int):
        axes = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    one_axes, other_axes = (tuple(one) for one in axes)
    one_axes, other_axes = axes_of(one_axes, x1.ndim), axes_of(other_axes, x2.ndim)
    if [x1.shape[one] for one in one_axes] != [x2.shape[one] for one in other_axes]:
        raise ValueError(
            f"tensordot(): axes {one_axes} of shape {tuple(x1.shape)} do not match axes {other_axes} of "
            f"{tuple(x2.shape)}"
        )

    def compute(one, other):
        kept = [size for dim, size in enumerate(one.shape) if dim not in one_axes]
        rest = [size for dim, size in enumerate(other.shape) if dim not in other_axes]
        left = together(one, one_axes)
        right = together(other, other_axes)
        inner = left.shape[-1]
        product = left.reshape(math.prod(kept), inner) @ right.reshape(math.prod(rest), inner).mT
        return product.reshape(kept + rest)

    return _product("tensordot", compute, x1, x2)


def vecdot(x1, x2, /, *, axis=-1):
    """Products of vectors along an axis counted from the last; ``x1`` is conjugated."""
    least = -min(x1.ndim, x2.ndim)
    if not least <= axis < 0:
        raise IndexError(f"vecdot(): axis must be in range of [{least}, -1], but got {axis}")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot(): {x1.shape[axis]} elements along axis {axis} and {x2.shape[axis]}")

    def compute(one, other):
        one, other = one.movedim(axis, -1), other.movedim(axis, -1)
        return _functions.matmul(one.conj().unsqueeze(-2), other.unsqueeze(-1)).squeeze((-2, -1))

    return _product("vecdot", compute, x1, x2)


def cross(x1, x2, /, *, axis=-1):
    """Cross products of vectors with three elements along an axis."""
    least = -min(x1.ndim, x2.ndim)
    if not least <= axis < max(-least, 0):
        raise IndexError(f"cross(): axis must be in range of [{least}, {-least - 1}], but got {axis}")
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross(): vectors have {x1.shape[axis]} and {x2.shape[axis]} elements, not 3")

    def compute(one, other):
        one, other = _functions.broadcast_tensors([one, other])
        return _linalg.cross(one, other, dim=axis)

    return _product("cross", compute, x1, x2)


def outer(x1, x2, /):
    """The products of all elements of one vector with all of another."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError("outer(): operands must have one dimension")
    one, other = operands("outer", x1, x2)
    return wrapped(one.unsqueeze(1) * other)


def diagonal(x, /, *, offset=0):
    """The diagonals of the matrices in the last two axes."""
    return wrapped(_functions.diagonal(x, _within(x, offset), -2, -1))


def _within(x, offset):
    """The number of a diagonal, of one beyond the matrix the nearest, which is empty."""
    return max(-x.shape[-2], min(x.shape[-1], offset))


def trace(x, /, *, offset=0, dtype=None):
    """Sums of the diagonals of the matrices in the last two axes."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def cholesky(x, /, *, upper=False):
    """The triangular factors of positive definite matrices."""
    return wrapped(_linalg.cholesky(x, upper=upper))


def det(x, /):
    """The determinants."""
    return wrapped(_linalg.det(x))


def slogdet(x, /):
    """The signs of the determinants and the logarithms of their absolute values."""
    return _Slogdet(*(wrapped(one) for one in _linalg.slogdet(x)))


def eigh(x, /):
    """The eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return _Eigh(*(wrapped(one) for one in _linalg.eigh(x)))


def eigvalsh(x, /):
    """The eigenvalues of symmetric or Hermitian matrices."""
    return wrapped(_linalg.eigvalsh(x))


def inv(x, /):
    """The inverses."""
    return wrapped(_linalg.inv(x))


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """Norms of the matrices in the last two axes."""
    if ord is None:
        ord = "fro"
    return wrapped(_linalg.matrix_norm(x, ord, dim=(-2, -1), keepdim=keepdims))


def matrix_power(x, n, /):
    """Powers of square matrices, of their inverses for negative ``n``."""
    return wrapped(_linalg.matrix_power(x, n))


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are greater than ``rtol`` times the greatest."""
    if x.ndim < 2:
        raise ValueError(f"matrix_rank(): x must have at least 2 dimensions, got {x.ndim}")
    if x.numel() == 0:
        return wrapped(_functions.zeros(x.shape[:-2], dtype=corten.int64, device=x.device))
    values = _linalg.svdvals(x)
    return wrapped((values > values.amax(-1, True) * _tolerance(x, rtol)).sum(-1))


def _tolerance(x, rtol):
    """The tolerance given, for every matrix its own, or one that suits sizes and data type."""
    if rtol is None:
        return max(x.shape[-2:]) * _C.finfo(x.dtype).eps
    return rtol.unsqueeze(-1) if isinstance(rtol, corten.Tensor) else rtol


def pinv(x, /, *, rtol=None):
    """The pseudoinverses; singular values up to ``rtol`` times the greatest count as zero."""
    if isinstance(rtol, corten.Tensor):
        rtol = rtol.to(x.real.dtype if x.is_complex() else x.dtype)
    elif rtol is None:
        rtol = _tolerance(x, None)
    return wrapped(_linalg.pinv(x, rtol=rtol))


def qr(x, /, *, mode="reduced"):
    """Orthogonal and triangular factors, square ones for ``mode="complete"``."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr(): mode is 'reduced' or 'complete', got {mode!r}")
    return _Qr(*(wrapped(one) for one in _linalg.qr(x, mode)))


def solve(x1, x2, /):
    """What ``x1`` takes to ``x2``, a vector where it has one dimension, else matrices."""
    one, other = operands("solve", x1, x2)
    if other.ndim == 1:
        return wrapped(_linalg.solve(one, other.unsqueeze(-1)).squeeze(-1))
    shape = corten.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    one, other = one.broadcast_to(shape + one.shape[-2:]), other.broadcast_to(shape + other.shape[-2:])
    return wrapped(_linalg.solve(one, other))


def svd(x, /, *, full_matrices=True):
    """Singular vectors and values."""
    return _Svd(*(wrapped(one) for one in _linalg.svd(x, full_matrices)))


def svdvals(x, /):
    """Singular values."""
    return wrapped(_linalg.svdvals(x))


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """Norms of the vectors along axes, of all elements for ``None``."""
    axes = axes_of(axis, x.ndim)
    if KIND_OF.get(x.dtype) not in ("real floating", "complex floating"):
        x = x.to(corten.get_default_dtype())
    if not axes:
        size = _functions.abs(x)
        return wrapped((size != 0).to(size.dtype) if ord == 0 else size)
    vectors = together(x, axes)
    if vectors.shape[-1] == 0 and (-math.inf < ord < 0 or ord == math.inf):
        # The power of a sum that is zero, and the greatest of no sizes.
        real = vectors.real.dtype if vectors.is_complex() else vectors.dtype
        value = math.inf if ord < 0 else 0.0
        result = _functions.full(vectors.shape[:-1], value, dtype=real, device=x.device)
    else:
        result = _linalg.vector_norm(vectors, ord, dim=-1)
    return wrapped(result.reshape(kept_shape(x.shape, axes)) if keepdims else result)


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]
