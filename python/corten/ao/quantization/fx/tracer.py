"""Tracing of models that are to be quantised."""

from __future__ import annotations

from corten import nn
from corten.ao.nn.intrinsic import _FusedModule
from corten.fx import Tracer
from corten.fx.proxy import Scope, ScopeContextManager as _ScopeContextManager

__all__ = ["QuantizationTracer"]


class ScopeContextManager(_ScopeContextManager):
    """The scope of a module while it is traced."""

    def __init__(self, scope, current_module, current_module_path):
        super().__init__(scope, Scope(current_module_path, type(current_module)))


class QuantizationTracer(Tracer):
    """Stops at modules of this package, fused modules, and what it is told to skip."""

    def __init__(self, skipped_module_names, skipped_module_classes):
        super().__init__()
        self.skipped_module_names = skipped_module_names
        self.skipped_module_classes = skipped_module_classes
        self.scope = Scope("", None)
        self.record_stack_traces = True

    def is_leaf_module(self, m, module_qualified_name):
        """Whether a module becomes one node."""
        package = nn.__name__.partition(".")[0]
        known = m.__module__.startswith((f"{package}.nn", f"{package}.ao.nn"))
        return (
            (known and not isinstance(m, nn.Sequential))
            or module_qualified_name in self.skipped_module_names
            or type(m) in self.skipped_module_classes
            or isinstance(m, _FusedModule)
        )
