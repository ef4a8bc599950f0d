"""Operators that take operators."""

from corten._higher_order_ops.out_dtype import out_dtype

__all__ = ["out_dtype"]
