"""The table of translations: which function writes which operator."""

from __future__ import annotations

import importlib

#: Translations by the names of operators, with or without their overload.
TABLE = {}
#: Families of translations, a module each.
FAMILIES = (
    "pointwise", "activations", "reductions", "products", "norms", "pooling", "views", "indexing", "creation",
    "images", "attention", "recurrent", "quantization", "sizes",
)


def translation(*names):
    """Enters a function for operators: ``"add"`` for all overloads of ``aten.add``, ``"max.dim"`` for one,
    ``"torchvision.nms"`` for one of another package."""

    def enter(function):
        for name in names:
            TABLE[name] = function
        return function

    return enter


def load():
    """The table with all families."""
    for family in FAMILIES:
        importlib.import_module(f"corten.onnx._translations.{family}")
    return TABLE


def find(target):
    """The translation of what a node of a graph calls, or ``None``."""
    for name in names_of(target):
        if name in TABLE:
            return TABLE[name]
    return None


def names_of(target):
    """The names that a function may be entered by, the one of the overload first."""
    if hasattr(target, "_schema") or hasattr(target, "overloadpacket"):
        full = str(target).removeprefix("aten.")
        base, _, overload = full.rpartition(".")
        found = [full.removesuffix(".default"), full, base]
        # What writes into its argument computes what the operator of the same name without the underscore gives.
        if base.endswith("_") and not base.startswith("__"):
            found.extend((f"{base[:-1]}.{overload}", base[:-1]))
        return found
    module, name = getattr(target, "__module__", "") or "", getattr(target, "__name__", str(target))
    return [f"python.{name.strip('_')}", f"{module}.{name}"]
