"""``compile``: runs a model as it is."""

from __future__ import annotations

#: The modes that may be asked for.
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def compile(
    model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None,
    disable=False, recompile_limit=None, isolate_recompiles=False,
):
    """Returns the function itself, or the module in an ``OptimizedModule``: eager execution is this
    build's only backend.

    Raises:
        RuntimeError: The options contradict each other, or there is no such mode.
        AssertionError: ``model`` cannot be called.
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    _say_once()
    if model is None:
        return _compiled
    return model if disable else _compiled(model)


def _compiled(model):
    from corten._dynamo.eval_frame import OptimizedModule
    from corten.nn import Module

    if isinstance(model, Module) and not isinstance(model, OptimizedModule):
        return OptimizedModule(model)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    return model


_said = []


def _say_once():
    if not _said:
        import warnings

        _said.append(True)
        warnings.warn("compile runs models as they are: nothing is compiled", stacklevel=3)


def cond(pred, true_fn, false_fn, operands=()):
    """Calls one of two functions."""
    return (true_fn if bool(pred) else false_fn)(*operands)
