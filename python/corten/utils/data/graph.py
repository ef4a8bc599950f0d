"""The pipes before a pipe."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from .datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

_PIPES = (IterDataPipe, MapDataPipe)


def traverse_dps(datapipe):
    """A pipe and those before it: ``{id(pipe): (pipe, {…})}``. They are found as attributes of
    pipes, and in lists, tuples, sets and dictionaries there."""
    if not isinstance(datapipe, _PIPES):
        raise RuntimeError(
            f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found"
        )
    return _graph(datapipe, frozenset())


def traverse(datapipe, only_datapipe=None):
    """Deprecated: see :func:`traverse_dps`."""
    warnings.warn(
        "`traverse` function is deprecated and will be removed after 1.13. Please use "
        "`traverse_dps` instead.", FutureWarning, stacklevel=2,
    )
    return traverse_dps(datapipe)


def _graph(pipe, behind):
    if id(pipe) in behind:
        return {}
    behind = behind | {id(pipe)}
    before = {}
    for other in _connected(list(vars(pipe).values()), set()):
        before.update(_graph(other, behind))
    return {id(pipe): (pipe, before)}


def _connected(value, seen):
    """The pipes in a value, each once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, _PIPES):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from _connected(list(pair), seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _connected(item, seen)
