"""Processes that compute together. This build has no way for them to talk: it says so when asked,
and refuses what would need one."""

from __future__ import annotations

from corten.distributed import distributed_c10d
from corten.distributed.distributed_c10d import *  # noqa: F403
from corten.distributed.distributed_c10d import (  # noqa: F401
    __all__ as _names, _all_gather_base, _reduce_scatter_base, default_pg_timeout,
    get_node_local_rank,
)

__all__ = [*_names, "distributed_c10d", "is_available"]


def is_available():
    """Whether processes can be joined."""
    return False
