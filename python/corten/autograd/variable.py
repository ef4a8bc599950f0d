"""``Variable``: the name tensors with gradients had."""

from __future__ import annotations

from corten._C import Tensor

__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """Every tensor is a variable."""

    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class _ExecutionEngine:
    """The engine of backward passes, as programs reach it that queue callbacks."""

    @staticmethod
    def queue_callback(callback):
        """See :func:`corten.autograd.graph.queue_callback`."""
        from corten.autograd.graph import queue_callback

        queue_callback(callback)


class Variable(metaclass=VariableMeta):
    """Deprecated: a tensor."""

    _execution_engine = _ExecutionEngine()

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        from corten import empty

        data = empty(0) if data is None else data.detach()
        return data.requires_grad_() if requires_grad else data
