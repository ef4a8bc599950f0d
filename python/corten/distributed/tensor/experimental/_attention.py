"""The older home of the names of :mod:`_context_parallel`."""

from ._context_parallel import (  # noqa: F401
    _context_parallel_shard, _cp_options, _HeadTailLoadBalancer, _LoadBalancer, _RotateMethod, context_parallel,
    context_parallel_unshard, set_rotate_method,
)

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]
