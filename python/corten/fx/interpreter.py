"""Running graphs node by node, and making new ones on the way."""

from __future__ import annotations

from contextlib import contextmanager

import corten

from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_aggregate
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs the graph of a module; subclasses change what nodes of one kind do.

    Values are dropped when nothing needs them any more, unless ``garbage_collect_values`` is False.
    """

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env, self.name = {}, "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses = {}
        if garbage_collect_values:
            seen = set()
            for user in reversed(self.graph.nodes):
                for node in user.all_input_nodes:
                    if node not in seen:
                        seen.add(node)
                        self.user_to_last_uses.setdefault(user, []).append(node)

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """The output of the graph for these inputs; ``initial_env`` gives values of nodes."""
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback and error.args and isinstance(error.args[0], str):
                    message = f"While executing {node.format_node()}"
                    trace = f"\nOriginal traceback:\n{node.stack_trace}"
                    error.args = (f"{error.args[0]}\n\n{message}{trace}", *error.args[1:])
                raise
            for old in self.user_to_last_uses.get(node, ()):
                del self.env[old]
            if node.op == "output":
                return self.env[node]
        return None

    def boxed_run(self, args_list):
        """As :meth:`run`; the list of inputs is emptied, so that they can be dropped early."""
        inputs = list(args_list)
        args_list.clear()
        return self.run(*inputs)

    @contextmanager
    def _set_current_node(self, node):
        with corten.fx.traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n):
        """The value of one node."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target, args, kwargs):
        """The next input; all that are left for ``*args``."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target, args, kwargs):
        """The value of an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        """The result of a function."""
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        """The result of a method of the first argument."""
        self_obj, *rest = args
        return getattr(self_obj, target)(*rest, **kwargs)

    def call_module(self, target, args, kwargs):
        """The result of a module below the root."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        """The output."""
        return args[0]

    def fetch_attr(self, target):
        """The attribute of the module at a dotted name."""
        found, parts = self.module, target.split(".")
        for place, part in enumerate(parts):
            if not hasattr(found, part):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(parts[:place + 1])}"
                )
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n):
        """The arguments of a node, with values for the nodes in them."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        """Arguments with values for the nodes in them."""
        def value(node):
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such "
                    "issues"
                )
            return self.env[node]

        return _replaced(args, value)


def _replaced(args, value):
    """Arguments with values for nodes; lists and dictionaries may be changed again."""
    if isinstance(args, Node):
        return value(args)
    if isinstance(args, tuple):
        made = (_replaced(item, value) for item in args)
        return type(args)(*made) if hasattr(args, "_fields") else tuple(made)
    if isinstance(args, list):
        return [_replaced(item, value) for item in args]
    if isinstance(args, dict):
        return {key: _replaced(item, value) for key, item in args.items()}
    if isinstance(args, slice):
        return slice(*(_replaced(item, value) for item in (args.start, args.stop, args.step)))
    return args


class _TransformerTracer(Tracer):
    def __init__(self, graph):
        super().__init__()
        self.graph = graph

    def is_leaf_module(self, m, module_qualified_name):
        return True


class Transformer(Interpreter):
    """An interpreter whose values are those of a new graph: overrides change what it becomes."""

    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target, args, kwargs):
        """An input of the new graph."""
        default = args[:1]
        return Proxy(self.new_graph.create_node("placeholder", target, default), self.tracer)

    def get_attr(self, target, args, kwargs):
        """A read of an attribute in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        """A call of a module in the new graph."""
        return self.tracer.call_module(
            self.fetch_attr(target), self.fetch_attr(target).forward, args, kwargs
        )

    def call_function(self, target, args, kwargs):
        """A call of a function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        """The module with the new graph."""
        with corten.fx.traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            def strip(value):
                return value.node if isinstance(value, Proxy) else value

            made = self.new_graph.output(map_aggregate(result, strip))
            for node in self.graph.nodes:
                if node.op == "output":
                    made.type = node.type
        return _with_metadata(GraphModule(self.module, self.new_graph), self.module)

    def run_node(self, n):
        """The value of one node, which keeps what is noted of it."""
        made = super().run_node(n)
        if isinstance(made, Proxy) and isinstance(made.node, Node):
            for key, value in n.meta.items():
                made.node.meta.setdefault(key, value)
            made.node.type = made.node.type or n.type
        return made


def _with_metadata(made, old):
    made.__dict__["meta"].update(old.__dict__.get("meta", {}))
    return made
