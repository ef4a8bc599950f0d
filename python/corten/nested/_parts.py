"""What nested tensors of either layout have in common."""

from __future__ import annotations

from corten._parts_tensor import PartsTensor


class NestedParts(PartsTensor):
    """Items with sizes of their own, kept as the parts of one tensor."""

    @property
    def is_nested(self):
        """True."""
        return True
