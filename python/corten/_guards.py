"""What a compiler knows of the program that it looks into: there is none, so nothing is known."""

from __future__ import annotations

__all__ = ["CompileContext", "TracingContext", "active_fake_mode", "detect_fake_mode"]


class TracingContext:
    """What is known of the program that is being traced."""

    @staticmethod
    def try_get():
        """Nothing: no program is being traced."""
        return None

    @staticmethod
    def get():
        """Refused: no program is being traced."""
        raise RuntimeError(
            "TracingContext.get() must be called within an ongoing trace."
        )


class CompileContext:
    """What is known of the program that is being compiled."""

    @staticmethod
    def try_get():
        """Nothing: no program is being compiled."""
        return None

    @staticmethod
    def current_compile_id():
        """The number of the compilation: none runs."""
        return None

    @staticmethod
    def current_trace_id():
        """The number of the trace: none runs."""
        return None


def active_fake_mode():
    """The mode that makes tensors without data: there is none."""
    return None


def detect_fake_mode(inputs=None):
    """The mode that the tensors of some inputs were made in: there is none."""
    return None
