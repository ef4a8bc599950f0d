"""From captured graphs to graphs of ONNX. The graphs may be those of any library whose nodes are torch.fx's: operators are
known by their names."""

from __future__ import annotations

import operator

from corten.onnx import _control, _table
from corten.onnx._builder import Builder, Meta, dimension
from corten.onnx._graph import ELEMENT_TYPES, Graph, Value, element_type
from corten.onnx._writes import Aliases, writes
from corten.onnx.errors import OnnxExporterError

#: Constants of that many elements at most are computed while the model is exported.
_FOLDED = 1 << 16
#: Operators that are only read for the shapes that they check.
_CHECKS = ("_assert", "sym_constrain")


class Folded:
    """A tensor that does not depend on the inputs."""

    __slots__ = ("name", "tensor", "value")

    def __init__(self, tensor, name=None):
        self.tensor, self.name, self.value = tensor, name, None


class Module:
    """A graph that is an argument of an operator."""

    def __init__(self, module):
        self.module = module


class Lowering:
    """Walks the nodes of a captured program and writes them with a builder."""

    def __init__(self, opset, names, custom=None):
        self.graph = Graph("main_graph")
        self.g = Builder(self.graph, opset)
        self.g.needs = self._needs
        self.g.cast_scalar = self._cast_scalar
        self.names, self.custom = names, custom or {}
        self.table = _table.load()
        self.values, self.node = {}, None
        self.aliases = Aliases(self)

    # Values of nodes.

    def value(self, found):
        """What a node is known as to translations."""
        if isinstance(found, Folded):
            if found.value is None:
                found.value = self._constant(found)
            return found.value
        return found

    def _constant(self, folded):
        tensor = folded.tensor
        shape, dtype = tuple(int(size) for size in tensor.shape), element_type(tensor.dtype)
        if tensor.numel() <= 64 and not folded.name:
            data = tensor.reshape(-1).tolist()
            return self.graph.constant(data, dtype, shape)
        return self.graph.initializer(folded.name or "constant", tensor, dtype, shape)

    def read(self, node):
        """What a node is known as now: a view of a tensor that was written is computed again."""
        if node in self.aliases.stale:
            self.aliases.stale.discard(node)
            kept = self.node, self.g.label, self.g.out, self.g.outs, self.g.metadata
            self.node = node
            source = self.read(self.aliases.base[node])
            self.values[node] = source if writes(node.target) else self._call(node, fold=False)
            self.node, self.g.label, self.g.out, self.g.outs, self.g.metadata = kept
        return self.values[node]

    def argument(self, argument):
        """An argument of a node with values for nodes."""
        if type(argument).__name__ == "Node":
            return self.value(self.read(argument))
        if isinstance(argument, (list, tuple)):
            return [self.argument(part) for part in argument]
        if type(argument).__name__ == "immutable_dict" or isinstance(argument, dict):
            return {key: self.argument(part) for key, part in argument.items()}
        return argument

    def _needs(self, index):
        """Whether a result of the node that is translated is used."""
        return any(user.op != "call_function" or user.target is not operator.getitem or user.args[1] == index and user.users
                   for user in self.node.users)

    def _cast_scalar(self, size):
        if isinstance(size, Value):
            return self.g.op("Squeeze", size, self.g.vector([0]), shape=())
        return self.g.scalar(size, ELEMENT_TYPES["int64"])

    # Graphs.

    def inline(self, module, operands):
        """Writes the nodes of a graph that is an argument, with operands for its inputs; gives its results."""
        module = module.module if isinstance(module, Module) else module
        outer, self.values = self.values, dict(self.values)
        node = self.node
        try:
            operands = iter(operands)
            for inner in module.graph.nodes:
                if inner.op == "placeholder":
                    self.values[inner] = next(operands)
                elif inner.op == "output":
                    results = self.argument(inner.args[0])
                    return list(results) if isinstance(results, list) else [results]
                else:
                    self.visit(module, inner)
        finally:
            self.values, self.node = outer, node
        return []

    def visit(self, module, node):
        """Writes one node."""
        self.node = node
        if node.op == "get_attr":
            self.values[node] = self._attribute(module, node)
        elif node.op == "call_function":
            self.values[node] = self._call(node)
            self.aliases.note(node)
            if writes(node.target):
                self.aliases.write(node.args[0], self.values[node], node)
        else:
            raise OnnxExporterError(f"nodes of the kind {node.op!r} cannot be exported: {node.format_node()}")

    def _attribute(self, module, node):
        found = module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        return Module(found) if hasattr(found, "graph") else Folded(found)

    def _call(self, node, fold=True):
        if node.target is operator.getitem:
            found = self.read(node.args[0])
            found = found[self.argument(node.args[1])]
            self._name(found, node)
            return found
        folded = self._folded(node) if fold else None
        if folded is not None:
            return folded
        self._describe(node)
        found = self._translated(node)
        if isinstance(found, Value) and self.g.outs:
            self._typed(found, self.g.out)
        elif isinstance(found, (tuple, list)):
            found = tuple(found)
            for value, meta in zip(found, self.g.outs):
                if isinstance(value, Value) and meta is not None:
                    self._typed(value, meta)
        if isinstance(found, Value):
            self._name(found, node)
        return found

    def _translated(self, node):
        label = self.g.label
        arguments, options = self.argument(node.args), self.argument(node.kwargs)
        if node.target in self.custom:
            return self.custom[node.target](self, node, arguments, options)
        control = _control.find(node.target)
        if control is not None and not hasattr(node.target, "_schema"):
            found = control(self, node, *arguments, **options)
            self._describe(node)
            return found
        write = _table.find(node.target)
        if write is None:
            if any(part in label for part in _CHECKS):
                return None
            raise unsupported(node)
        try:
            return write(self.g, *arguments, **options)
        except OnnxExporterError as error:
            raise OnnxExporterError(f"{error}{_where(node)}") from error
        except Exception as error:
            raise OnnxExporterError(f"{label} with the arguments {node.args} {dict(node.kwargs)} cannot be exported: "
                                    f"{type(error).__name__}: {error}{_where(node)}") from error

    def _describe(self, node):
        """Tells the builder about the node that is translated."""
        g = self.g
        g.label = label_of(node.target)
        val = node.meta.get("val")
        parts = val if isinstance(val, (tuple, list)) else [val]
        g.outs = [None if part is None or isinstance(part, str) else Meta(part, self.names) for part in parts]
        g.out = g.outs[0] if g.outs else None
        g.metadata = self._metadata(node)

    def _metadata(self, node):
        scopes, classes = [""], []
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            scopes.append(path.removeprefix("L['self'].") if isinstance(path, str) else str(path))
            classes.append(kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}")
        scopes = scopes[1:] if len(scopes) > 1 and scopes[1] == "" else scopes
        scopes.append(node.name)
        found = {
            "namespace": "/".join(f"{scope}: {kind}" for scope, kind in zip(scopes, [*classes, self.g.label])),
            "pkg.torch.onnx.class_hierarchy": str([*classes, self.g.label]),
            "pkg.torch.onnx.fx_node": node.format_node() or "",
            "pkg.torch.onnx.name_scopes": str(scopes),
        }
        if node.meta.get("stack_trace"):
            found["pkg.torch.onnx.stack_trace"] = node.meta["stack_trace"].strip()
        return found

    def _typed(self, value, meta):
        """What the captured graph knows of a value."""
        if value.dtype is None:
            value.dtype = meta.dtype
        if value.data is None and value.tensor is None and not (value.is_size and not meta.is_size):
            value.shape = meta.shape
            if meta.is_size:
                value.is_size = True

    def _name(self, value, node):
        if isinstance(value, Value) and value.name.startswith("val_") and value.data is None and value.tensor is None:
            self.graph.rename(value, node.name)

    # Constants.

    def _folded(self, node):
        """The result of an operator whose operands are known, computed now."""
        if not hasattr(node.target, "_schema") or writes(node.target):
            return None
        val = node.meta.get("val")
        if not hasattr(val, "dtype") or any(not isinstance(dimension(size, str), int) for size in val.shape):
            return None
        count = 1
        for size in val.shape:
            count *= int(size)
        if count > _FOLDED or _random(node.target):
            return None
        arguments = []
        if not self._known(node.args, arguments) or not self._known(node.kwargs, arguments):
            return None
        try:
            return Folded(node.target(*self._tensors(node.args), **self._tensors(node.kwargs)).detach())
        except Exception:  # noqa: BLE001
            # What cannot be computed here is written as an operator, which says what is wrong with it.
            return None

    def _known(self, argument, found):
        if type(argument).__name__ == "Node":
            found.append(argument)
            return argument not in self.aliases.stale and isinstance(self.values.get(argument), (Folded, int, float, bool))
        if isinstance(argument, (list, tuple)):
            return all(self._known(part, found) for part in argument)
        if hasattr(argument, "items"):
            return all(self._known(part, found) for part in argument.values())
        return True

    def _tensors(self, argument):
        if type(argument).__name__ == "Node":
            found = self.values[argument]
            return found.tensor if isinstance(found, Folded) else found
        if isinstance(argument, (list, tuple)):
            return [self._tensors(part) for part in argument]
        if hasattr(argument, "items"):
            return {key: self._tensors(part) for key, part in argument.items()}
        return argument


def _random(target):
    return any("nondeterministic" in str(tag) for tag in getattr(target, "tags", ()))


def _where(node):
    trace = (node.meta.get("stack_trace") or "").strip()
    return f"\nIt was called here:\n{trace}" if trace else ""


def label_of(target):
    """The name of what a node calls, as messages have it."""
    return str(target) if hasattr(target, "_schema") else getattr(target, "__name__", str(target))


def unsupported(node):
    """The error of an operator without a translation."""
    return OnnxExporterError(
        f"No ONNX function found for {label_of(node.target)}. A translation can be given in custom_translation_table, or with "
        f"torch.onnx.register_custom_op_symbolic.{_where(node)}"
    )


def missing(graph_module, custom=()):
    """The operators of a captured graph that have no translation, graphs within it included."""
    _table.load()
    found, modules = [], [graph_module]
    while modules:
        module = modules.pop()
        for node in module.graph.nodes:
            if node.op == "get_attr" and "." not in str(node.target):
                inner = getattr(module, str(node.target), None)
                if hasattr(inner, "graph"):
                    modules.append(inner)
            elif node.op == "call_function" and node.target not in custom and not _supported(node.target):
                found.append(node)
    return found


def _supported(target):
    if target is operator.getitem or not hasattr(target, "_schema") and _control.find(target) is not None:
        return True
    return _table.find(target) is not None or any(part in label_of(target) for part in _CHECKS)


__all__ = ["Folded", "Lowering", "Module", "label_of", "missing"]
