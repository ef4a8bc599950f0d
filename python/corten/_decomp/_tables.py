"""Tables that programs take as they are, or change."""

from __future__ import annotations

import collections

from ._register import decomposition_table, overloads_of

__all__ = ["CustomDecompTable", "core_aten_decompositions"]


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
    return CustomDecompTable({op: function for op, function in decomposition_table.items() if op not in own})
