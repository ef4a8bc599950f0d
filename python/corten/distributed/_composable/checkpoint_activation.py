"""Activation checkpointing of a module in place."""

from __future__ import annotations

import functools

from corten.distributed._composable_state import _State
from corten.utils.checkpoint import checkpoint as _run_checkpointed

from .contract import contract


class _CheckpointState(_State):
    """Nothing is kept."""


@contract(_CheckpointState)
def checkpoint(module, **kwargs):
    """Lets a module not keep what its backward needs: it runs once more then.

    The keywords are those of :func:`corten.utils.checkpoint.checkpoint`.

    Raises:
        NotImplementedError: ``use_reentrant=True``.
        ValueError: A keyword is not known.
    """
    if kwargs.pop("use_reentrant", False):
        raise NotImplementedError(
            "use_reentrant=True is not supported in composable checkpoint. "
            "Please use torch.utils.checkpoint.checkpoint instead."
        )
    known = {"preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}
    if set(kwargs) - known:
        raise ValueError(f"Unexpected keyword arguments: {','.join(sorted(set(kwargs) - known))}")
    forward = module.forward

    @functools.wraps(forward)
    def checkpointed(*args, **call_kwargs):
        return _run_checkpointed(forward, *args, use_reentrant=False, **kwargs, **call_kwargs)

    module.forward = checkpointed
    return module
