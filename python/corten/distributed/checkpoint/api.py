"""The error of saving and loading, with what went wrong in each process."""

from __future__ import annotations

import traceback
from typing import Any

WRAPPED_EXCEPTION = tuple[BaseException, traceback.StackSummary]

__all__ = ["CheckpointException"]


def _wrap_exception(exc):
    """An exception with its stack, in a form that can be sent to another process."""
    stack = traceback.extract_tb(exc.__traceback__)
    for frame in stack:
        # From Python 3.13 on a frame keeps its code, which cannot be pickled.
        if hasattr(frame, "_code"):
            frame._code = None
    return exc, stack


def _is_wrapped_exception(obj: Any):
    return (
        isinstance(obj, tuple) and len(obj) == 2 and isinstance(obj[0], BaseException)
        and isinstance(obj[1], traceback.StackSummary)
    )


class CheckpointException(BaseException):
    """Raised in every process when saving or loading failed in one of them."""

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self):
        """By rank: the exception and its stack."""
        return self._failures

    def __str__(self):
        parts = [f"CheckpointException ranks:{self._failures.keys()}\n"]
        for rank, (error, stack) in self._failures.items():
            parts.append(f"Traceback (most recent call last): (RANK {rank})\n")
            parts.extend(traceback.format_list(stack or ()))
            parts.extend(traceback.format_exception_only(type(error), error))
        return "".join(parts)
