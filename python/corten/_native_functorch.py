"""``torch._C._functorch``: questions about tensors of batches, and how they are made."""

from __future__ import annotations

from corten import _C
from corten._C import (  # noqa: F401
    _add_batch_dim, _remove_batch_dim, _vmap_decrement_nesting, _vmap_increment_nesting,
)


def is_batchedtensor(tensor):
    """Whether a tensor stands for the items of a batch."""
    return _C._is_batched(tensor)


is_functorch_wrapped_tensor = is_batchedtensor


def is_gradtrackingtensor(tensor):
    """Whether a tensor is one of a level of derivatives. Levels are kept by graphs here."""
    return False


is_functionaltensor = is_legacy_batchedtensor = is_gradtrackingtensor


def maybe_get_level(tensor):
    """The level of the batch that a tensor stands for, -1 for others."""
    return _C._batch_level(tensor) if _C._is_batched(tensor) else -1


def peek_interpreter_stack():
    """The innermost transform, of which only batches have one."""
    return None
