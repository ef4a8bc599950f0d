"""Attention over sequences that are spread over processes."""

from ._attention import (  # noqa: F401
    _context_parallel_shard, _cp_options, _RotateMethod, context_parallel, context_parallel_unshard,
    set_rotate_method,
)
from ._load_balancer import _HeadTailLoadBalancer, _LoadBalancer  # noqa: F401

__all__ = [
    "_HeadTailLoadBalancer", "_LoadBalancer", "_RotateMethod", "_context_parallel_shard", "_cp_options",
    "context_parallel", "context_parallel_unshard", "set_rotate_method",
]
