"""Backends that count what they are given."""

from __future__ import annotations

__all__ = ["CompileCounter", "CompileCounterWithBackend"]


class CompileCounter:
    """A backend that counts graphs and calls, and runs the graphs as they are."""

    def __init__(self):
        self.clear()

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        self.graphs.append(gm)
        return gm.forward

    def clear(self):
        """Starts anew."""
        self.frame_count = self.op_count = 0
        self.graphs = []


class CompileCounterWithBackend(CompileCounter):
    """As ``CompileCounter``, where another backend runs the graphs."""

    def __init__(self, backend):
        super().__init__()
        self.backend = backend

    def __call__(self, gm, example_inputs):
        from corten.compiler import _settings

        run = super().__call__(gm, example_inputs)
        backend = _settings.lookup(self.backend)
        return backend(gm, example_inputs) if callable(backend) else run
