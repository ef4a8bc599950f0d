"""What compiled programs know of the trace that is being made. None is: questions about it are answered so."""

from __future__ import annotations

import contextlib
import sys

__all__ = ["CompileContext", "TracingContext", "active_fake_mode", "detect_fake_mode"]


def active_fake_mode():
    """The mode in which tensors have no data, or None."""
    fake_tensor = sys.modules.get("corten._subclasses.fake_tensor")
    return None if fake_tensor is None else fake_tensor.active_mode()


def detect_fake_mode(inputs=None):
    """The mode of tensors without data among some, or that is active, or None.

    Raises:
        AssertionError: There are several.
    """
    from corten._subclasses.fake_tensor import maybe_get_fake_mode
    from corten.utils._pytree import tree_leaves

    context = TracingContext.try_get()
    found = [getattr(context, "fake_mode", None), active_fake_mode(), *map(maybe_get_fake_mode, tree_leaves(inputs))]
    found = [mode for mode in found if mode is not None]
    if any(mode is not found[0] for mode in found):
        raise AssertionError(f"fake mode ({found[0]}) from one place doesn't match mode ({found[-1]}) from another")
    return found[0] if found else None


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
