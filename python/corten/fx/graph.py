"""``Graph``: nodes in the order in which they run."""

from __future__ import annotations

import copy
import re

from . import _code
from ._code import INPLACE_METHODS as inplace_methods  # noqa: N812, F401
from ._code import MAGIC_METHODS as magic_methods  # noqa: N812, F401
from ._code import PythonCode
from ._code import Namespace as _Namespace
from ._codegen import CodeGen, _BoxedCodeGen, _PyTreeCodeGen, _PyTreeInfo  # noqa: F401
from .node import Node, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]

_reflectable = ("add", "sub", "mul", "floordiv", "truediv", "div", "mod", "pow", "lshift", "rshift",
                "and_", "or_", "xor", "getitem", "matmul")
reflectable_magic_methods = {name: magic_methods[name] for name in _reflectable}


def _snake_case(text):
    """``MyName`` as ``my_name``."""
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: "_" + found[1], text).lower()


class _node_list:  # noqa: N801
    """The nodes of a graph, forwards or backwards; changes may happen meanwhile."""

    def __init__(self, graph, direction="_next"):
        self.graph, self.direction = graph, direction

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root = current = self.graph._root
        while (current := getattr(current, self.direction)) is not root:
            if not current._erased:
                yield current

    def __reversed__(self):
        return iter(_node_list(self.graph, "_prev" if self.direction == "_next" else "_next"))


class _InsertPoint:
    """Where new nodes go, until the block ends."""

    def __init__(self, graph, insert):
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.graph._insert = self.before


class _Restored:
    """Takes a transformer of code back when a block ends."""

    def __init__(self, codegen, before):
        self.codegen, self.before = codegen, before

    def __enter__(self):
        return None

    def __exit__(self, kind, value, traceback):
        self.codegen._body_transformer = self.before


class Graph:
    """Placeholders, calls and one output, in the order in which they run."""

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "", (), {})
        self._insert = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras
        self._codegen, self._co_fields = CodeGen(), {}

    @property
    def owning_module(self):
        """The module whose ``forward`` this is."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module):
        self._owning_module = module

    @property
    def nodes(self):
        """The nodes in order."""
        return _node_list(self)

    def output_node(self):
        """The output."""
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op!r}")
        return node

    def find_nodes(self, *, op, target=None, sort=True):
        """The nodes of one kind, and of one target where it is given."""
        if op == "call_function" and target is None:
            return [node for node in self.nodes if node.op == op]
        return [
            node for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    def _target_to_str(self, target):
        name = target if isinstance(target, str) else target.__name__
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return _snake_case(name)

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """A new node at the place of insertion."""
        if op not in ("call_function", "call_method", "get_attr", "call_module", "placeholder", "output"):
            raise AssertionError(f"Unexpected op: {op}")
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        candidate = name if name is not None else self._target_to_str(target)
        node = Node(self, self._graph_namespace.create_name(candidate), op, target, args, kwargs, type_expr)
        if self.owning_module is not None and getattr(self.owning_module, "_create_node_hooks", None):
            for hook in self.owning_module._create_node_hooks:
                hook(node)
        self._graph_namespace.associate_name_with_obj(node.name, node)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name, type_expr=None, default_value=_code.Namespace):
        """An input."""
        args = () if default_value is _code.Namespace else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        """A read of an attribute of the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        """A call of a module below the root."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result, type_expr=None):
        """The result."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda x: x):
        """A copy of a node of another graph; ``arg_transform`` leads from its nodes to ours."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g, val_map, return_output_node=False):
        """Copies all nodes of another graph but its output, whose value it gives."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def inserting_before(self, n=None):
        """New nodes go before ``n``: from now on, or in a ``with`` block."""
        if n is None:
            return self.inserting_after(self._root)
        self._check(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n=None):
        """New nodes go behind ``n``: from now on, or in a ``with`` block."""
        if n is None:
            return self.inserting_before(self._root)
        self._check(n)
        return _InsertPoint(self, n.append)

    def _check(self, node):
        if node.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")

    def erase_node(self, to_erase):
        """Removes a node that nothing uses.

        Raises:
            RuntimeError: Something uses it.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the "
                f"graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._set((), {})

    def eliminate_dead_code(self, is_impure_node=None):
        """Removes nodes whose results nobody needs; says whether there were any."""
        self.lint()
        keep = is_impure_node or (lambda node: node.is_impure())
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not keep(node):
                self.erase_node(node)
                changed = True
        return changed

    def lint(self):
        """Checks that values are made before they are used, and that attributes exist.

        Raises:
            RuntimeError: They are not.
        """
        seen, names = set(), set()
        for node in self.nodes:
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was "
                        "used as an argument! If you are copying nodes from another graph, make sure "
                        "to use ``arg_transform`` on node_copy() to remap values\n"
                        f"{self}"
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        f"Please check that Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._check_target(node)

    def _check_target(self, node):
        found = self.owning_module
        for place, part in enumerate(node.target.split(".")):
            if not hasattr(found, part):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute "
                    f"{'.'.join(node.target.split('.')[:place + 1])} of {type(self.owning_module)}"
                )
            found = getattr(found, part)

    def python_code(self, root_module, *, verbose=False, include_stride=False, include_device=False,
                    colored=False, **kwargs):
        """The graph as the source of a function ``forward``."""
        return self._codegen._gen_python_code(
            self.nodes, root_module, verbose=verbose, include_stride=include_stride,
            include_device=include_device, colored=colored, **kwargs,
        )

    def set_codegen(self, codegen):
        """Says how the graph becomes code."""
        self._codegen = codegen

    def process_inputs(self, *args):
        """The inputs of the graph for the arguments of the generated function."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """The result of the generated function for the output of the graph."""
        return self._codegen.process_outputs(out)

    def on_generate_code(self, make_transformer):
        """Has a function change the lines of generated code: what ``make_transformer`` makes of the one that did
        so far, or of None. In a ``with`` block it does so until the block ends."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        return _Restored(self._codegen, before)

    def _clear_nodes(self):
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    def print_tabular(self):
        """Prints the nodes as a table, for which the package ``tabulate`` is needed."""
        try:
            from tabulate import tabulate
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on this "
                "machine. Run `pip install tabulate` to install the library."
            )
            raise
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    def __str__(self):
        lines = "".join("\n    " + node.format_node() for node in self.nodes)
        return f"graph():{lines}"

    def __deepcopy__(self, memo=None):
        made, values = Graph(tracer_cls=self._tracer_cls), {}
        made._codegen = copy.deepcopy(self._codegen, memo)
        copied = made.graph_copy(self, values, return_output_node=True)
        if copied is not None:
            result, old = copied
            new = made.output(result, type_expr=old.type)
            new.meta = dict(old.meta)
        for node in made.nodes:
            node.meta = {
                key: copy.deepcopy(value, memo) if not isinstance(value, type) else value
                for key, value in node.meta.items()
            }
        return made
