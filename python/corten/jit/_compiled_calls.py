"""Calls of what was compiled, in traces: one line each, so that it still decides by its arguments."""

from __future__ import annotations

import contextlib

import corten
from corten import _C
from corten.jit._structure import literal
from corten.utils._pytree import tree_map


@contextlib.contextmanager
def paused(tracer):
    """Nothing is written down."""
    enabled = _C._set_tracing_enabled(False)
    tracer.active = False
    try:
        yield
    finally:
        tracer.active = True
        _C._set_tracing_enabled(enabled)


class CompiledCalls:
    """The part of a tracer that records them."""

    def compiled_call(self, module, run, args, kwargs):
        """A call of a compiled module is one line, so that the module still decides by its arguments.

        Returns NotImplemented where the call has to be recorded as its operators: the module is none of those inside
        of the traced one, or could not be compiled.
        """
        path = self.modules.get(id(module))
        compilation = vars(module).get("_compilation")
        if path is None or compilation is None or compilation.refusal is not None:
            return NotImplemented
        self.structure.compile_inside(module)
        return self._compiled(f"{path}.forward", run, args, kwargs)

    def compiled_function(self, function, args, kwargs):
        """A call of a compiled function, as :meth:`compiled_call`."""
        if function._compilation.refusal is not None:
            return NotImplemented
        name = self.structure.function(function)
        return self._compiled(name, function._script_original, args, kwargs)

    def _compiled(self, callee, run, args, kwargs):
        given = [self._text(one) for one in args]
        given += [f"{name}={self._text(one)}" for name, one in kwargs.items()]
        with paused(self):
            # What is handed on unchanged in this call may not be so in others.
            result = tree_map(self._apart, run(*args, **kwargs))
        self.inputs(result, self.line(f"{callee}({', '.join(given)})"))
        return result

    def _apart(self, value):
        return value.view_as(value) if isinstance(value, corten.Tensor) and id(value) in self.known else value

    def _text(self, value):
        """A value among the arguments of a compiled call as code."""
        if isinstance(value, corten.Tensor):
            return self.expression(value)
        if isinstance(value, int) and hasattr(value, "expression"):
            return value.expression
        if isinstance(value, list):
            return f"[{', '.join(map(self._text, value))}]"
        if isinstance(value, tuple):
            return f"({''.join(f'{self._text(one)}, ' for one in value)})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{literal(key)}: {self._text(one)}" for key, one in value.items()) + "}"
        return literal(value)
