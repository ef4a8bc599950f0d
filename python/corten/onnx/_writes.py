"""Operators that write into tensors: ONNX has none, so the nodes that stand for the tensor and for its views get new values."""

from __future__ import annotations

import operator

from corten.onnx._translations import views


def name_of(target):
    """The name of an operator without its package and overload."""
    parts = str(target).split(".")
    return parts[1] if hasattr(target, "_schema") and len(parts) > 1 else ""


def writes(target):
    """Whether an operator writes into its first argument."""
    name = name_of(target)
    return name.endswith("_") and not name.startswith("__")


class Aliases:
    """Which nodes share memory, and which of them have to be computed again after it was written."""

    def __init__(self, lowering):
        self.lowering = lowering
        self.base, self.children, self.stale = {}, {}, set()

    def note(self, node):
        """Enters a node if it is a view."""
        if node.target is operator.getitem:
            source = node.args[0] if node.args[0] in self.base else None
        elif _is_view(node.target) and _shares(node):
            source = node.args[0]
        elif writes(node.target):
            source = node.args[0]
        else:
            return
        if source is not None:
            self.base[node] = source
            self.children.setdefault(source, []).append(node)

    def write(self, node, value, origin=None):
        """Gives a node a new value, the tensors that it is a view of, and all views of these."""
        self.lowering.values[node] = value
        self.stale.discard(node)
        base = self.base.get(node)
        if base is not None and base is not origin:
            if node.target is operator.getitem:
                self._write_part(node, value)
            else:
                self.write(base, self._inverse(node, base, value), node)
        for child in self.children.get(node, ()):
            if child is not origin:
                self._outdate(child)

    def _outdate(self, node):
        self.stale.add(node)
        for child in self.children.get(node, ()):
            self._outdate(child)

    def _write_part(self, node, value):
        """Writes one of the parts that an operator split a tensor into."""
        split = node.args[0]
        g = self.lowering.g
        parts = [self.lowering.value(part) for part in self.lowering.read(split)]
        parts[node.args[1]] = value
        name = name_of(split.target)
        dim = split.kwargs.get("dim", split.args[-1] if len(split.args) > (1 if name == "unbind" else 2) else 0)
        whole = self.lowering.value(self.lowering.read(split.args[0]))
        if name == "unbind":
            parts = [g.unsqueeze(part, [dim % whole.rank], part.rank) for part in parts]
        joined = g.op("Concat", *parts, shape=whole.shape, axis=dim)
        self.lowering.values[split] = tuple(parts)
        self.write(split.args[0], joined, split)
        self._outdate(split)

    def _inverse(self, node, base, value):
        """The tensor that a view is of, when the view has a new value."""
        lowering = self.lowering
        g, whole = lowering.g, lowering.value(lowering.read(base))
        if writes(node.target):
            return value
        known = _INVERSES.get(name_of(node.target))
        if known is not None:
            found = known(g, whole, value, *lowering.argument(node.args[1:]), **lowering.argument(node.kwargs))
            found.shape = whole.shape
            return found
        if node.meta["val"].shape == base.meta["val"].shape:
            return value
        return g.op("Reshape", value, g.sizes(whole), shape=whole.shape)


def _unpermuted(g, whole, value, dims):
    order = [dim % whole.rank for dim in dims]
    return g.transpose(value, [order.index(dim) for dim in range(whole.rank)])


def _transposed(g, whole, value, dim0=-2, dim1=-1):
    return views.transpose(g, value, dim0, dim1) if whole.rank > 1 else value


def _unnarrowed(g, whole, value, dim, start, length):
    return views.slice_scatter(g, whole, value, dim, start, g.compute("Add", start, length))


def _refused(g, whole, value, *arguments, **options):
    g.refuse("writes into a view with elements that are many times, or not in order, cannot be exported")


#: What brings the value of a view back into the tensor; views that are not here are reshapes of it.
_INVERSES = {
    "permute": _unpermuted, "transpose": _transposed, "t": _transposed, "mT": _transposed, "numpy_T": _transposed,
    "swapaxes": _transposed, "swapdims": _transposed,
    "movedim": lambda g, whole, value, source, destination: views.movedim(g, value, destination, source),
    "slice": lambda g, whole, value, *part, **named: views.slice_scatter(g, whole, value, *part, **named),
    "select": lambda g, whole, value, dim, index: views.select_scatter(g, whole, value, dim, index),
    "narrow": _unnarrowed, "expand": _refused, "expand_as": _refused, "diagonal": _refused, "unfold": _refused,
    "as_strided": _refused,
}


def _is_view(target):
    """Whether the schema says that results share memory with the argument; dropout that does not run does, too."""
    schema = str(getattr(target, "_schema", ""))
    return "(a" in schema and "!" not in schema or name_of(target).endswith("dropout")


def _shares(node):
    """Whether the result of an operator that may copy shares memory with its argument."""
    source = node.args[0] if node.args else None
    if not hasattr(source, "meta") or not name_of(node.target):
        return False
    name = name_of(node.target)
    before, after = source.meta.get("val"), node.meta.get("val")
    if name == "to":
        return getattr(before, "dtype", None) == getattr(after, "dtype", None) and not node.kwargs.get("copy")
    if name == "contiguous":
        return before.is_contiguous()
    if "dropout" in name:
        return not (len(node.args) > 2 and node.args[2])
    return True


__all__ = ["Aliases", "name_of", "writes"]
