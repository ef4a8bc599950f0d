"""What goes wrong when programs are exported."""

from __future__ import annotations

import enum

__all__ = ["ExportError", "ExportErrorType", "InternalError"]


class ExportErrorType(enum.Enum):
    """Whose matter an error is."""

    INVALID_INPUT_TYPE = 1
    INVALID_OUTPUT_TYPE = 2
    VIOLATION_OF_SPEC = 3
    NOT_SUPPORTED = 4
    MISSING_PROPERTY = 5
    UNINITIALIZED = 6


def internal_assert(pred, assert_msg):
    """Checks what the library itself promises.

    Raises:
        InternalError: It does not hold.
    """
    if not pred:
        raise InternalError(assert_msg)


class InternalError(Exception):
    """The library contradicts itself."""


class ExportError(Exception):
    """A program cannot be exported."""

    def __init__(self, error_code, message):
        super().__init__(f"[{error_code}]: {message}")
