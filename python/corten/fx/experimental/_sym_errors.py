"""Errors of symbolic numbers."""

from __future__ import annotations


class GuardOnDataDependentSymNode(RuntimeError):
    """A question whose answer depends on data."""

    def __init__(self, cond, *args):
        super().__init__(*args)
        self.cond = cond


class PendingUnbackedSymbolNotFound(RuntimeError):
    """A symbol that depends on data belongs to no result."""


class ConstraintViolationError(RuntimeError):
    """What was said of a size does not hold."""


class UnrecoverableSizeError(RuntimeError):
    """The size of a result could not be expressed by the sizes of the arguments."""
