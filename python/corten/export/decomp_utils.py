"""Which operators are replaced by others, and by what."""

from __future__ import annotations

__all__ = ["CustomDecompTable"]


class CustomDecompTable(dict):
    """Operators and the functions that they are replaced by.

    Entries of operators may be deleted, which keeps them in the program, or set.
    """

    def __init__(self):
        from corten.export._decompose import core_table

        super().__init__(core_table())
        self.deleted_custom_ops = set()
        self.additional_custom_op_decomp = {}
        self.has_materialized = False

    def copy(self):
        """Another table with the same entries."""
        made = CustomDecompTable()
        dict.clear(made)
        dict.update(made, self)
        made.has_materialized = self.has_materialized
        return made

    def materialize(self):
        """The table as a dictionary."""
        self.has_materialized = True
        return dict(self)
