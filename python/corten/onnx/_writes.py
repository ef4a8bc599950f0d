"""Operators that write into tensors: ONNX has none, so the nodes that stand for the tensor and for its views get new values."""

from __future__ import annotations

import operator

from corten.onnx._translations import views

_RESHAPED = frozenset(("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as", "_reshape_alias"))
_SAME = frozenset(("alias", "detach", "dropout", "alpha_dropout", "feature_dropout", "to", "contiguous", "lift_fresh", "lift"))
_TURNED = frozenset(("transpose", "t", "swapaxes", "swapdims", "mT", "numpy_T", "permute", "movedim", "moveaxis"))
_PARTS = frozenset(("slice", "select", "narrow"))
_SEVERAL = frozenset(("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "unsafe_split", "unsafe_chunk"))
_VIEWS = _RESHAPED | _SAME | _TURNED | _PARTS | _SEVERAL | {"expand", "diagonal", "unfold", "expand_as"}


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
        elif name_of(node.target) in _VIEWS and _shares(node):
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
        lowering, name = self.lowering, name_of(node.target)
        g, whole = lowering.g, lowering.value(lowering.read(base))
        if name in _SAME or writes(node.target):
            return value
        if name in _RESHAPED:
            return g.op("Reshape", value, g.sizes(whole), shape=whole.shape)
        arguments, options = lowering.argument(node.args[1:]), lowering.argument(node.kwargs)
        if name in ("permute", "movedim", "moveaxis"):
            if name == "permute":
                order = [dim % whole.rank for dim in arguments[0]]
                return g.transpose(value, [order.index(dim) for dim in range(whole.rank)])
            return views.movedim(g, value, arguments[1], arguments[0])
        if name in _TURNED:
            return views.transpose(g, value, *(arguments or [-2, -1])) if whole.rank > 1 else value
        if name in ("slice", "select", "narrow"):
            return self._into_part(name, whole, value, arguments, options)
        return g.refuse(f"writes into the result of {name} cannot be exported")

    def _into_part(self, name, whole, value, arguments, options):
        g = self.lowering.g
        found = None
        if name == "slice":
            found = views.slice_scatter(g, whole, value, *arguments, **options)
        elif name == "select":
            found = views.select_scatter(g, whole, value, *arguments, **options)
        else:
            dim, start, length = arguments
            found = views.slice_scatter(g, whole, value, dim, start, g.compute("Add", start, length))
        found.shape = whole.shape
        return found


def _shares(node):
    """Whether the result of an operator that may copy shares memory with its argument."""
    source = node.args[0] if node.args else None
    if not hasattr(source, "meta"):
        return False
    name = name_of(node.target)
    before, after = source.meta.get("val"), node.meta.get("val")
    if name == "to":
        return getattr(before, "dtype", None) == getattr(after, "dtype", None) and not node.kwargs.get("copy")
    if name in ("contiguous", "reshape", "flatten") and hasattr(before, "is_contiguous"):
        return name != "contiguous" or before.is_contiguous()
    if "dropout" in name:
        return not (len(node.args) > 2 and node.args[2])
    return True


__all__ = ["Aliases", "name_of", "writes"]
