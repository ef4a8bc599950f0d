"""``compile``: runs the operators that a function calls in groups."""

from __future__ import annotations

from corten.compiler import _settings
from corten.compiler._regions import Options, compiled

#: The modes that may be asked for.
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def compile(
    model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None,
    disable=False, recompile_limit=None, isolate_recompiles=False,
):
    """Returns a function, or a module, that gives what ``model`` gives: the operators that it calls
    are recorded, and run together where a result is looked at, at the latest when it returns.

    Args:
        model: A function, a method or a module; without one a decorator is returned.
        fullgraph: Whether it is an error to look at data inside.
        dynamic: Kept; programs of any sizes are planned in microseconds.
        backend: ``"inductor"`` is the compiler of this library, ``"eager"`` and ``"aot_eager"`` run
            the function as it is; a function gets graphs of the calls.
        mode: One of ``MODES``.
        options: Settings of the backend.
        disable: Returns ``model`` as it is.

    Raises:
        RuntimeError: The options contradict each other, or there is no such mode.
        AssertionError: ``model`` cannot be called.
        InvalidBackend: There is no such backend.
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    wanted = Options(backend, mode, options, fullgraph, dynamic)
    if disable:
        return (lambda function: function) if model is None else model
    _settings.lookup(backend)
    if model is None:
        return lambda function: _compiled(function, wanted)
    return _compiled(model, wanted)


def _compiled(model, options):
    from corten._dynamo.eval_frame import OptimizedModule
    from corten.nn import Module

    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    if isinstance(model, Module):
        return OptimizedModule(model, options)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    return compiled(getattr(model, "_torchdynamo_orig_callable", model), options)
