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


def leaves(specs):
    """The specifications of tensors in the order of their arguments, and whether each is of a tensor."""
    if specs is None:
        return [None]
    if isinstance(specs, dict):
        if specs and all(isinstance(key, int) for key in specs):
            return [specs]
        return [leaf for part in specs.values() for leaf in leaves(part)]
    if isinstance(specs, (list, tuple)):
        if specs and all(part is None or isinstance(part, (str, int)) or _is_dim(part) for part in specs) and not all(
            part is None for part in specs
        ):
            return [dict(enumerate(specs))]
        return [leaf for part in specs for leaf in leaves(part)]
    return [None]


def _is_dim(spec):
    return not isinstance(spec, (dict, list, tuple)) and (hasattr(spec, "__name__") or "Dim" in type(spec).__name__)


def name_inputs(names, specs, shapes):
    """Gives the symbols in the shapes of inputs the names that their specifications have."""
    for spec, shape in zip(leaves(specs), shapes):
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
