"""Tensors that hide a dimension, by PyTorch's names: the module ``corten._C._functorch``."""

from __future__ import annotations

from corten import Tensor, _C
from corten._C import (  # noqa: F401
    _add_batch_dim, _vmap_decrement_nesting, _vmap_increment_nesting,
)


def _remove_batch_dim(tensor, level, batch_size, out_dim):
    """The tensor of all items, which come along ``out_dim``."""
    return _C._remove_batch_dim(tensor, level, batch_size, out_dim)


def is_batchedtensor(tensor):
    """Whether a tensor hides a dimension."""
    return isinstance(tensor, Tensor) and _C._is_batched(tensor)


def maybe_get_level(tensor):
    """The level of ``vmap`` that a tensor belongs to, −1 without one."""
    level = _C._batch_level(tensor) if is_batchedtensor(tensor) else None
    return -1 if level is None else level


def maybe_get_bdim(tensor):
    """The dimension that a tensor hides, −1 where it hides none."""
    if not is_batchedtensor(tensor):
        return -1
    return _C._split_batch(tensor, _C._batch_level(tensor))[1]


def get_unwrapped(tensor):
    """The tensor of all items of one that hides a dimension."""
    if not is_batchedtensor(tensor):
        raise RuntimeError("get_unwrapped: the tensor hides no dimension")
    return _C._split_batch(tensor, _C._batch_level(tensor))[0]


def is_functorch_wrapped_tensor(tensor):
    """Whether a tensor belongs to a function transform."""
    return is_batchedtensor(tensor)


def is_gradtrackingtensor(tensor):
    """Whether a tensor stands for one whose derivative is taken: here such tensors are plain."""
    return False


def is_functionaltensor(tensor):
    """Whether a tensor stands for one whose writes are replaced: there is none."""
    return False


def is_legacy_batchedtensor(tensor):
    """Whether a tensor hides a dimension in the way before this one: there is none."""
    return False


def peek_interpreter_stack():
    """The innermost transform of those that PyTorch keeps a stack of: there is none."""
    return None
