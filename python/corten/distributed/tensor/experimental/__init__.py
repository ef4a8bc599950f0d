"""Ways around distributed tensors' strictness."""

from __future__ import annotations

import contextlib

from corten.distributed.tensor._api import DTensor
from corten.distributed.tensor.experimental._context_parallel import context_parallel
from corten.distributed.tensor.experimental._func_map import local_map
from corten.distributed.tensor.experimental._register_sharding import register_sharding

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]


@contextlib.contextmanager
def implicit_replication():
    """A block in which plain tensors beside distributed ones are taken for replicated ones."""
    dispatcher = DTensor._op_dispatcher
    before = dispatcher._allow_implicit_replication
    dispatcher._allow_implicit_replication = True
    try:
        yield
    finally:
        dispatcher._allow_implicit_replication = before
