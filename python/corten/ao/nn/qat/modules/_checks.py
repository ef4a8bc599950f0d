"""What modules with fake quantization ask of configurations."""

from __future__ import annotations

__all__ = ["check_given", "check_source"]


def check_given(qconfig):
    """A module in training needs a configuration."""
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")


def check_source(mod, kind="qconfig"):
    """A float module is converted as its configuration says."""
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    if not mod.qconfig:
        raise AssertionError(f"Input float module must have a valid {kind}")
