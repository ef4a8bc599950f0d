"""``ExportedProgram``: the graph of a module, its state, and what its inputs and outputs are."""

from __future__ import annotations

import copy
import dataclasses
import types
import typing

from corten.export.decomp_utils import CustomDecompTable
from corten.export.graph_signature import (
    ConstantArgument, CustomObjArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
    SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument, TokenArgument,
)
from corten.fx import GraphModule
from corten.fx.graph import CodeGen
from corten.fx.passes.infra.pass_base import PassResult  # noqa: F401
from corten.utils._pytree import TreeSpec, tree_flatten_with_path

__all__ = [
    "ConstantArgument", "CustomDecompTable", "CustomObjArgument", "ExportGraphSignature", "ExportedProgram",
    "InputKind", "InputSpec", "ModuleCallEntry", "ModuleCallSignature", "OutputKind", "OutputSpec",
    "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument", "TokenArgument",
    "default_decompositions",
]


@dataclasses.dataclass
class ModuleCallSignature:
    """The inputs and outputs of a call of a module."""

    inputs: list[typing.Any]
    outputs: list[typing.Any]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node, new_node):
        """Lets another node stand where one stood."""
        for arg in (*self.inputs, *self.outputs):
            if arg.name == original_node.name:
                arg.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    """A module of the program, and the signature of its call where it was asked for."""

    fqn: str
    signature: ModuleCallSignature | None = None


class CallSpec(typing.NamedTuple):
    """The structures of the inputs and of the result."""

    in_spec: TreeSpec | None
    out_spec: TreeSpec | None


def default_decompositions():
    """The table of :meth:`ExportedProgram.run_decompositions`: operators become those of the core set."""
    return CustomDecompTable()


def _create_graph_module_for_export(root, graph):
    """A module with the tensors of ``root``; where ``root`` lacks some that are constants, without them."""
    try:
        return GraphModule(root, graph)
    except (KeyError, RuntimeError, AttributeError):
        return GraphModule(root if not isinstance(root, dict) else {}, graph)


def _common_getitem_elimination(module, signature):
    """Lets one node stand for several that take the same element of a value."""
    first = {}
    for node in list(module.graph.nodes):
        if node.op != "call_function" or getattr(node.target, "__name__", "") != "getitem":
            continue
        if not all(isinstance(arg, (int, str)) or hasattr(arg, "users") for arg in node.args):
            continue
        known = first.setdefault((node.args[0], node.args[1]), node)
        if known is not node:
            for spec in signature.output_specs:
                if spec.arg.name == node.name and not isinstance(spec.arg, ConstantArgument):
                    spec.arg.name = known.name
            node.replace_all_uses_with(known)
            module.graph.erase_node(node)
    module.recompile()


class ExportedProgram:
    """A module as a graph: what :func:`export` makes. :meth:`module` makes a module of it that can be called.

    The placeholders of the graph are the parameters, buffers and constants of the module, and then the
    user's inputs; :attr:`graph_signature` says which is which.
    """

    def __init__(self, root, graph, graph_signature, state_dict, range_constraints, module_call_graph,
                 example_inputs=None, constants=None, *, verifiers=None):
        from corten._export.verifier import Verifier

        graph.set_codegen(CodeGen())
        self._graph_module = _create_graph_module_for_export(root, graph)
        if isinstance(root, GraphModule):
            self._graph_module.meta.update(root.meta)
        _common_getitem_elimination(self._graph_module, graph_signature)
        self._graph_signature = graph_signature
        self._state_dict, self._range_constraints = state_dict, range_constraints
        if module_call_graph is None:
            raise AssertionError("module_call_graph must not be None")
        self._module_call_graph = module_call_graph
        self._example_inputs, self._constants = example_inputs, constants or {}
        verifiers = verifiers or [Verifier]
        if not all(issubclass(one, Verifier) for one in verifiers):
            raise AssertionError(f"all verifiers must be subclasses of Verifier, got {verifiers}")
        self._verifiers = verifiers
        self._guards_code = []
        self.validate()

    @property
    def graph_module(self):
        """The module around the graph."""
        return self._graph_module

    @property
    def graph(self):
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self):
        """What the inputs and outputs of the graph are."""
        return self._graph_signature

    @property
    def state_dict(self):
        """The parameters and buffers by name."""
        return self._state_dict

    @property
    def range_constraints(self):
        """The ranges of the sizes that are not known, by symbol."""
        return self._range_constraints

    @property
    def module_call_graph(self):
        """The modules of the program."""
        return self._module_call_graph

    @property
    def example_inputs(self):
        """The inputs with which it was exported: a tuple and a dictionary."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value):
        if value is None:
            self._example_inputs = value
            return
        if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple)
                and isinstance(value[1], dict)):
            raise ValueError(
                "Example inputs should be a tuple containing example arguments (as a tuple), and example "
                "kwargs (as a dictionary)."
            )
        from corten.export._unlift import _check_inputs_match

        _check_inputs_match(value[0], value[1], self.call_spec.in_spec)
        self._example_inputs = value

    @property
    def call_spec(self):
        """The structures of the inputs and of the result."""
        if not self.module_call_graph:
            return CallSpec(in_spec=None, out_spec=None)
        signature = self.module_call_graph[0].signature
        return CallSpec(in_spec=signature.in_spec, out_spec=signature.out_spec)

    @property
    def verifier(self):
        """What checks the program."""
        return self._verifiers[0]

    @property
    def verifiers(self):
        """All that check the program."""
        return self._verifiers

    @property
    def dialect(self):
        """The set of operators that the program is written in."""
        return self._verifiers[0].dialect

    @property
    def constants(self):
        """Tensors that are no state: constants, and buffers that are not persistent."""
        return self._constants

    tensor_constants = constants

    def parameters(self):
        """The parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self):
        """The parameters with their names."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self):
        """The buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self):
        """The buffers with their names."""
        without_state = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            yield name, (self.constants if name in without_state else self.state_dict)[name]

    def _graph_module_flat_inputs(self, args, kwargs):
        """The inputs of the graph for arguments of the module."""
        from corten.export._unlift import _check_inputs_match

        flat = [value for _, value in _check_inputs_match(args, kwargs, self.call_spec.in_spec)]
        found = []
        for spec in self.graph_signature.input_specs:
            if spec.kind != InputKind.USER_INPUT:
                constant = spec.target in self.constants
                found.append((self.constants if constant else self.state_dict)[spec.target])
        return (*found, *flat)

    def _get_flat_args_with_check(self, args, kwargs):
        from corten.export._tree_utils import reorder_kwargs

        if self.call_spec.in_spec is not None:
            kwargs = reorder_kwargs(kwargs, self.call_spec.in_spec)
        paths, received = tree_flatten_with_path((args, kwargs))
        self._check_input_constraints(paths)
        return tuple(value for _, value in paths), received

    def _check_input_constraints(self, flat_args_with_path):
        from corten._export.utils import _check_input_constraints_for_graph

        nodes = [node for node in self.graph.nodes if node.op == "placeholder"]
        kinds = zip(nodes, self.graph_signature.input_specs)
        nodes = [node for node, spec in kinds if spec.kind == InputKind.USER_INPUT]
        _check_input_constraints_for_graph(nodes, flat_args_with_path, self.range_constraints)

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __str__(self):
        module = self.graph_module.print_readable(print_output=False, colored=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return (
            f"ExportedProgram:\n    {module}\nGraph signature:{signature}\n"
            f"Range constraints: {self.range_constraints}\n"
        )

    def module(self, check_guards=True):
        """A module that runs the program and has its state.

        Args:
            check_guards: Whether a part of the module checks the sizes of the inputs.
        """
        from corten.export._unlift import _unlift_exported_program_lifted_states

        module = _unlift_exported_program_lifted_states(self, check_guards=check_guards)

        def train(self, mode=True):
            raise NotImplementedError("Calling train() is not supported yet.")

        def evaluate(self, mode=True):
            raise NotImplementedError("Calling eval() is not supported yet.")

        module.__dict__["train"] = types.MethodType(train, module)
        module.__dict__["eval"] = types.MethodType(evaluate, module)
        return module

    def _num_lifted_params_buffers(self):
        kinds = [spec.kind for spec in self._graph_signature.input_specs]
        return kinds.index(InputKind.USER_INPUT) if InputKind.USER_INPUT in kinds else len(kinds)

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The program in the core set of operators and without operators that write.

        Args:
            decomp_table: Which operators are replaced, by what; all of the default table without it.
        """
        from corten.export._decompose import decompose

        return decompose(self, decomp_table)

    def _transform_do_not_use(self, *passes):
        """The program after passes over its graph."""
        module = copy.deepcopy(self.graph_module)
        for one in passes:
            result = one(module)
            if result is not None:
                module = result.graph_module
        if module.graph is self.graph:
            return self
        signature = _signature_of(self, module)
        return self._update(module, signature)

    def _update(self, graph_module, graph_signature, *, state_dict=None, constants=None, verifiers=None):
        return ExportedProgram(
            root=graph_module, graph=graph_module.graph, graph_signature=graph_signature,
            state_dict=self.state_dict if state_dict is None else state_dict,
            range_constraints=copy.copy(self.range_constraints),
            module_call_graph=copy.deepcopy(self._module_call_graph), example_inputs=self.example_inputs,
            constants=self.constants if constants is None else constants,
            verifiers=self.verifiers if verifiers is None else verifiers,
        )

    def validate(self):
        """Checks the graph against its signature.

        Raises:
            SpecViolationError: They do not agree.
        """
        self._validate()

    def _validate(self):
        for one in self.verifiers:
            one().check(self)


def _refused(name):
    def refuse(self, value):
        raise RuntimeError(f"Unable to set ExportedProgram's {name} attribute.")

    return refuse


for _name in ("graph_module", "graph", "graph_signature", "state_dict", "range_constraints",
              "module_call_graph", "call_spec", "verifier", "verifiers", "dialect", "constants"):
    setattr(ExportedProgram, _name, getattr(ExportedProgram, _name).setter(_refused(_name)))
del _name


def _signature_of(program, module):
    """The signature of a program whose graph was rewritten: names follow the nodes in their order."""
    signature = copy.deepcopy(program.graph_signature)
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    outputs = module.graph.output_node().args[0]
    for spec, node in zip(signature.input_specs, inputs):
        spec.arg.name = node.name
    for spec, node in zip(signature.output_specs, outputs):
        if not isinstance(spec.arg, ConstantArgument):
            spec.arg.name = node.name
    return signature
