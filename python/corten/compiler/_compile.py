"""``compile``: runs a model as it is."""

from __future__ import annotations


def compile(
    model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None,
    disable=False, recompile_limit=None, isolate_recompiles=False,
):
    """Returns the function or module itself: eager execution is this build's only backend."""
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    _say_once()
    if model is None:
        return lambda function: function
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
