"""How ``make_fx`` sets a trace up."""

from __future__ import annotations

import contextlib
import functools
import inspect

import corten
from corten import nn, ops
from corten.fx._symbolic_trace import PH
from corten.utils import _pytree as pytree

from .proxy_tensor import (
    ProxyTorchDispatchMode, PythonKeyTracer, disable_autocast_cache, disable_proxy_modes_tracing, dispatch_trace,
    fake_signature, wrap_key,
)

__all__ = ["MakeFx"]


def new_shape_env():
    """Where symbolic sizes are defined."""
    from corten.fx.experimental import symbolic_shapes

    return symbolic_shapes.ShapeEnv() if "ShapeEnv" in vars(symbolic_shapes) else None


def _alias(self):
    return ops.aten.alias.default(self)


class MakeFx:
    """Records what a function does with the arguments of a call."""

    def __init__(self, f, table, tracing_mode, allow_non_fake_inputs, pre_dispatch, record_module_stack,
                 allow_fake_constant, error_on_data_dependent_ops, record_stack_traces):
        self.f, self.table, self.tracing_mode = f, dict(table or {}), tracing_mode
        self.allow_non_fake_inputs, self.pre_dispatch = allow_non_fake_inputs, pre_dispatch
        self.record_module_stack, self.record_stack_traces = record_module_stack, record_stack_traces
        self.options = {
            "pre_dispatch": pre_dispatch, "_allow_fake_constant": allow_fake_constant,
            "_error_on_data_dependent_ops": error_on_data_dependent_ops,
        }
        if table is None and not pre_dispatch:
            self.table[ops.aten.detach.default] = _alias

    def __call__(self, *args):
        tracer, fake_mode = self._tracer(), self._fake_mode(args)
        places = pytree.tree_map(lambda _: PH, args)
        args = self._without_data(fake_mode, args)
        mode = ProxyTorchDispatchMode(tracer, self.tracing_mode, decomposition_table=self.table, **self.options)
        function = self._with_names(len(places))
        with contextlib.ExitStack() as stack:
            stack.enter_context(disable_proxy_modes_tracing())
            if fake_mode is not None:
                stack.enter_context(fake_mode)
            stack.enter_context(mode)
            stack.enter_context(disable_autocast_cache())
            made = dispatch_trace(wrap_key(function, args, tracer, self.pre_dispatch), tracer, tuple(places))
        if self.tracing_mode == "symbolic":
            made.shape_env = fake_mode.shape_env
        return made

    def _tracer(self):
        tracer = PythonKeyTracer()
        tracer.record_stack_traces = self.record_stack_traces
        tracer._record_forward_stack_traces_only = self.record_stack_traces
        return tracer

    def _fake_mode(self, args):
        """The mode of tensors without data among the arguments, or a new one."""
        if self.tracing_mode == "real":
            return None
        from corten._guards import detect_fake_mode
        from corten._subclasses.fake_tensor import FakeTensorMode

        found = detect_fake_mode(args)
        if found is not None:
            return found
        fake = self.tracing_mode == "fake"
        return FakeTensorMode(
            allow_fallback_kernels=fake, allow_non_fake_inputs=self.allow_non_fake_inputs, shape_env=new_shape_env(),
            static_shapes=fake,
        )

    def _without_data(self, fake_mode, args):
        if fake_mode is None:
            return args
        symbolic = self.tracing_mode == "symbolic"
        if symbolic:
            from ._symbolic_proxies import ConstantSource, symbolic_number

        leaves, spec = pytree.tree_flatten(args)
        made = []
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, corten.Tensor):
                source = {"source": ConstantSource(f"input{place}")} if symbolic else {}
                leaf = fake_mode.from_tensor(leaf, **source)
            elif symbolic and type(leaf) is int:
                leaf = symbolic_number(fake_mode.shape_env, leaf, ConstantSource(f"input{place}"))
            made.append(leaf)
        return pytree.tree_unflatten(made, spec)

    def _with_names(self, count):
        """The function, with as many parameters as there are arguments."""
        f = self.f
        code = getattr(inspect.unwrap(f), "__code__", None)
        if code is None or code.co_flags & inspect.CO_VARARGS:
            return fake_signature(f, count)
        if isinstance(f, nn.Module) or inspect.ismethod(f):
            return functools.wraps(f)(fake_signature(f, count))
        return f
