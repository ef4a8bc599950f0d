"""``export`` of the older interface: the graph of a call."""

from __future__ import annotations

import typing

__all__ = ["ExportResult", "export"]


class ExportResult(typing.NamedTuple):
    """A module of operators, and the conditions under which it holds, which it checks itself."""

    graph_module: object
    guards: set


def export(f, *extra_args, aten_graph=False, pre_dispatch=False, decomposition_table=None, tracing_mode="symbolic",
           dynamic_shapes=None, specialize_float=True, assume_static_by_default=False, same_signature=True,
           **extra_kwargs):
    """The graph of a function or module: ``export(f)(*args)``. New programs call :func:`torch.export.export`."""

    def of_call(*args, **kwargs):
        from corten import export as programs
        from corten.export._trace import _wrapped_as_module

        program = programs.export(_wrapped_as_module(f), args, kwargs, dynamic_shapes=dynamic_shapes)
        if decomposition_table:
            program = program.run_decompositions(decomposition_table)
        return ExportResult(program.module(), set())

    if extra_args or extra_kwargs:
        return of_call(*extra_args, **extra_kwargs)
    return of_call
