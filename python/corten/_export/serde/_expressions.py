"""Expressions of sizes that are not known, as text of the schema."""

from __future__ import annotations

__all__ = ["bounds", "hint", "written"]


def written(value):
    """The expression of a number, as SymPy's ``srepr`` writes it."""
    from corten.export import _symbols

    return _symbols.written(value)


def hint(value):
    """The number with which the program was made; None where there is none."""
    from corten.export import _symbols

    return _symbols.hint(value)


def bounds(constraint):
    """The least and the greatest value, None where there is no bound."""
    from corten.export import _symbols

    return _symbols.bounds(constraint)
