"""Names of sizes that are known when the model runs."""

from __future__ import annotations

import re

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


class Names:
    """How sizes are called in the file: symbols by the names that the caller gave, other expressions by them."""

    def __init__(self):
        self.given = {}

    def __call__(self, size):
        expression = str(getattr(getattr(size, "node", None), "expr", size))
        found = _SYMBOL.sub(lambda match: self.given.get(match.group(), match.group()), expression)
        return found if _SYMBOL.fullmatch(found) else found.replace(" ", "")

    def give(self, size, name):
        """Calls a symbol ``name``, unless it has one."""
        symbol = str(getattr(getattr(size, "node", None), "expr", size))
        if _SYMBOL.fullmatch(symbol):
            self.given.setdefault(symbol, name)


def _name(spec):
    """The name of a dimension that a caller gave: a string, or that of a ``Dim``."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, int) or spec is None or str(spec).startswith(("_DimHint", "DimHint")) or not hasattr(spec, "__name__"):
        return None
    return spec.__name__


def aligned(specs, value):
    """The specification of each leaf of an argument, ``None`` for those without."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return [_by_dimension(specs)]
    if isinstance(value, dict):
        found = specs if isinstance(specs, dict) else {}
        return [leaf for key, part in value.items() for leaf in aligned(found.get(key), part)]
    if isinstance(value, (list, tuple)):
        found = list(specs) if isinstance(specs, (list, tuple)) else []
        found += [None] * (len(value) - len(found))
        return [leaf for spec, part in zip(found, value) for leaf in aligned(spec, part)]
    from corten.utils._pytree import tree_leaves

    parts = tree_leaves(value)
    if len(parts) == 1 and parts[0] is value:
        return [None]
    found = list(specs) if isinstance(specs, (list, tuple)) and len(specs) == len(parts) else [None] * len(parts)
    return [leaf for spec, part in zip(found, parts) for leaf in aligned(spec, part)]


def _by_dimension(spec):
    """The specification of a tensor by its dimensions."""
    return dict(enumerate(spec)) if isinstance(spec, (list, tuple)) else spec


def name_inputs(names, specs, shapes):
    """Gives the symbols in the shapes of inputs the names that their specifications have."""
    for spec, shape in zip(specs, shapes):
        if not spec or shape is None:
            continue
        for dim, part in spec.items():
            name = _name(part)
            if name is not None and dim < len(shape) and not isinstance(shape[dim], int):
                names.give(shape[dim], name)


def with_hints(specs, hint):
    """Specifications with a hint that sizes may change in place of names."""
    if isinstance(specs, str):
        return hint
    if isinstance(specs, dict):
        return {key: with_hints(part, hint) for key, part in specs.items()}
    if isinstance(specs, (list, tuple)):
        return type(specs)(with_hints(part, hint) for part in specs)
    return specs


def of_axes(dynamic_axes, input_names, arguments, hint):
    """Specifications in the order of arguments, of ``dynamic_axes`` by names; and the names of all axes."""
    found, axes = [], {}
    for name, given in dynamic_axes.items():
        pairs = given.items() if isinstance(given, dict) else [(dim, f"{name}_dim_{dim}") for dim in given]
        axes[name] = {int(dim): axis or f"{name}_dim_{dim}" for dim, axis in pairs}
    for i, argument in enumerate(arguments):
        name = input_names[i] if i < len(input_names) else None
        found.append({dim: hint for dim in axes[name]} if name in axes and hasattr(argument, "shape") else None)
    return found, axes
