"""Errors of compiling Python to TorchScript, with the line that they are about."""

from __future__ import annotations

import inspect
import textwrap

__all__ = ["FrontendError", "FrontendTypeError", "NotSupportedError", "UnsupportedNodeError"]


class FrontendError(Exception):
    """Python that cannot be compiled, and where it stands."""

    def __init__(self, source_range, msg):
        super().__init__(source_range, msg)
        self.source_range, self.msg = source_range, msg
        self.error_report = self

    def __str__(self):
        return f"{self.msg}:\n{self.source_range}" if self.source_range is not None else str(self.msg)


class NotSupportedError(FrontendError):
    """Python that TorchScript does not have."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression of a class that TorchScript does not have."""


class FrontendTypeError(FrontendError):
    """An annotation that is no type of TorchScript."""


class SourceRange:
    """A place in a file of Python."""

    def __init__(self, source, node):
        self.source, self.node = source, node

    def __str__(self):
        line = getattr(self.node, "lineno", 1)
        start, end = getattr(self.node, "col_offset", 0), getattr(self.node, "end_col_offset", 0)
        lines = self.source.lines
        text = lines[line - 1] if line <= len(lines) else ""
        end = end if getattr(self.node, "end_lineno", line) == line else len(text)
        indent = self.source.indent
        marks = " " * (start + indent) + "~" * max(1, end - start) + " <--- HERE"
        return f'  File "{self.source.filename}", line {self.source.first + line - 1}\n{" " * indent}{text}\n{marks}'


class Source:
    """The source of a function: its text without indentation, and where it comes from."""

    def __init__(self, text, filename, first):
        dedented = textwrap.dedent(text)
        self.text, self.filename, self.first = dedented, filename, first
        self.lines = dedented.split("\n")
        before = text.split("\n")[0]
        self.indent = len(before) - len(before.lstrip()) if text != dedented else 0


def source_of(obj):
    """The source of a function or class.

    Raises:
        OSError: It is not known.
    """
    try:
        lines, first = inspect.getsourcelines(obj)
        return Source("".join(lines), inspect.getsourcefile(obj) or "<unknown>", max(first, 1))
    except (OSError, TypeError):
        raise OSError(
            f"Can't get source for {obj}. TorchScript requires source access in order to carry out compilation, make sure "
            "original .py files are available."
        ) from None
