"""Modules of exported graphs, whose ``forward`` takes and gives what the original one did."""

from __future__ import annotations

import copy

import corten.fx._pytree as fx_pytree
import corten.utils._pytree as pytree
from corten.fx import GraphModule
from corten.fx._code import PythonCode
from corten.fx.graph_module import _compiled
from corten.nn import Module

__all__ = ["ExportedModule"]


def _flattening(names, spec):
    """How the arguments of a function are put together as they were exported."""
    positional = spec.children_specs[0].num_children if spec.num_children == 2 and spec.type is tuple else None
    if positional is None or spec.children_specs[1].type is not dict:
        return f"fx_pytree.tree_flatten_spec([{', '.join(names)}], self._in_spec)"
    given = ", ".join(names[:positional])
    keys = spec.children_specs[1].context
    named = ", ".join(f"{key!r}:{name}" for key, name in zip(keys, names[positional:]))
    return f"fx_pytree.tree_flatten_spec(([{given}], {{{named}}}), self._in_spec)"


class ExportedModule(GraphModule):
    """A graph that runs between trees of arguments and results."""

    def __init__(self, root, graph, in_spec=None, out_spec=None, names=(), class_name="GraphModule"):
        self_dict = {"_in_spec": in_spec, "_out_spec": out_spec, "_names": list(names)}
        Module.__init__(self)
        self.__dict__.update(self_dict)
        super().__init__(root, graph, class_name)
        self.__dict__.update(self_dict)

    def __setattr__(self, name, value):
        if name == "training" and "_in_spec" not in self.__dict__:
            self.__dict__.setdefault("_in_spec", None)
        super().__setattr__(name, value)

    def recompile(self):
        """Generates ``forward`` again, after changes of the graph."""
        made = self._graph.python_code(root_module="self")
        if self.__dict__.get("_in_spec") is not None:
            made = PythonCode(self._between_trees(made.src), {
                **made.globals, "fx_pytree": fx_pytree, "pytree": pytree,
            })
        self.__dict__["_code"] = made.src
        type(self).forward = _compiled(made)
        return made

    def _between_trees(self, source):
        head, body = source.split("\ndef forward(self", 1)
        _, _, body = body.partition(":\n")
        inputs = [node.name for node in self._graph.nodes if node.op == "placeholder"]
        first = f"    {', '.join(inputs)}, = {_flattening(self._names, self._in_spec)}\n" if inputs else ""
        lines = body.split("\n")
        for place, line in enumerate(lines):
            if line.startswith("    return ") and self._out_spec is not None:
                lines[place] = f"    return pytree.tree_unflatten({line[len('    return '):]}, self._out_spec)"
        names = "".join(f", {name}" for name in self._names)
        return f"{head}\ndef forward(self{names}):\n{first}" + "\n".join(lines)

    def __deepcopy__(self, memo):
        holder = Module()
        holder.__dict__.update({
            key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()
            if key not in ("_graph", "train", "eval", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs")
        })
        graph = copy.deepcopy(self._graph, memo)
        made = ExportedModule(holder, graph, self._in_spec, self._out_spec, self._names, type(self).__name__)
        for key, value in holder.__dict__.items():
            if key not in ("_parameters", "_buffers", "_modules", "_code") and key not in made.__dict__:
                made.__dict__[key] = value
        made._non_persistent_buffers_set.update(self._non_persistent_buffers_set)
        from corten.export._unlift import _check_input_constraints_pre_hook

        made.register_forward_pre_hook(_check_input_constraints_pre_hook, with_kwargs=True)
        memo[id(self)] = made
        return made

    def __copy__(self):
        return copy.deepcopy(self)

    def __reduce__(self):
        members = {key: value for key, value in self.__dict__.items() if key not in ("_graph", "train", "eval")}
        raise TypeError(
            f"a module of an exported program cannot be pickled; save the program with torch.export.save "
            f"({len(members)} members)"
        )
