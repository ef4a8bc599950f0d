"""``GraphModule``: a module whose ``forward`` is generated from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import types

import corten
from corten import nn

from ._code import GLOBALS, PythonCode
from .graph import Graph

__all__ = ["GraphModule", "reduce_graph_module"]

_numbers = itertools.count()


def _compiled(code):
    """The function of generated code, whose lines tracebacks can show."""
    file = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[file] = (len(code.src), None, code.src.splitlines(True), file)
    names = {**code.globals, "torch": corten}
    exec(compile(code.src, file, "exec"), names)  # noqa: S102
    return names["forward"]


def _copy_attr(source, target, name):
    """Copies an attribute of a module below ``source`` to the same place below ``target``."""
    *path, last = name.split(".")
    for part in path:
        source = getattr(source, part, None)
        if source is None:
            return
        if not hasattr(target, part):
            setattr(target, part, nn.Module())
        target = getattr(target, part)
    value = getattr(source, last)
    if isinstance(value, corten.Tensor) and not isinstance(value, nn.Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


def _assign_attr(value, target, name):
    *path, last = name.split(".")
    for part in path:
        if not hasattr(target, part):
            setattr(target, part, nn.Module())
        target = getattr(target, part)
    if isinstance(value, corten.Tensor) and not isinstance(value, nn.Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


def _indented(code):
    return "\n".join(f"    {line}" if line.strip() else "" for line in code.split("\n"))


def _readable(module, name, options):
    """A graph as a class, with those of modules below."""
    code = module.graph.python_code("self", verbose=True, **options).src.lstrip("\n")
    text = f"class {name}(torch.nn.Module):\n{_indented(code)}"
    options = {key: value for key, value in options.items() if key != "expanded_def"}
    for child, inner in module.named_children():
        if isinstance(inner, GraphModule):
            text += "\n" + _indented(_readable(inner, child, options))
    return text


class GraphModule(nn.Module):
    """A module that runs a graph. ``root`` gives the modules, parameters and tensors that the graph
    names: a module, or a dictionary of them by name."""

    def __new__(cls, *args, **kwargs):
        # Every instance has a class of its own, whose forward is generated.
        base = next(kind for kind in cls.__mro__ if "forward" not in vars(kind) or kind is GraphModule)
        made = type("GraphModuleImpl", (base,), {"__module__": base.__module__})
        return super().__new__(made)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        type(self).__name__ = type(self).__qualname__ = class_name
        if isinstance(root, nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            named = [node for node in graph.nodes if node.op in ("get_attr", "call_module")]
            wanted = [node.target for node in named]
            for node in named:
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for target in sorted(wanted, key=lambda name: name.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.__dict__["meta"] = {}
        if isinstance(getattr(root, "__dict__", {}).get("meta"), dict):
            self.__dict__["meta"].update(root.meta)
        self.graph = graph

    @property
    def graph(self):
        """The graph; :meth:`recompile` follows every change of it."""
        return self._graph

    @graph.setter
    def graph(self, graph):
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self):
        """The source of ``forward``."""
        return self._code

    def recompile(self):
        """Generates ``forward`` again, after changes of the graph."""
        made = self._graph.python_code(root_module="self")
        self.__dict__["_code"] = made.src
        self.__dict__["_lineno_map"], self.__dict__["_prologue_start"] = made._lineno_map, made._prologue_start
        info = getattr(self._graph._codegen, "pytree_info", None)
        if info is not None:
            self.__dict__["_in_spec"], self.__dict__["_out_spec"] = info.in_spec, info.out_spec
        type(self).forward = _compiled(made)
        return made

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)

    def __str__(self):
        text = super().__str__()
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([text, self._code, reminder])

    def print_readable(self, print_output=True, include_stride=False, include_device=False,
                       colored=False, *, fast_sympy_print=False, expanded_def=False, additional_meta=None):
        """Prints the graph as a class, with the graphs of modules below; gives the text."""
        options = {"include_stride": include_stride, "include_device": include_device, "colored": colored}
        if expanded_def:
            options["expanded_def"] = True
        if additional_meta:
            options["additional_meta"] = additional_meta
        text = _readable(self, type(self).__name__, options)
        if print_output:
            print(text)
        return text

    # Modules below

    def add_submodule(self, target, m):
        """Adds a module at a dotted name; says whether that was possible."""
        *path, last = target.split(".")
        home = self
        for part in path:
            if not hasattr(home, part):
                setattr(home, part, nn.Module())
            home = getattr(home, part)
            if not isinstance(home, nn.Module):
                return False
        home.add_module(last, m)
        return True

    def delete_submodule(self, target):
        """Deletes the module at a dotted name; says whether there was one."""
        *path, last = target.split(".")
        home = self
        for part in path:
            home = getattr(home, part, None)
            if not isinstance(home, nn.Module):
                return False
        if not isinstance(getattr(home, last, None), nn.Module):
            return False
        delattr(home, last)
        return True

    def delete_all_unused_submodules(self):
        """Deletes the modules that the graph does not name."""
        used = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                path = node.target.split(".")
                used.update(".".join(path[:count]) for count in range(1, len(path) + 1))
                if node.op == "call_module":
                    try:
                        below = self.get_submodule(node.target).named_modules()
                        used.update(f"{node.target}.{name}" for name, _ in below if name)
                    except AttributeError:
                        continue
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # Copies

    def __deepcopy__(self, memo):
        members = {
            key: copy.deepcopy(value, memo) for key, value in self.__dict__.items() if key != "_graph"
        }
        holder = nn.Module()
        holder.__dict__.update(members)
        made = GraphModule(holder, copy.deepcopy(self._graph, memo), type(self).__name__)
        for key, value in members.items():
            if key not in ("_parameters", "_buffers", "_modules", "_code"):
                made.__dict__[key] = value
        memo[id(self)] = made
        return made

    def __copy__(self):
        made = GraphModule(self, self.graph)
        made.__dict__["meta"] = dict(self.__dict__.get("meta", {}))
        return made

    def __reduce__(self):
        members = self.__dict__.copy()
        graph = members.pop("_graph")
        code = graph.python_code("self")
        members["_code"] = code.src
        members["_graphmodule_cls_name"] = type(self).__name__
        names = {
            key: value for key, value in code.globals.items()
            if key not in GLOBALS
        }
        return reduce_graph_module, (members, names)


class _Holder(nn.Module):
    def __init__(self, members):
        super().__init__()
        self.__dict__.update(members)


def reduce_graph_module(body, import_block):
    """The module of a pickle: its code is run once more, and its graph recorded of it."""
    from ._symbolic_trace import Tracer

    class KeepModules(Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    members = dict(body)
    members.pop("_graphmodule_cls_name", None)
    holder = _Holder(members)
    names = {**GLOBALS, **import_block}
    holder.forward = types.MethodType(_compiled(PythonCode(body["_code"], names)), holder)
    graph = KeepModules().trace(holder)
    del holder.__dict__["forward"]
    return GraphModule(holder, graph)
