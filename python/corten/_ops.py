"""Classes of operators: those of the registry, and operators that take functions."""

from __future__ import annotations

import sys

from corten.ops import Overload as OpOverload
from corten.ops import Packet as OpOverloadPacket

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "OperatorBase"]

def _proxies():
    return sys.modules.get(f"{__package__}.fx.experimental.proxy_tensor")


def proxy_mode():
    """The mode of ``make_fx`` that records calls, or None."""
    module = _proxies()
    return None if module is None else module.get_proxy_mode()


def disabled_proxy_modes():
    """A block in which modes of ``make_fx`` record nothing."""
    return _proxies().disable_proxy_modes_tracing()


#: The operators that take functions, by name.
higher_order = {}


class OperatorBase:
    """What operators have in common: rules by dispatch key and by class of mode."""

    def __init__(self):
        self.py_kernels, self.functorch_table = {}, {}
        self.python_key_table = {}

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no call")

    def has_kernel_for_dispatch_key(self, k):
        """Whether there is a rule for a dispatch key."""
        return k in self.py_kernels

    def py_impl(self, k):
        """Registers a function as the rule for a dispatch key, or for a class of tensors or modes."""

        def register(fn):
            kept = self.python_key_table if isinstance(k, type) else self.py_kernels
            kept[k] = fn
            return fn

        return register

    def py_functionalize_impl(self, fn):
        """Registers the rule without operators that write."""
        self.python_key_table["functionalize"] = fn
        return fn

    def name(self):
        """The name."""
        raise NotImplementedError(f"{type(self).__name__} has no name")


class HigherOrderOperator(OperatorBase):
    """An operator that takes functions: ``torch.ops.higher_order.NAME``.

    Derived classes say in :meth:`run` what it gives, and in :meth:`record` how it becomes part of a graph.
    """

    def __init__(self, name, *, cacheable=False):
        super().__init__()
        if type(self) is HigherOrderOperator:
            raise RuntimeError(
                "Direct instantiation of HigherOrderOperator is not allowed. Please subclass it."
            )
        self._name, self.__name__, self._ns, self._cacheable = name, name, "higher_order", cacheable
        self.__module__ = "torch.ops.higher_order"
        higher_order[name] = self

    @property
    def namespace(self):
        """``higher_order``."""
        return self._ns

    def name(self):
        """The name."""
        return self._name

    def run(self, *args, **kwargs):
        """The results."""
        rule = self.py_kernels.get("CompositeExplicitAutograd")
        if rule is None:
            raise NotImplementedError(f"There was no rule registered for HOP {self._name}")
        return rule(*args, **kwargs)

    def record(self, recorder, *args, **kwargs):
        """The results while a graph is made: the operator runs, and its parts are recorded."""
        return self.run(*args, **kwargs)

    def trace(self, mode, *args, **kwargs):
        """The results under a mode of ``make_fx``: the operator runs, and its parts are recorded."""
        return self.run(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        from corten.export._recorder import recording

        recorder = recording()
        if recorder is not None:
            return self.record(recorder, *args, **kwargs)
        mode = proxy_mode()
        return self.run(*args, **kwargs) if mode is None else self.trace(mode, *args, **kwargs)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _operator, (self._name,)

    def __str__(self):
        return self._name

    def __repr__(self):
        return f"<torch._higher_order_ops.{self._name} object>"


def _operator(name):
    import corten._higher_order_ops  # noqa: F401

    return higher_order[name]
