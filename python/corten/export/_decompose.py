"""Programs in the core set of operators."""

from __future__ import annotations

__all__ = ["core_table", "decompose"]


def core_table():
    """The operators that are replaced, and by what."""
    return {}
