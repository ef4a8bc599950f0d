"""Operators as compositions of simpler ones: what traces record in their place.

Composite operators need no function: they call the operators that they are made of.
"""

from __future__ import annotations

from ._register import (  # noqa: F401
    decomposition_table, get_decompositions, global_decomposition_table, meta_table, pre_autograd_decomposition_table,
    register_decomposition, remove_decompositions,
)
from . import images, pointwise, reductions, shapes  # noqa: F401, I001
from . import inplace, margins, rearrangements, sequences  # noqa: F401, I001
from . import decompositions  # noqa: F401
from ._tables import CustomDecompTable, core_aten_decompositions  # noqa: F401

__all__ = [
    "core_aten_decompositions", "decomposition_table", "get_decompositions", "meta_table",
    "pre_autograd_decomposition_table", "register_decomposition", "remove_decompositions",
]


def _special_op_to_preserve_cia(*args, **kwargs):
    """Marks an operator that is kept although it is composite."""
    return NotImplemented
