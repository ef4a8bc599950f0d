"""Reads exported programs of PyTorch's schema. Nothing of a file is executed: what it calls must be an operator of the
registry, or one of a few functions of numbers."""

from __future__ import annotations

import math
import operator

import corten
from corten import ops
from corten._export.serde import _reading, schema
from corten._export.serde._codec import SerializeError
from corten._export.serde.serialize import OPSET
from corten._ops import OpOverload
from corten.export import graph_signature as signatures
from corten.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from corten.fx import Graph, GraphModule
from corten.utils._pytree import treespec_loads

__all__ = ["ExportedProgramDeserializer", "GraphModuleDeserializer"]

#: The functions of numbers that programs may call.
_NUMBERS = {
    f"_operator.{name}": getattr(operator, name) for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "eq", "ne", "lt", "le", "gt", "ge",
        "and_", "or_", "xor", "not_", "lshift", "rshift", "getitem",
    )
}
_NUMBERS.update({f"math.{name}": getattr(math, name) for name in ("trunc", "ceil", "floor", "sqrt")})
_NUMBERS["builtins.round"] = _NUMBERS["builtins.round_"] = round
_SYMBOLIC = ("sym_float", "sym_int", "sym_not", "sym_max", "sym_min", "sym_sqrt", "sym_ite", "sym_sum")


def resolve(name):
    """What a node calls.

    Raises:
        SerializeError: It is none of what programs may call.
    """
    if name in _NUMBERS:
        return _NUMBERS[name]
    path = name.removeprefix("torch.").split(".")
    if len(path) == 1 and path[0] in _SYMBOLIC:
        return getattr(corten, path[0])
    if name.startswith("torch.ops.") and all(part.isidentifier() for part in path):
        if path[1] == "higher_order" and len(path) == 3:
            found = getattr(ops.higher_order, path[2], None)
            if found is not None:
                return found
        if len(path) == 4:
            import corten.export._operators  # noqa: F401

            try:
                found = getattr(getattr(getattr(ops, path[1]), path[2]), path[3])
            except AttributeError:
                found = None
            if isinstance(found, OpOverload) and not getattr(found, "is_absent", False):
                return found
    raise SerializeError(f"{name} is no operator that programs may call here")


class GraphModuleDeserializer:
    """Reads a graph."""

    def __init__(self, symbols=None):
        self.symbols = symbols or _reading.Symbols()
        self.modules, self.nodes, self.graph = {}, {}, Graph()

    def read(self, given):
        """The nodes of a graph."""
        self.given = given
        for place, one in enumerate(given.inputs):
            self._placeholder(one, place)
        for node in given.nodes:
            self._call(node)
        outputs = [self._value(one) for one in given.outputs]
        self.graph.output(outputs[0] if given.is_single_tensor_return else tuple(outputs))
        return self.graph

    def _remember(self, name, node):
        if name in self.nodes:
            raise SerializeError(f"{name} is defined twice")
        node.name = name
        self.nodes[name] = node
        value = self._described(name)
        if value is not None:
            node.meta["val"] = value

    def _described(self, name):
        given = self.given
        if name in given.tensor_values:
            return _reading.described(given.tensor_values[name], self.symbols)
        for values in (given.sym_int_values, given.sym_bool_values, given.sym_float_values):
            if name in values:
                return self.symbols.number(values[name])
        return None

    def _placeholder(self, one, place):
        kind, value = one.type, one.value
        if kind == "as_tensor":
            name = value.name
        elif kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            name = value.value
        elif kind in ("as_none", "as_int", "as_float", "as_string", "as_bool"):
            node = self.graph.placeholder(f"arg{place}")
            node.meta["val"] = None if kind == "as_none" else value
            return
        else:
            raise SerializeError(f"an input cannot be {kind}")
        node = self.graph.placeholder(_identifier(name))
        self._remember(name, node)
        node.target = name

    def _named(self, name):
        if name not in self.nodes:
            raise SerializeError(f"{name} is used before it is defined")
        return self.nodes[name]

    def _value(self, one):
        """An argument as the graph has it."""
        kind, value = one.type, one.value
        if kind == "as_tensor":
            return self._named(value.name)
        if kind == "as_tensors":
            return [self._named(tensor.name) for tensor in value]
        if kind == "as_nested_tensors":
            return [[self._named(tensor.name) for tensor in inner] for inner in value]
        if kind in ("as_optional_tensors", "as_optional_tensor"):
            found = [
                None if item.type == "as_none" else self._named(item.value.name)
                for item in (value if kind.endswith("s") else [value])
            ]
            return found if kind.endswith("s") else found[0]
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._symbolic(value)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self._symbolic(item) for item in value]
        if kind == "as_graph":
            return self._graph(value)
        if kind == "as_operator":
            return resolve(value)
        if kind == "as_string_to_argument":
            return {key: self._value(item) for key, item in value.items()}
        return _reading.plain(kind, value)

    def _symbolic(self, value):
        return self._named(value.value) if value.type == "as_name" else value.value

    def _graph(self, value):
        inner = GraphModuleDeserializer(self.symbols)
        graph = inner.read(value.graph)
        name = _identifier(value.name)
        self.modules[name] = GraphModule(inner.modules, graph)
        node = self.graph.create_node("get_attr", name, name=name)
        return node

    def _call(self, given):
        target = resolve(given.target)
        positional, named = [], {}
        keyword = schema.ArgumentKind.KEYWORD
        declared = _reading.names_of(target) if isinstance(target, OpOverload) else None
        for one in given.inputs:
            value = self._value(one.arg)
            by_name = one.kind == keyword or one.kind is None and declared is not None and (
                declared[len(positional):len(positional) + 1] != [(one.name, False)]
            )
            if by_name:
                named[one.name] = value
            else:
                positional.append(value)
        if getattr(target, "_name", "") in ("cond", "while_loop"):
            positional = [tuple(one) if isinstance(one, list) else one for one in positional]
        name = given.name or self._name_of(given)
        node = self.graph.create_node("call_function", target, tuple(positional), named, name=_identifier(name))
        node.meta.update(_reading.metadata(given.metadata))
        self._results(node, given, name)

    @staticmethod
    def _name_of(given):
        if len(given.outputs) == 1 and given.outputs[0].type == "as_tensor":
            return given.outputs[0].value.name
        return given.target.split(".")[-2] if given.target.count(".") > 1 else given.target.rpartition(".")[2]

    def _results(self, node, given, name):
        outputs = given.outputs
        is_operator = isinstance(node.target, OpOverload)
        single = len(outputs) == 1 and (is_operator or given.is_hop_single_tensor_return is not False)
        if not outputs:
            node.name = name
            return
        if single and outputs[0].type == "as_tensor":
            self._remember(outputs[0].value.name, node)
            return
        if single and outputs[0].type in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            self._remember(outputs[0].value.value, node)
            return
        node.name = name
        elements = outputs[0].value if len(outputs) == 1 and outputs[0].type == "as_tensors" else outputs
        self._elements(node, elements)

    def _elements(self, node, elements):
        values = []
        for place, one in enumerate(elements):
            name = self._element_name(one)
            if name is None:
                values.append(None)
                continue
            values.append(self._described(name))
            if f"_unused_{place}" in name and name == f"{node.name}_unused_{place}":
                continue
            inner = self.graph.create_node(
                "call_function", operator.getitem, (node, place), {}, name=_identifier(name)
            )
            inner.meta.update(node.meta)
            self._remember(name, inner)
        node.meta["val"] = tuple(values)

    @staticmethod
    def _element_name(one):
        if isinstance(one, schema.TensorArgument):
            return one.name
        if one.type == "as_none":
            return None
        if one.type == "as_tensor":
            return one.value.name
        if one.type in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return one.value.value
        raise SerializeError(f"a result cannot be {one.type}")


def _identifier(name):
    if not name.isidentifier():
        raise SerializeError(f"{name!r} is no name of a value")
    return name


def _specified(arg):
    """An argument of a signature by name."""
    kind, value = arg.type, arg.value
    if kind == "as_tensor":
        return signatures.TensorArgument(value.name)
    for field, made in (
        ("as_sym_int", signatures.SymIntArgument), ("as_sym_float", signatures.SymFloatArgument),
        ("as_sym_bool", signatures.SymBoolArgument),
    ):
        if kind == field:
            return made(value.value) if value.type == "as_name" else signatures.ConstantArgument("", value.value)
    return signatures.ConstantArgument("", _reading.plain(kind, value))


def _input_spec(spec):
    kinds, value = signatures.InputKind, spec.value
    if spec.type == "user_input":
        return signatures.InputSpec(kinds.USER_INPUT, _specified(value.arg), None)
    if spec.type == "constant_input":
        found = None if value.value.type == "as_none" else value.value.value
        return signatures.InputSpec(kinds.USER_INPUT, signatures.ConstantArgument(value.name, found), None)
    if spec.type == "token":
        return signatures.InputSpec(kinds.TOKEN, signatures.TokenArgument(value.arg.name), None)
    if spec.type == "custom_obj":
        raise SerializeError(f"{value.custom_obj_name}: objects of custom classes are not supported")
    tensor = signatures.TensorArgument(value.arg.name)
    if spec.type == "parameter":
        return signatures.InputSpec(kinds.PARAMETER, tensor, value.parameter_name)
    if spec.type == "buffer":
        return signatures.InputSpec(kinds.BUFFER, tensor, value.buffer_name, value.persistent)
    return signatures.InputSpec(kinds.CONSTANT_TENSOR, tensor, value.tensor_constant_name)


def _output_spec(spec):
    kinds, value = signatures.OutputKind, spec.value
    if spec.type == "user_output":
        return signatures.OutputSpec(kinds.USER_OUTPUT, _specified(value.arg), None)
    if spec.type == "token":
        return signatures.OutputSpec(kinds.TOKEN, signatures.TokenArgument(value.arg.name), None)
    tensor = signatures.TensorArgument(value.arg.name)
    target = next((getattr(value, name) for name in value._types if name != "arg"), None)
    return signatures.OutputSpec(kinds[spec.type.upper()], tensor, target)


def _call_entry(entry):
    found = entry.signature
    if found is None:
        return ModuleCallEntry(entry.fqn)
    return ModuleCallEntry(entry.fqn, ModuleCallSignature(
        inputs=[_specified(arg) for arg in found.inputs], outputs=[_specified(arg) for arg in found.outputs],
        in_spec=_reading.tree(treespec_loads, found.in_spec), out_spec=_reading.tree(treespec_loads, found.out_spec),
        forward_arg_names=found.forward_arg_names,
    ))


class ExportedProgramDeserializer:
    """Reads programs."""

    def __init__(self, expected_opset_version=None):
        self.opset = {**OPSET, **(expected_opset_version or {})}

    def deserialize(self, found, state_dict, constants, example_inputs=None):
        """The program.

        Raises:
            SerializeError: It is of another version of the schema, or contradicts itself.
        """
        self._check_versions(found)
        symbols = _reading.Symbols({
            name: (one.min_val, one.max_val) for name, one in found.range_constraints.items()
        })
        reader = GraphModuleDeserializer(symbols)
        graph = reader.read(found.graph_module.graph)
        given = found.graph_module.signature
        signature = signatures.ExportGraphSignature(
            [_input_spec(spec) for spec in given.input_specs], [_output_spec(spec) for spec in given.output_specs],
        )
        _constants_named(graph, signature)
        _reading.mark_gradients(graph, signature, state_dict)
        module = GraphModule(reader.modules, graph)
        from corten._export.verifier import load_verifier

        verifiers = [one for name in found.verifiers if (one := load_verifier(name)) is not None]
        program = ExportedProgram(
            root=module, graph=module.graph, graph_signature=signature, state_dict=state_dict,
            range_constraints=symbols.constraints(),
            module_call_graph=[_call_entry(entry) for entry in found.graph_module.module_call_graph],
            example_inputs=example_inputs, constants=constants, verifiers=verifiers or None,
        )
        program._guards_code = list(found.guards_code)
        return program

    def _check_versions(self, found):
        version = found.schema_version
        if version.major != schema.SCHEMA_VERSION[0]:
            raise SerializeError(
                f"Serialized schema version ({version.major}, {version.minor}) does not match our current schema "
                f"version {schema.SCHEMA_VERSION}."
            )
        for name, number in found.opset_version.items():
            if name in self.opset and number > self.opset[name]:
                raise SerializeError(
                    f"Model opset version {found.opset_version} doesn't match to compiler opset version {self.opset}!"
                )


def _constants_named(graph, signature):
    """Gives the placeholders of constants the names that the signature has."""
    for node, spec in zip(graph.find_nodes(op="placeholder"), signature.input_specs):
        if isinstance(spec.arg, signatures.ConstantArgument) and spec.arg.name:
            node.name = node.target = _identifier(spec.arg.name)
