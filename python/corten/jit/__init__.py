"""TorchScript: archives of PyTorch are read and run (:func:`load`), traces and compiled functions and modules
are written (:func:`save`) as PyTorch reads them. What :func:`script` gives runs as the Python that it was
made of, modules with the same parameters (:class:`ScriptModule`); what :func:`trace` gives runs the operators
that were recorded."""

from __future__ import annotations

import builtins
import collections
import contextlib
import sys
import typing
import warnings

from corten.futures import Future
from corten.jit._scripted import (
    RecursiveScriptModule as RecursiveScriptModule, ScriptFunction, ScriptModule,
    TopLevelTracedModule as TopLevelTracedModule,
)

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Future", "ScriptFunction", "ScriptModule", "annotate",
    "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "ignore", "interface",
    "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "save", "script",
    "script_if_tracing", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused",
    "wait",
]

Final = typing.Final
Attribute = collections.namedtuple("Attribute", ["value", "type"])


class Error(RuntimeError):
    """An error of a compiled function."""


class TracingCheckError(Exception):
    """A trace that did not repeat."""


class TracerWarning(Warning):
    """A warning about something that a trace does not record."""

    @staticmethod
    def ignore_lib_warnings():
        """Silences warnings of the library itself about its own functions."""
        warnings.filterwarnings("ignore", category=TracerWarning, module="torch.(?!jit)")


def script_if_tracing(fn):
    """The function itself."""
    return fn


_script_if_tracing = script_if_tracing


def script_method(fn):
    """The method itself."""
    return fn


def _mark(fn, mark):
    from corten._jit_internal import FunctionModifiers

    if builtins.isinstance(fn, property):
        _mark(fn.fget, mark)
    else:
        fn._torchscript_modifier = getattr(FunctionModifiers, mark)
    return fn


def export(fn):
    """The method itself, marked to be compiled though nothing calls it."""
    return _mark(fn, "EXPORT")


def unused(fn):
    """The method itself, marked to be left out."""
    return _mark(fn, "UNUSED")


def ignore(drop=False, **kwargs):
    """The function itself, marked to be left out; also with arguments."""
    if callable(drop):
        return _mark(drop, "IGNORE")
    return lambda fn: _mark(fn, "UNUSED" if drop else "IGNORE")


def interface(obj):
    """The class itself."""
    return obj


def annotate(the_type, the_value):
    """The value."""
    return the_value


def is_scripting():
    """Whether this runs compiled."""
    return False


def is_tracing():
    """Whether a graph of this is being recorded."""
    graphs = sys.modules.get(f"{__name__}._graphs")
    return graphs is not None and graphs.tracing_state() is not None


def _get_trace_graph(
    f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False,
    _return_inputs_states=False,
):
    """The graph of the operators that a call of a function or module makes, and its result; also the
    inputs, if ``return_inputs``."""
    from corten.jit._graphs import get_trace_graph

    graph, result = get_trace_graph(f, args, kwargs)
    return (graph, result, args) if return_inputs else (graph, result)


def isinstance(obj, target_type):
    """Whether an object, with what it contains, is of a type such as ``List[int]``."""

    if builtins.isinstance(target_type, (tuple, list)):
        return any(isinstance(obj, one) for one in target_type)
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return builtins.isinstance(obj, type(None) if target_type is None else target_type)
    if origin is typing.Union:
        return any(isinstance(obj, one) for one in inner)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is tuple:
        return len(obj) == len(inner) and all(map(isinstance, obj, inner))
    if origin is dict:
        key, value = inner
        return all(isinstance(k, key) and isinstance(v, value) for k, v in obj.items())
    return all(isinstance(item, inner[0]) for item in obj)


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """The module itself.

    Raises:
        RuntimeError: It is in training mode.
    """
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    return mod


def optimize_for_inference(mod, other_methods=None):
    """The module itself."""
    return mod


def fork(func, *args, **kwargs):
    """The future of a call, which is made at once."""
    future = Future()
    try:
        future.set_result(func(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def wait(future):
    """The value of a future."""
    return future.wait()


def export_opnames(m):
    """The operators that the compiled code of a module calls, sorted.

    Raises:
        RuntimeError: It was not compiled.
    """
    from corten.jit._writing import operators_of

    return operators_of(m)


def set_fusion_strategy(strategy):
    """Nothing is fused; returns the strategy from before."""
    return []


def enable_onednn_fusion(enabled):
    """Nothing is fused."""
    if enabled:
        warnings.warn("nothing is compiled, so nothing is fused", stacklevel=2)


def onednn_fusion_enabled():
    """Whether oneDNN fuses operators."""
    return False


class strict_fusion(contextlib.nullcontext):
    """A ``with`` block in which everything should be fused, which only compiled code looks at."""


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """A ``with`` block in which compiled code is optimised or not."""
    yield


@contextlib.contextmanager
def fuser(name):
    """A ``with`` block with a choice of fuser for compiled code."""
    yield


def _unwrap_optional(x):
    """The value of an optional.

    Raises:
        AssertionError: It is None.
    """
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


#: The declarations of overloads, by the qualified names of functions and methods.
_overloads = {}


def _overload(func):
    """Declares an overload of a function; the last definition is what runs."""
    _overloads.setdefault((func.__module__, func.__qualname__), []).append(func)
    return func


def _overload_method(func):
    """Declares an overload of a method; the last definition is what runs."""
    return _overload(func)


from corten.jit._archive import load  # noqa: E402
from corten.jit._script import CompilationUnit, script  # noqa: E402
from corten.jit._traced import trace, trace_module  # noqa: E402
from corten.jit._writing import save  # noqa: E402

# The name of the future import is that of a submodule.
del annotations
from corten.jit import _state, annotations, frontend, mobile  # noqa: E402, F401
