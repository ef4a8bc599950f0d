"""Exported programs as modules of modules, as they were before."""

from __future__ import annotations

import abc
import copy
import operator

from corten import nn, ops
from corten.export._tree_utils import reorder_kwargs
from corten.export._unlift import eq_spec
from corten.export.graph_signature import ConstantArgument, InputKind, OutputKind
from corten.fx import Graph, GraphModule, Interpreter
from corten.utils import _pytree as pytree

__all__ = ["FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Turns inputs of another structure into those that a program was exported with."""

    @abc.abstractmethod
    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        """The leaves of ``target_spec`` for leaves of ``input_spec``."""

    def get_flat_arg_paths(self):
        """The paths that are needed."""
        return []


class _Run(Interpreter):
    """Runs the graph of a module that is no :class:`GraphModule`."""


class InterpreterModule(nn.Module):
    """A module that runs a graph node by node."""

    def __init__(self, graph, ty=None):
        super().__init__()
        self.__dict__["graph"], self.__dict__["_ty"] = graph, ty
        graph.owning_module = self
        self.__dict__["signature"] = None

    def type_name(self):
        """The name of the class that the module had."""
        return self._ty

    def finalize(self):
        """Notes the names of the inputs."""
        self.__dict__["arg_names"] = [node.target for node in self.graph.nodes if node.op == "placeholder"]

    def forward(self, *args, **kwargs):
        """The results of the graph."""
        if self.signature is not None:
            args = pytree.tree_flatten((args, reorder_kwargs(kwargs, self.signature.in_spec)))[0]
            kwargs = {}
        if len(args) < len(self.arg_names):
            args = (*args, *(kwargs[name] for name in self.arg_names[len(args):]))
        found = _Run(self, graph=self.graph).run(*args, enable_io_processing=False)
        if self.signature is None:
            return found
        return pytree.tree_unflatten(list(found), self.signature.out_spec)

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        """The graph as a class."""
        name = type(self).__name__ if self._ty is None else self._ty.rpartition(".")[2]
        code = self.graph.python_code("self", verbose=True).src.strip("\n")
        text = f"class {name}(torch.nn.Module):\n" + "\n".join(f"    {line}" for line in code.split("\n"))
        if print_output:
            print(text)
        return text


class InterpreterModuleDispatcher(nn.Module):
    """The calls of one module one after the other, where they are different graphs."""

    def __init__(self, attrs, call_modules):
        super().__init__()
        self.__dict__["_modules_to_call"], self.__dict__["_place"] = list(call_modules), 0
        for name in attrs:
            setattr(self, name, getattr(call_modules[0], name))

    def forward(self, *args, **kwargs):
        """The results of the next call."""
        module = self._modules_to_call[self._place]
        self.__dict__["_place"] = (self._place + 1) % len(self._modules_to_call)
        return module(*args, **kwargs)

    def call_modules(self):
        """The modules of the calls."""
        return self._modules_to_call


def _assign(module, name, value, persistent):
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]
    if isinstance(value, nn.Parameter):
        module.register_parameter(last, value)
    else:
        module.register_buffer(last, value, persistent=persistent)


class _Outliner:
    """Takes the graph of a program apart into graphs of its modules."""

    def __init__(self, program, root):
        self.root = root
        self.states = {}
        for spec, node in zip(program.graph_signature.input_specs, program.graph.find_nodes(op="placeholder")):
            if spec.kind != InputKind.USER_INPUT:
                self.states[node] = spec.target
        self.signatures = {entry.fqn: entry.signature for entry in program.module_call_graph if entry.fqn}
        self.nodes_by_name = {node.name: node for node in program.graph.nodes}
        self.made = {}

    @staticmethod
    def stack(node):
        """The calls of modules that a node belongs to, the root left out: key and path."""
        entries = list((node.meta.get("nn_module_stack") or {}).items())
        return [(key, path, kind) for key, (path, kind) in entries if path]

    def graph_of(self, nodes, depth, path, inputs, outputs):
        """The graph of some nodes, where calls of modules below are one node each."""
        graph, values = Graph(), {}
        for one in inputs:
            if one is not None:
                values[one] = graph.placeholder(one.name)
                values[one].meta = dict(one.meta)
        inner = set(nodes)

        def value(node):
            if node not in values:
                target = self.states[node]
                values[node] = graph.get_attr(target[len(path) + 1:] if path else target)
                values[node].meta = dict(node.meta)
            return values[node]

        for key, group in self._groups(nodes, depth):
            if key is None:
                values[group[0]] = graph.node_copy(group[0], value)
                self._take_graphs(group[0], path)
            else:
                self._call(graph, group, key, depth, path, values, value, inner, outputs)
        graph.output(tuple(value(one) if hasattr(one, "users") else one for one in outputs))
        return graph

    def _take_graphs(self, node, path):
        if node.op == "get_attr" and isinstance(getattr(self.module, node.target, None), GraphModule):
            home = self.root.get_submodule(path) if path else self.root
            home.add_module(node.target, getattr(self.module, node.target))

    def _groups(self, nodes, depth):
        """Nodes of this level one by one, and those of a call of a module below together."""
        found = []
        for node in nodes:
            stack = self.stack(node)
            key = stack[depth] if len(stack) > depth else None
            if key is not None and found and found[-1][0] == key:
                found[-1][1].append(node)
            else:
                found.append((key, [node]))
        return found

    def _call(self, graph, group, key, depth, path, values, value, inner, results):
        name, child, kind = key
        inside = set(group)
        inputs, outputs = [], []
        for node in group:
            for one in node.all_input_nodes:
                state = self.states.get(one)
                if one in inside or one in inputs or state is not None and state.startswith(child + "."):
                    continue
                inputs.append(one)
        for node in group:
            if any(user not in inside for user in node.users) or node in results:
                outputs.append(node)
        signature = self.signatures.get(child)
        if signature is not None:
            inputs = [self.nodes_by_name.get(arg.name) for arg in signature.inputs]
            outputs = [self.nodes_by_name[arg.name] if not isinstance(arg, ConstantArgument) else arg.value
                       for arg in signature.outputs]
        target = self._module(name, child, kind, group, depth, inputs, outputs, signature)
        relative = target[len(path) + 1:] if path else target
        self._call_node(graph, relative, inputs, outputs, signature, values, value)

    def _call_node(self, graph, target, inputs, outputs, signature, values, value):
        given = [value(one) if one is not None else None for one in inputs]
        if signature is not None:
            args, kwargs = pytree.tree_unflatten(given, signature.in_spec)
            call = graph.call_module(target, tuple(args), dict(kwargs))
            flat = graph.call_function(_leaves, (call,))
        else:
            flat = call = graph.call_module(target, tuple(given))
        for place, node in enumerate(outputs):
            if hasattr(node, "users"):
                values[node] = graph.call_function(operator.getitem, (flat, place))
                values[node].meta = dict(node.meta)

    def _module(self, name, path, kind, group, depth, inputs, outputs, signature):
        """The name of the module of a call; calls with the same graph share one."""
        graph = self.graph_of(group, depth + 1, path, inputs, outputs)
        text = _text(graph)
        for target, known in self.made.setdefault(path, []):
            if known == text:
                return target
        number = len(self.made[path])
        target = path if not number else f"{path}@{number}"
        self.made[path].append((target, text))
        made = InterpreterModule(graph, kind)
        made.__dict__["signature"] = signature
        self._install(made, path, target)
        made.finalize()
        return target

    def _install(self, made, path, target):
        """Puts a module where the old one was, with what that held."""
        owner, _, last = path.rpartition(".")
        home = _home(self.root, owner)
        old = home._modules.get(last)
        if old is not None:
            for key, value in old._parameters.items():
                made.register_parameter(key, value)
            for key, value in old._buffers.items():
                made.register_buffer(key, value, persistent=key not in old._non_persistent_buffers_set)
            for key, value in old._modules.items():
                made.add_module(key, value)
        home._modules[target.rpartition(".")[2] if owner else target] = made


def _home(root, path):
    for part in path.split(".") if path else ():
        if part not in root._modules:
            root.add_module(part, nn.Module())
        root = root._modules[part]
    return root


def _leaves(tree):
    return pytree.tree_leaves(tree)


def _text(graph):
    """A graph without the names of its nodes."""
    number, lines = {}, []
    for node in graph.nodes:
        number[node] = len(number)

        def shown(value):
            if hasattr(value, "users"):
                return f"%{number[value]}"
            if isinstance(value, (list, tuple)):
                return "(" + ",".join(map(shown, value)) + ")"
            if isinstance(value, dict):
                return "{" + ",".join(f"{key}:{shown(one)}" for key, one in value.items()) + "}"
            return repr(value)

        target = "" if node.op == "placeholder" else str(node.target)
        lines.append(f"{node.op} {target} {shown(node.args)} {shown(node.kwargs)}")
    return "\n".join(lines)


class UnflattenedModule(nn.Module):
    """A program as a module of modules; see :func:`unflatten`."""

    def __init__(self, export_module, flat_args_adapter=None):
        super().__init__()
        program = export_module
        self.__dict__["module_call_graph"] = copy.deepcopy(program.module_call_graph)
        self.__dict__["flat_args_adapter"] = flat_args_adapter
        self.__dict__["adapted"] = False
        signature = program.graph_signature
        without_state = set(signature.non_persistent_buffers) | set(signature.lifted_tensor_constants)
        for name, value in (*program.state_dict.items(), *program.constants.items()):
            _assign(self, name, value, name not in without_state)
        self.__dict__["graph_signature"] = signature
        self._outline(program)

    def _outline(self, program):
        outliner = _Outliner(program, self)
        outliner.module = program.graph_module
        nodes = [node for node in program.graph.nodes if node.op not in ("placeholder", "output")]
        specs, values = self.graph_signature.output_specs, program.graph.output_node().args[0]
        users = [
            node for spec, node in zip(self.graph_signature.input_specs, program.graph.find_nodes(op="placeholder"))
            if spec.kind == InputKind.USER_INPUT
        ]
        graph = outliner.graph_of(nodes, 0, "", users, list(values))
        self.__dict__["graph"] = graph
        graph.owning_module = self
        self._write_back(graph, specs, outliner, users)

    def _write_back(self, graph, specs, outliner, users):
        """Results that belong to buffers and inputs are written there."""
        output = graph.output_node()
        kept = []
        inputs = dict(zip([node.name for node in users], graph.find_nodes(op="placeholder")))
        for spec, value in zip(specs, output.args[0]):
            if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
                kept.append(value)
            elif spec.kind != OutputKind.TOKEN:
                with graph.inserting_before(output):
                    target = inputs.get(spec.target)
                    target = graph.get_attr(spec.target) if target is None else target
                    graph.call_function(ops.aten.copy_.default, (target, value))
        output.args = (tuple(kept),)

    def process_forward_inputs(self, *args, **kwargs):
        """The leaves of the inputs, adapted where their structure is another one.

        Raises:
            TypeError: It is, and nothing adapts them.
        """
        signature = self.module_call_graph[0].signature
        try:
            kwargs = reorder_kwargs(kwargs, signature.in_spec)
        except ValueError:
            if self.flat_args_adapter is None:
                raise
        flat, received = pytree.tree_flatten((args, kwargs))
        if eq_spec(received, signature.in_spec):
            return flat
        if self.flat_args_adapter is None:
            raise TypeError(
                "There is no flat args adapter specified. Are you sure you are calling this with the right arguments? "
            )
        flat = self.flat_args_adapter.adapt(
            target_spec=signature.in_spec, input_spec=received, input_args=flat, obj=self,
        )
        if len(flat) != signature.in_spec.num_leaves:
            raise TypeError(
                f"Flat args adaption failed, number of args mismatch Adatped: {len(flat)} \nExported module: "
                f"{signature.in_spec.num_leaves}"
            )
        self.__dict__["adapted"] = True
        return flat

    def forward(self, *args, **kwargs):
        """The result of the program."""
        flat = self.process_forward_inputs(*args, **kwargs)
        found = _Run(self, graph=self.graph).run(*flat, enable_io_processing=False)
        return pytree.tree_unflatten(list(found), self.module_call_graph[0].signature.out_spec)

    def finalize(self):
        """Nothing is left to do."""

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        """The graph as a class."""
        code = self.graph.python_code("self", verbose=True).src.strip("\n")
        text = "class UnflattenedModule(torch.nn.Module):\n" + "\n".join(f"    {line}" for line in code.split("\n"))
        if print_output:
            print(text)
        return text


def unflatten(module, flat_args_adapter=None):
    """A program as a module with modules below, as the one that it was made of.

    The modules below take and give tensors; those of ``preserve_module_call_signature`` what they took and gave.

    Args:
        module: The program.
        flat_args_adapter: What turns inputs of another structure into those of the program.
    """
    return UnflattenedModule(module, flat_args_adapter)
