"""Calls of functions in other processes: what decorates functions that need them."""

from __future__ import annotations

import functools

__all__ = []

_current_agent = None


def _is_current_rpc_agent_set():
    return False


def _require_initialized(func):
    """Lets a function be called only after processes were joined, which they cannot be."""

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")

    return wrapper
