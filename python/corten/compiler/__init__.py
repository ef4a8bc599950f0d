"""Compilation: what a function computes is recorded and run in groups. See :func:`corten.compile`."""

from __future__ import annotations

from corten import _C
from corten.compiler import config
from corten.compiler._compile import compile  # noqa: F401
from corten.compiler._explain import explain  # noqa: F401
from corten.compiler._regions import is_running, not_compiled
from corten.compiler._settings import (
    cudagraph_mark_warmup_incomplete, get_default_backend, keep_tensor_guards_unsafe, list_backends,
    load_cache_artifacts, nested_compile_region, nonstrict_trace, save_cache_artifacts,
    set_default_backend, set_enable_guard_collectives, set_stance, skip_all_guards_unsafe,
    skip_guard_on_all_nn_modules_unsafe, skip_guard_on_globals_unsafe,
    skip_guard_on_inbuilt_nn_modules_unsafe, substitute_in_graph, wrap_numpy,
)

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "config", "cudagraph_mark_step_begin",
    "cudagraph_mark_warmup_incomplete", "disable", "get_default_backend", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "keep_tensor_guards_unsafe", "list_backends",
    "load_cache_artifacts", "nested_compile_region", "nonstrict_trace", "reset",
    "save_cache_artifacts", "set_default_backend", "set_enable_guard_collectives", "set_stance",
    "skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe", "substitute_in_graph", "wrap_numpy",
]


#: Whether a program is being exported.
_is_compiling_flag = _is_exporting_flag = False


def is_compiling():
    """Whether the calling code is being compiled or exported."""
    return _is_compiling_flag or is_dynamo_compiling()


def is_exporting():
    """Whether the calling code is being exported."""
    return _is_exporting_flag


def is_dynamo_compiling():
    """Whether the calling code is that of a compiled function."""
    return is_running()


def disable(fn=None, recursive=True, *, reason=None):
    """Keeps a function, or a module, out of compilation."""
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    from corten._dynamo.eval_frame import OptimizedModule
    from corten.nn import Module

    if isinstance(fn, Module):
        return OptimizedModule(fn, not_compiled)
    return not_compiled(fn)


def allow_in_graph(fn):
    """Takes a function into compilation as one piece."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(function) for function in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn):
    """Says that a function always returns the same."""
    fn._dynamo_marked_constant = True
    return fn


def reset():
    """Forgets what was compiled."""
    from corten._dynamo.utils import counters

    counters.clear()
    _C._compile_reset()


def cudagraph_mark_step_begin():
    """Marks the beginning of a step."""


from corten._homes import adopt as _adopt  # noqa: E402

_adopt(__name__, set(__all__) - {"config"})
