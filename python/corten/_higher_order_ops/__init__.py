"""Operators that take functions."""

from corten._higher_order_ops import _wraps  # noqa: F401
from corten._higher_order_ops.associative_scan import associative_scan
from corten._higher_order_ops.cond import cond
from corten._higher_order_ops.map import map, map_impl
from corten._higher_order_ops.out_dtype import out_dtype
from corten._higher_order_ops.scan import scan
from corten._higher_order_ops.while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "map_impl", "out_dtype", "scan", "while_loop"]
