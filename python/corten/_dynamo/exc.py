"""The errors of compilation."""

from __future__ import annotations

__all__ = [
    "BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "InvalidBackend",
    "RecompileError", "ResetRequired", "TorchDynamoException", "TorchRuntimeError",
    "UncapturedHigherOrderOpError", "Unsupported", "UserError",
]


class TorchDynamoException(RuntimeError):
    """What went wrong in compilation."""


class InternalTorchDynamoError(TorchDynamoException):
    """A defect of the compiler."""


class TorchRuntimeError(TorchDynamoException):
    """An operator failed on the stand-ins of tensors."""


class InvalidBackend(TorchDynamoException):
    """There is no backend of that name."""

    def __init__(self, name):
        super().__init__(
            f"Invalid backend: {name!r}. See `torch._dynamo.list_backends()` for available backends."
        )


class ResetRequired(TorchDynamoException):
    """Something changed after compilation that needs a reset."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend raised."""

    def __init__(self, backend_fn, inner_exception, first_useful_frame=None):
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        super().__init__(
            f"backend={self.backend_name!r} raised:\n"
            f"{type(inner_exception).__name__}: {inner_exception}"
        )


class Unsupported(TorchDynamoException):
    """Something that cannot be in one graph, where one graph was asked for."""

    def __init__(self, msg, *, case_name=None, **details):
        super().__init__(msg)
        self.msg, self.case_name = msg, case_name


class UncapturedHigherOrderOpError(TorchDynamoException):
    """The body of an operator on functions cannot be a graph."""


class RecompileError(TorchDynamoException):
    """A function had to be compiled again where that was forbidden."""


class FailOnRecompileLimitHit(TorchDynamoException):
    """A function was compiled too often."""


class UserError(Unsupported):
    """A mistake of the program."""

    def __init__(self, error_type, msg, case_name=None):
        super().__init__(msg, case_name=case_name)
        self.error_type, self.message = error_type, msg
