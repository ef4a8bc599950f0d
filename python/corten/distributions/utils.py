"""What distributions share: broadcast parameters, probabilities and their logarithms."""

from __future__ import annotations

import functools
from numbers import Number

import corten
from corten.overrides import is_tensor_like

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs",
    "probs_to_logits", "tril_matrix_to_vec", "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values):
    """Tensors of one shape out of numbers and tensors; numbers take a tensor's dtype and device.

    Raises:
        ValueError: A value is neither a number nor a tensor.
    """
    if not all(is_tensor_like(value) or isinstance(value, Number) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    if all(is_tensor_like(value) for value in values):
        return corten.broadcast_tensors(*values)
    options = {"dtype": corten.get_default_dtype()}
    for value in values:
        if isinstance(value, corten.Tensor):
            options = {"dtype": value.dtype, "device": value.device}
            break
    made = [v if is_tensor_like(v) else corten.tensor(v, **options) for v in values]
    return corten.broadcast_tensors(*made)


def is_one_number(*values):
    """Whether all the parameters are Python numbers, so that the batch shape is empty."""
    return all(isinstance(value, Number) for value in values)


def _standard_normal(shape, dtype, device):
    """Standard normal numbers."""
    zeros = corten.zeros(shape, dtype=dtype, device=device)
    return corten.normal(zeros, corten.ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value, dim):
    """The sum over the last ``dim`` dimensions."""
    if dim == 0:
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits, is_binary=False):
    """Probabilities of logarithms of odds, or of unnormalised logarithms along the last dimension."""
    return corten.sigmoid(logits) if is_binary else corten.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Probabilities at least one epsilon of their dtype away from 0 and 1."""
    eps = corten.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """The inverse of :func:`logits_to_probs`."""
    clamped = clamp_probs(probs)
    return corten.log(clamped) - corten.log1p(-clamped) if is_binary else corten.log(clamped)


class lazy_property:
    """An attribute that is computed, with gradients, when it is first read."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance, obj_type=None):
        if instance is None:
            return _LazyPropertyOfClass(self.wrapped)
        with corten.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _LazyPropertyOfClass(property):
    """What the class shows for a lazy attribute, for documentation."""


def tril_matrix_to_vec(mat, diag=0):
    """The entries on and below a diagonal of ``(..., n, n)`` matrices, row by row."""
    size = mat.shape[-1]
    if diag < -size or diag >= size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = _lower_places(size, diag, mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec, diag=0):
    """``(..., n, n)`` matrices that are zero above a diagonal, of their other entries.

    Raises:
        ValueError: No matrix has that many entries.
    """
    length = vec.shape[-1]
    size = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(size) - size > corten.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    size = round(size)
    rows, columns = _lower_places(size, diag, vec.device)
    places = corten.zeros(size, size, dtype=corten.int64, device=vec.device)
    places[rows, columns] = corten.arange(length, device=vec.device)
    kept = corten.ones(size, size, dtype=corten.bool, device=vec.device).tril(diag)
    full = vec[..., places.reshape(-1)].reshape(vec.shape[:-1] + (size, size))
    return corten.where(kept, full, full.new_zeros(()))


def _lower_places(size, diag, device):
    indices = corten.tril_indices(size, size, diag, device=device)
    return indices[0], indices[1]
