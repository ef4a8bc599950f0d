"""Tables that programs take as they are, or change."""

from __future__ import annotations

import collections
import functools

from ._register import decomposition_table, overloads_of

__all__ = ["Composite", "CustomDecompTable", "composites", "core_aten_decompositions"]


class Composite:
    """What stands in a table for an operator that is made of others: traces record those, unless the operator is
    taken out of the table of :meth:`ExportedProgram.run_decompositions`."""

    def __init__(self, overload):
        self.overload = overload

    def __call__(self, *args, **kwargs):
        return self.overload.decompose(*args, **kwargs)


#: Operators that may give one of their operands, or write to one, although their schemas do not say so.
_MAY_ALIAS = frozenset((
    "atleast_1d", "atleast_2d", "atleast_3d", "batch_norm", "instance_norm", "_batch_norm_impl_index", "rrelu",
    "meshgrid", "cartesian_prod", "is_nonzero", "item", "_assert_tensor_metadata",
))


@functools.cache
def composites():
    """The operators that are made of others, and neither write nor give views, with what stands for them."""
    from corten import ops
    from corten._dispatch_tables import _dispatch_get_all_op_names

    found = {}
    for name in _dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if space != "aten" or packet in _MAY_ALIAS or packet.startswith("_"):
            continue
        op = getattr(getattr(ops.aten, packet), overload or "default")
        schema = str(op._schema)
        if op._is_composite and "(a" not in schema and "Tensor" in schema.rpartition(" -> ")[2]:
            found[op] = Composite(op)
    return found


class CustomDecompTable(collections.UserDict):
    """A table by overload, which may be changed."""

    def read(self):
        """The table as it is."""
        return dict(self)

    def update(self, other_dict=(), **kwargs):
        """Adds the functions of another table."""
        super().update(other_dict, **kwargs)

    def copy(self):
        """Another table of the same functions."""
        return type(self)(self)

    def materialize(self):
        """The functions as a dictionary."""
        return dict(self)

    def pop(self, *args):
        """Takes a function out; operators without one may be named."""
        op = args[0]
        for overload in overloads_of(op)[1:]:
            self.data.pop(overload, None)
        return self.data.pop(overloads_of(op)[0], args[1] if len(args) > 1 else None)

    def items(self):
        """The overloads and their functions."""
        return self.data.items()

    def keys(self):
        """The overloads."""
        return self.data.keys()


def core_aten_decompositions():
    """The functions of operators that have a simpler form: what is left of a program are operators of the core set,
    which have functions of their own only where they are asked for by name."""
    from corten.ops import aten

    own = {aten.addmm.default}
    return CustomDecompTable(
        composites() | {op: function for op, function in decomposition_table.items() if op not in own}
    )
