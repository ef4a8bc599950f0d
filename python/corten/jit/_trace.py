"""Traces, under the names of their home in PyTorch."""

from corten.jit import TracerWarning, TracingCheckError, _get_trace_graph, _script_if_tracing, is_tracing  # noqa: F401
from corten.jit._scripted import TopLevelTracedModule  # noqa: F401
from corten.jit._traced import trace, trace_module  # noqa: F401
