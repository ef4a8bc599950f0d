"""Modules that were scripted or traced: they run as Python, with the parameters of the module that
they were made of, and are modules of their own otherwise."""

from __future__ import annotations

import dis
import functools
import inspect

from corten.nn import Module

_FAILED = "The following operation failed in the TorchScript interpreter."
_MADE_BY_THIS = "_scripted_as"


class ScriptModule(Module):
    """A module that was scripted or traced, or is written as one; nothing is compiled."""

    @property
    def original_name(self):
        """The name of the class that it was made of."""
        return original_of(type(self)).__name__

    @property
    def code(self):
        """The source of ``forward``: compiled, or of Python where it could not be compiled."""
        compilation = vars(self).get("_compilation")
        if compilation is None or compilation.refusal is not None:
            return inspect.getsource(original_of(type(self)).forward)
        return compilation.code()

    def _saved_form(self):
        compilation = vars(self).get("_compilation")
        if compilation is None:
            from corten.jit._script import Compilation

            compilation = vars(self)["_compilation"] = Compilation(self)
        return compilation.saved_form(self)

    def save(self, f, **kwargs):
        """Writes the module as :func:`corten.jit.save` does."""
        from corten.jit import save

        save(self, f, **kwargs)

    def save_to_buffer(self, **kwargs):
        """The bytes that :meth:`save` writes."""
        from corten.jit._writing import save_to_buffer

        return save_to_buffer(self, **kwargs)


class _Compiled(ScriptModule):
    """Modules whose errors are those of compiled ones."""

    def __call__(self, *args, **kwargs):
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            compiled = _as_compiled(error)
            if compiled is None:
                raise
            raise compiled from error


def _as_compiled(error):
    """What a compiled program raises instead: a ``RuntimeError`` for what an operator refused,
    ``torch.jit.Error`` for what the program raised itself. None where that is the error already."""
    from corten.jit import Error

    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if code is _Compiled.__call__.__code__ or str(error).startswith(_FAILED):
        # A module inside was compiled too, and has said so.
        return None
    raised = code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    if isinstance(error, (Error, NotImplementedError) if raised else RuntimeError):
        return None
    kind = type(error)
    if not raised:
        name = "RuntimeError"
    elif kind is AssertionError:
        name = "RuntimeError: AssertionError"
    else:
        name = f"{kind.__module__}.{kind.__qualname__}"
    return (Error if raised else RuntimeError)(
        f"{_FAILED}\n"
        "Traceback of TorchScript (most recent call last):\n"
        f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}\n'
        f"{name}: {error}\n"
    )


class RecursiveScriptModule(_Compiled):
    """What :func:`corten.jit.script` makes of a module."""

    def __call__(self, *args, **kwargs):
        from corten.jit import _tracing

        tracer = _tracing.current()
        if tracer is not None:
            result = tracer.compiled_call(self, super().__call__, args, kwargs)
            if result is not NotImplemented:
                return result
        return super().__call__(*args, **kwargs)


class TopLevelTracedModule(_Compiled):
    """What :func:`corten.jit.trace` makes of a module: its methods repeat the operators of the trace."""

    def forward(self, *args, **kwargs):
        """The traced operators with other arguments."""
        return self._program("forward")(*args, **kwargs)

    def __getattr__(self, name):
        declared = self.__dict__.get("_script_type")
        if declared is not None and name in declared.methods:
            return self._program(name)
        return super().__getattr__(name)

    def _program(self, name):
        from corten.jit import _running

        return _running.entry(self._script_type.methods[name], self)

    @property
    def code(self):
        """The source of the traced ``forward``."""
        return self._program("forward").code

    def _saved_form(self):
        if self._trace_refusal:
            raise RuntimeError(f"Could not export the trace: {self._trace_refusal}")
        return self, self._script_type.unit


def original_of(kind):
    """The class that a class of scripted or traced modules was made of, or the class itself."""
    return vars(kind).get(_MADE_BY_THIS, kind)


@functools.cache
def _class_of(original, kind):
    """The class of modules of a class that were scripted or traced."""
    body = {
        _MADE_BY_THIS: original,
        "__module__": kind.__module__,
        "extra_repr": _extra_repr,
        "__reduce_ex__": _reduce,
    }
    return type(original)(kind.__name__, (kind, original), body)


def _extra_repr(self):
    return f"original_name={self.original_name}"


def _reduce(self, protocol):
    kind = next(one for one in type(self).__mro__ if one in (RecursiveScriptModule, TopLevelTracedModule))
    return _empty, (original_of(type(self)), kind), self.__dict__


def _empty(original, kind):
    made = _class_of(original, kind)
    return made.__new__(made)


def scripted(module, kind=RecursiveScriptModule, memo=None):
    """A module of its own with the parameters and buffers of another."""
    if isinstance(module, ScriptModule):
        return module
    memo = {} if memo is None else memo
    if id(module) not in memo:
        made = memo[id(module)] = _empty(type(module), kind)
        for name, value in vars(module).items():
            vars(made)[name] = value.copy() if name.startswith("_") and isinstance(value, dict) else value
        for name, child in module._modules.items():
            if child is not None:
                made._modules[name] = scripted(child, RecursiveScriptModule, memo)
    return memo[id(module)]


class _Marked(type):
    def __instancecheck__(cls, instance):
        return getattr(instance, "_is_scripted_function", False) is True


class ScriptFunction(metaclass=_Marked):
    """The class of functions that were scripted or traced: they stay functions of Python."""

    def __new__(cls, *args, **kwargs):
        raise RuntimeError(
            "compiled functions: there is no TorchScript here; functions and modules run as Python"
        )


def as_script_function(function):
    """A function that runs compiled code, with the methods of :class:`ScriptFunction`."""
    function._is_scripted_function = True
    function.save = functools.partial(_save_function, function)
    function.save_to_buffer = functools.partial(_buffer_of_function, function)
    return function


def _save_function(function, f, **kwargs):
    from corten.jit import save

    save(function, f, **kwargs)


def _buffer_of_function(function, **kwargs):
    from corten.jit._writing import save_to_buffer

    return save_to_buffer(function, **kwargs)


def mark(function):
    """A function of Python as an instance of :class:`ScriptFunction`: it runs as it is, and is one line in traces."""
    if not inspect.isfunction(function):
        return function
    from corten.jit import _tracing

    @functools.wraps(function)
    def compiled(*args, **kwargs):
        tracer = _tracing.current()
        if tracer is not None:
            result = tracer.compiled_function(compiled, args, kwargs)
            if result is not NotImplemented:
                return result
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raised = _refused_arguments(compiled, error, args, kwargs) or _as_compiled(error)
            if raised is None:
                raise
            raise raised from error

    compiled._is_scripted_function = True
    compiled._script_original = function
    return compiled


def _refused_arguments(function, error, args, kwargs):
    """What a compiled function raises for arguments that it does not take, where that was the reason of an error."""
    compilation = vars(function).get("_compilation")
    if not isinstance(error, TypeError) or compilation is None or compilation.refusal is not None:
        return None
    try:
        compilation.signature().convert(args, kwargs)
    except RuntimeError as refused:
        return refused
    return None
