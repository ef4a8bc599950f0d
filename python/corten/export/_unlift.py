"""Modules that hold the state of an exported program themselves."""

from __future__ import annotations

import ast
import copy
import inspect
import math

import corten
from corten import nn, ops
from corten.export._tree_utils import reorder_kwargs
from corten.export.graph_signature import ConstantArgument, InputKind, OutputKind
from corten.fx import GraphModule
from corten.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from corten.utils import _pytree as pytree

__all__ = []


class GuardsFn(nn.Module):
    """Checks of the inputs."""

    def forward(self, *args):
        """Does nothing where no checks were asked for."""


class ExportedModule(GraphModule):
    """The module of a program. Copies of it check their inputs, too."""

    def __deepcopy__(self, memo):
        hooks = self.__dict__.pop("_forward_pre_hooks"), self.__dict__.pop("_forward_pre_hooks_with_kwargs")
        refused = {name: self.__dict__.pop(name) for name in ("train", "eval") if name in self.__dict__}
        try:
            made = super().__deepcopy__(memo)
        finally:
            self.__dict__["_forward_pre_hooks"], self.__dict__["_forward_pre_hooks_with_kwargs"] = hooks
            self.__dict__.update(refused)
        made.register_forward_pre_hook(_check_input_constraints_pre_hook, with_kwargs=True)
        return made


def _normalized(kind):
    from corten.fx.immutable_collections import immutable_dict, immutable_list

    return {immutable_dict: dict, immutable_list: list}.get(kind, kind)


def eq_spec(self, other):
    """Whether structures are the same, where lists and dictionaries of graphs are those of programs."""
    if _normalized(self.type) is not _normalized(other.type) or self.context != other.context:
        return False
    if self.num_children != other.num_children:
        return False
    return all(map(eq_spec, self.children_specs, other.children_specs))


def _check_inputs_match(args, kwargs, in_spec):
    """The leaves of arguments with their paths.

    Raises:
        ValueError: They have another structure than those that the program was exported with.
    """
    reordered = reorder_kwargs(kwargs, in_spec)
    flat, received = pytree.tree_flatten_with_path((tuple(args), reordered))
    if not eq_spec(received, in_spec):
        raise ValueError(
            "Trying to flatten user inputs with exported input tree spec: \n"
            f"{in_spec}\n"
            "but actually got inputs with tree spec of: \n"
            f"{received}.\n"
            "Please check that the inputs have the same number and type of args and kwargs as the ones you used "
            "when tracing."
        )
    return flat


def _check_input_constraints_pre_hook(self, args, kwargs):
    if not self.validate_inputs:
        return
    flat = _check_inputs_match(args, kwargs, self._in_spec)
    if "_guards_fn" in self._modules:
        return
    from corten._export.utils import _check_input_constraints_for_graph

    nodes = self.graph.find_nodes(op="placeholder")
    _check_input_constraints_for_graph(nodes, flat, self.range_constraints)


def _paths(program):
    """The paths of the leaves of the user's inputs, from the names of the arguments."""
    signature = program.module_call_graph[0].signature
    names, spec = signature.forward_arg_names, signature.in_spec
    tree = pytree.tree_unflatten([object()] * spec.num_leaves, spec)
    args, kwargs = tree
    if not names:
        names = [f"arg_{place}" for place in range(len(args))] + list(kwargs)
    combined = dict(zip(names, (*args, *kwargs.values())))
    return [path for path, _ in pytree.tree_flatten_with_path(combined)[0]]


def _name_of_path(path):
    return path[0].key + pytree.keystr(path[1:])


def _guards(program, nodes, paths):
    """What must hold for the inputs, as expressions."""
    from corten.export import _symbols

    found = []
    for node, path in zip(nodes, paths):
        value, name = node.meta.get("val"), _name_of_path(path)
        if isinstance(value, corten.Tensor):
            for place, size in enumerate(value.shape):
                if type(size) is int:
                    found.append(f"{name}.size()[{place}] == {size}")
        elif isinstance(value, str):
            found.append(f"{name} == {value!r}")
        elif value is None:
            found.append(f"{name} is None")
        elif isinstance(value, (bool, int, float)) and type(value) in (bool, int, float):
            found.append(f"math.isnan({name})" if isinstance(value, float) and math.isnan(value)
                         else f"{name} == {value!r}")
    return found + _symbols.guards(program, nodes, [_name_of_path(path) for path in paths])


def _guards_module(program, nodes, names):
    """The module that checks the inputs."""
    paths = _paths(program)
    places = sorted(
        ((_name_of_path(path), place) for place, path in enumerate(paths)), key=lambda one: -len(one[0])
    )
    lines = []
    for guard in _guards(program, nodes, paths):
        actual = guard
        for name, place in places:
            actual = _replace_name(actual, name, f"args[{place}]")
        lines.append((compile(actual, "<guard>", "eval"), ast.unparse(ast.parse(guard, mode="eval"))))
    made = GuardsFn()

    def forward(*args):
        names = {"args": args, "math": math, "inf": math.inf}
        for code, text in lines:
            # The expressions are made of sizes of this program.
            if not eval(code, {"__builtins__": {}}, names):  # noqa: S307
                raise AssertionError(f"Guard failed: {text}")

    made.__dict__["forward"] = forward
    made.__dict__["_is_impure"] = True
    return made


def _replace_name(text, name, by):
    import re

    return re.sub(r"(?<![\w\]'.])" + re.escape(name) + r"(?![\w\['\"])", by, text)


def _assign(module, name, value, signature):
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]
    if isinstance(value, nn.Parameter):
        module.register_parameter(last, value)
    elif isinstance(value, corten.Tensor):
        persistent = name in signature.buffers and name not in signature.non_persistent_buffers
        module.register_buffer(last, value, persistent=persistent)
    else:
        setattr(module, last, value)


def _copies(graph, program, inputs):
    """Writes results back to buffers and inputs, and leaves those of the user."""
    signature, output = program.graph_signature, graph.output_node()
    kept = []
    for spec, value in zip(signature.output_specs, output.args[0]):
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION):
            with graph.inserting_before(output):
                target = inputs[spec.target]
                made = graph.create_node(
                    "call_function", ops.aten.copy_.default, (target, value), {}, name="copy__default"
                )
                made.meta["val"] = target.meta.get("val")
        elif spec.kind != OutputKind.TOKEN:
            kept.append(value)
    output.args = (tuple(kept),)


def _unlift_exported_program_lifted_states(program, check_guards=True):
    """The module of a program."""
    signature, graph = program.graph_signature, copy.deepcopy(program.graph)
    root = nn.Module()
    for name, value in (*program.state_dict.items(), *program.constants.items()):
        _assign(root, name, value, signature)
    for name, child in program.graph_module.named_children():
        root.add_module(name, child)
    inputs, users, replaced = {}, [], []
    for spec, node in zip(signature.input_specs, graph.find_nodes(op="placeholder")):
        if spec.kind == InputKind.USER_INPUT:
            users.append(node)
            inputs[node.name if isinstance(spec.arg, ConstantArgument) else spec.arg.name] = node
            continue
        with graph.inserting_before(node):
            found = graph.get_attr(spec.target)
        found.meta.update(node.meta)
        replaced.append((node, found))
        inputs[spec.target] = found
    for node, found in replaced:
        node.replace_all_uses_with(found)
        graph.erase_node(node)
    _copies(graph, program, inputs)
    spec = program.module_call_graph[0].signature
    if check_guards:
        root.add_module("_guards_fn", _guards_module(program, users, None))
        last = users[-1] if users else next(iter(graph.nodes))
        with graph.inserting_after(last) if users else graph.inserting_before(last):
            graph.call_module("_guards_fn", tuple(users))
    return _finished(root, graph, program, spec)


def _finished(root, graph, program, spec):
    names = spec.forward_arg_names or _default_names(spec.in_spec)
    graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(list(names), spec.in_spec, spec.out_spec)))
    made = ExportedModule(root, graph)
    for name, value in (*program.state_dict.items(), *program.constants.items()):
        _assign(made, name, value, program.graph_signature)
    made.__dict__["range_constraints"] = program.range_constraints
    made.__dict__["validate_inputs"] = True
    made.meta.update(program.graph_module.meta)
    made.register_forward_pre_hook(_check_input_constraints_pre_hook, with_kwargs=True)
    return made


def _default_names(spec):
    positional = [f"arg_{place}" for place in range(spec.children_specs[0].num_children)]
    return positional + list(spec.children_specs[1].context)


def _get_forward_arg_names(mod, args, kwargs=None):
    """The names of the arguments that are given, those of ``*args`` by number."""
    signature = inspect.signature(mod.forward)
    names = []
    for name, value in signature.bind_partial(*args).arguments.items():
        if signature.parameters[name].kind == inspect.Parameter.VAR_POSITIONAL:
            names.extend(f"{name}_{place}" for place in range(len(value)))
        else:
            names.append(name)
    return names + list(kwargs or {})
