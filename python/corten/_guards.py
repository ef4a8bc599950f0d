"""What compiled programs know of the trace that is being made. None is: questions about it are answered so."""

from __future__ import annotations

import contextlib

__all__ = ["CompileContext", "TracingContext", "active_fake_mode", "detect_fake_mode"]


def active_fake_mode():
    """The mode in which tensors have no data: None."""
    return None


def detect_fake_mode(inputs=None):
    """The mode of tensors without data among some, or that is active: None."""
    return None


class _Context:
    """Something of a trace, of which there is none."""

    @staticmethod
    def try_get():
        """The context of the trace that is being made: None."""
        return None

    @classmethod
    def get(cls):
        """The context of the trace that is being made.

        Raises:
            RuntimeError: There is none.
        """
        raise RuntimeError(f"{cls.__name__}.get() must be called within an ongoing trace.")


class TracingContext(_Context):
    """What is known of a trace."""


class CompileContext(_Context):
    """What is known of a compilation."""

    @staticmethod
    def current_compile_id():
        """The number of the compilation: None."""
        return None

    @staticmethod
    def current_trace_id():
        """The number of the trace: None."""
        return None


@contextlib.contextmanager
def tracing(context):
    """A block in which a trace is being made; only one without a context can be."""
    if context is not None:
        raise NotImplementedError("functions are not traced here")
    yield None
