"""Writes exported programs in PyTorch's schema."""

from __future__ import annotations

import corten
from corten._export.serde import schema
from corten._export.serde._codec import SerializeError, from_bytes, to_bytes
from corten._ops import HigherOrderOperator, OpOverload
from corten.export import graph_signature as signatures
from corten.fx import GraphModule, Node
from corten.utils._pytree import treespec_dumps

__all__ = ["ExportedProgramSerializer", "GraphModuleSerializer", "SerializeError", "deserialize", "serialize"]

_DTYPES = {
    "uint8": "BYTE", "int8": "CHAR", "int16": "SHORT", "int32": "INT", "int64": "LONG", "float16": "HALF",
    "float32": "FLOAT", "float64": "DOUBLE", "complex32": "COMPLEXHALF", "complex64": "COMPLEXFLOAT",
    "complex128": "COMPLEXDOUBLE", "bool": "BOOL", "bfloat16": "BFLOAT16", "uint16": "UINT16", "uint32": "UINT32",
    "uint64": "UINT64", "float8_e4m3fn": "FLOAT8E4M3FN", "float8_e5m2": "FLOAT8E5M2",
    "float8_e4m3fnuz": "FLOAT8E4M3FNUZ", "float8_e5m2fnuz": "FLOAT8E5M2FNUZ", "float8_e8m0fnu": "FLOAT8E8M0FNU",
}
TO_DTYPE = {schema.ScalarType[name]: getattr(corten, dtype) for dtype, name in _DTYPES.items() if hasattr(corten, dtype)}
FROM_DTYPE = {dtype: number for number, dtype in TO_DTYPE.items()}
TO_LAYOUT = {
    schema.Layout.Strided: corten.strided, schema.Layout.SparseCoo: corten.sparse_coo,
    schema.Layout.SparseCsr: corten.sparse_csr, schema.Layout.SparseCsc: corten.sparse_csc,
    schema.Layout.SparseBsr: corten.sparse_bsr, schema.Layout.SparseBsc: corten.sparse_bsc,
}
FROM_LAYOUT = {layout: number for number, layout in TO_LAYOUT.items()}
TO_FORMAT = {
    schema.MemoryFormat.ContiguousFormat: corten.contiguous_format,
    schema.MemoryFormat.ChannelsLast: corten.channels_last,
    schema.MemoryFormat.ChannelsLast3d: corten.channels_last_3d,
    schema.MemoryFormat.PreserveFormat: corten.preserve_format,
}
FROM_FORMAT = {layout: number for number, layout in TO_FORMAT.items()}
_SYMBOLIC = (corten.SymInt, corten.SymFloat, corten.SymBool)
OPSET = {"aten": 10}


def _is_symbolic(value):
    return isinstance(value, _SYMBOLIC)


def serialize_sym_int(value):
    """A size."""
    if not _is_symbolic(value):
        return schema.SymInt.create(as_int=int(value))
    return schema.SymInt.create(as_expr=_expression(value, "as_int"))


def _expression(value, kind):
    from corten._export.serde import _expressions

    hint = _expressions.hint(value)
    made = None if hint is None else schema.SymExprHint.create(**{kind: hint})
    return schema.SymExpr(_expressions.written(value), made)


def serialize_device(device):
    """A device."""
    device = corten.device(device)
    return schema.Device(device.type, device.index)


def serialize_tensor_meta(value):
    """The dtype, sizes and place of a tensor."""
    if value.dtype not in FROM_DTYPE:
        raise SerializeError(f"tensors of {value.dtype} have no number in the schema")
    strided = value.layout == corten.strided
    return schema.TensorMeta(
        dtype=FROM_DTYPE[value.dtype], sizes=[serialize_sym_int(size) for size in value.shape],
        requires_grad=value.requires_grad, device=serialize_device(getattr(value, "fake_device", value.device)),
        strides=[serialize_sym_int(one) for one in value.stride()] if strided else [],
        storage_offset=serialize_sym_int(value.storage_offset() if strided else 0), layout=FROM_LAYOUT[value.layout],
    )


def _declared(target):
    """The arguments of an operator: name and type, and whether it is by name only."""
    return [(one.name, one.type.text, one.kwarg_only) for one in target._schema.arguments]


class GraphModuleSerializer:
    """Writes a graph."""

    def __init__(self, graph_signature=None, module_call_graph=()):
        self.signature, self.calls = graph_signature, module_call_graph
        self.named_tuples = {}
        self._reset()

    def _reset(self):
        self.graph = schema.Graph([], [], [], {}, {}, {})

    # Values

    def _note(self, name, value):
        """Keeps what is known of a value."""
        if isinstance(value, corten.Tensor):
            self.graph.tensor_values[name] = serialize_tensor_meta(value)
        elif isinstance(value, corten.SymBool):
            self.graph.sym_bool_values[name] = schema.SymBool.create(as_expr=_expression(value, "as_bool"))
        elif isinstance(value, corten.SymFloat):
            self.graph.sym_float_values[name] = schema.SymFloat.create(as_expr=_expression(value, "as_float"))
        elif isinstance(value, corten.SymInt):
            self.graph.sym_int_values[name] = serialize_sym_int(value)
        elif isinstance(value, bool):
            self.graph.sym_bool_values[name] = schema.SymBool.create(as_bool=value)
        elif isinstance(value, int):
            self.graph.sym_int_values[name] = serialize_sym_int(value)
        elif isinstance(value, float):
            self.graph.sym_float_values[name] = schema.SymFloat.create(as_float=value)

    def node_argument(self, node):
        """A node as an argument."""
        if node.op == "get_attr":
            value = getattr(node.graph.owning_module, node.target, None)
            if isinstance(value, GraphModule):
                return schema.Argument.create(as_graph=schema.GraphArgument(node.target, self._inner(value)))
            return schema.Argument.create(as_tensor=schema.TensorArgument(node.name))
        value = node.meta.get("val")
        for kind, made, field in (
            (corten.SymBool, schema.SymBoolArgument, "as_sym_bool"),
            (corten.SymFloat, schema.SymFloatArgument, "as_sym_float"),
            (corten.SymInt, schema.SymIntArgument, "as_sym_int"),
        ):
            if isinstance(value, kind):
                return schema.Argument.create(**{field: made.create(as_name=node.name)})
        if type(value) in (int, bool, float):
            name = type(value).__name__
            made = {"int": schema.SymIntArgument, "bool": schema.SymBoolArgument, "float": schema.SymFloatArgument}[name]
            return schema.Argument.create(**{f"as_sym_{name}": made.create(as_name=node.name)})
        if isinstance(value, (list, tuple)) and not isinstance(value, corten.Size):
            return schema.Argument.create(as_tensors=self._elements(node))
        return schema.Argument.create(as_tensor=schema.TensorArgument(node.name))

    def _inner(self, module):
        kept, self.graph = self.graph, None
        self._reset()
        try:
            return self._graph(module.graph)
        finally:
            self.graph = kept

    def argument(self, value, kind=""):
        """An argument, of a declared type."""
        if isinstance(value, Node):
            return self.node_argument(value)
        if isinstance(value, (list, tuple)):
            return self._list(list(value), kind)
        if isinstance(value, (OpOverload, HigherOrderOperator)):
            return schema.Argument.create(as_operator=self.operator(value))
        field = self._field(value, kind)
        return schema.Argument.create(**{field[0]: field[1]})

    def _field(self, value, kind):
        if value is None:
            return "as_none", True
        if isinstance(value, bool):
            return "as_bool", value
        if isinstance(value, str):
            return "as_string", value
        if isinstance(value, int):
            return ("as_float", float(value)) if kind.rstrip("?") == "float" else ("as_int", value)
        if isinstance(value, float):
            return "as_float", value
        if isinstance(value, complex):
            return "as_complex", schema.ComplexValue(value.real, value.imag)
        if isinstance(value, corten.dtype):
            return "as_scalar_type", FROM_DTYPE[value]
        if isinstance(value, corten.device):
            return "as_device", serialize_device(value)
        if isinstance(value, corten.memory_format):
            return "as_memory_format", FROM_FORMAT[value]
        if isinstance(value, corten.layout):
            return "as_layout", FROM_LAYOUT[value]
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return "as_string_to_argument", {key: self.argument(one) for key, one in value.items()}
        raise SerializeError(f"Unsupported argument type: {type(value)}")

    def _list(self, values, kind):
        create = schema.Argument.create
        if not values:
            bare = kind.rstrip("?")
            for start, field in (
                ("Tensor?[", "as_optional_tensors"), ("Tensor[", "as_tensors"), ("float[", "as_floats"),
                ("bool[", "as_bools"), ("str[", "as_strings"), ("int[", "as_ints"), ("SymInt[", "as_ints"),
            ):
                if bare.startswith(start):
                    return create(**{field: []})
            return create(as_tensors=[]) if not bare else create(as_ints=[])
        for plain, field in ((bool, "as_bools"), (int, "as_ints"), (float, "as_floats"), (str, "as_strings")):
            if all(type(one) is plain for one in values):
                if plain is int and kind.startswith("float["):
                    return create(as_floats=[float(one) for one in values])
                return create(**{field: values})
        if all(type(one) in (int, float) for one in values):
            return create(as_floats=[float(one) for one in values])
        if all(isinstance(one, (list, tuple)) for one in values):
            if all(isinstance(one, Node) for inner in values for one in inner):
                return create(as_nested_tensors=[[schema.TensorArgument(one.name) for one in inner] for inner in values])
            return create(as_int_lists=[list(map(int, one)) for one in values])
        return self._mixed(values, kind)

    def _mixed(self, values, kind):
        create = schema.Argument.create
        found = [self.node_argument(one) if isinstance(one, Node) else one for one in values]
        kinds = {one.type for one in found if isinstance(one, schema.Argument)}
        if kinds == {"as_tensor"} and all(isinstance(one, Node) for one in values):
            tensors = [schema.TensorArgument(one.name) for one in values]
            if kind.startswith("Tensor?["):
                return create(as_tensors=tensors)
            return create(as_tensors=tensors)
        if kinds <= {"as_tensor"} and all(isinstance(one, Node) or one is None for one in values):
            return create(as_optional_tensors=[
                schema.OptionalTensorArgument.create(as_none=True) if one is None
                else schema.OptionalTensorArgument.create(as_tensor=schema.TensorArgument(one.name)) for one in values
            ])
        for field, made, plain in (
            ("as_sym_int", schema.SymIntArgument, "as_int"), ("as_sym_float", schema.SymFloatArgument, "as_float"),
            ("as_sym_bool", schema.SymBoolArgument, "as_bool"),
        ):
            if kinds == {field}:
                return create(**{f"{field}s": [
                    one.value if isinstance(one, schema.Argument) else made.create(**{plain: one}) for one in found
                ]})
        raise SerializeError(f"Unsupported list/tuple argument: {values}")

    # Nodes

    @staticmethod
    def operator(target):
        """The name of what is called."""
        if isinstance(target, str):
            return target
        if isinstance(target, HigherOrderOperator):
            return f"torch.ops.higher_order.{target._name}"
        if isinstance(target, OpOverload):
            return f"torch.ops.{target}"
        module = getattr(target, "__module__", None) or ""
        return f"{module.replace('corten', 'torch', 1)}.{target.__name__}"

    def _call(self, node):
        target = node.target
        if isinstance(target, OpOverload):
            inputs = self._declared_inputs(node)
        elif isinstance(target, HigherOrderOperator):
            inputs = [schema.NamedArgument("", self.argument(one), schema.ArgumentKind.POSITIONAL) for one in node.args]
            inputs += [
                schema.NamedArgument(name, self.argument(one), schema.ArgumentKind.KEYWORD)
                for name, one in node.kwargs.items()
            ]
        else:
            names = ("a", "b", "c")
            inputs = [
                schema.NamedArgument(name, self.argument(one), schema.ArgumentKind.POSITIONAL)
                for name, one in zip(names, node.args)
            ]
        single = None
        if isinstance(target, HigherOrderOperator):
            single = not isinstance(node.meta.get("val"), (list, tuple))
        self.graph.nodes.append(schema.Node(
            target=self.operator(target), inputs=inputs, outputs=self._outputs(node), metadata=self._metadata(node),
            is_hop_single_tensor_return=single, name=node.name,
        ))

    def _declared_inputs(self, node):
        declared = _declared(node.target)
        kinds = {name: kind for name, kind, _ in declared}
        made = [
            schema.NamedArgument(name, self.argument(value, kind), schema.ArgumentKind.POSITIONAL)
            for value, (name, kind, _) in zip(node.args, declared)
        ]
        return made + [
            schema.NamedArgument(name, self.argument(value, kinds[name]), schema.ArgumentKind.KEYWORD)
            for name, value in node.kwargs.items()
        ]

    def _outputs(self, node):
        value = node.meta.get("val")
        if value is None:
            return []
        if not isinstance(value, (list, tuple)):
            self._note(node.name, value)
            return [self.node_argument(node)]
        elements = self._elements(node)
        if isinstance(node.target, OpOverload) and _returns_list(node.target):
            return [schema.Argument.create(as_tensors=elements)]
        return [
            schema.Argument.create(as_tensor=one) if isinstance(one, schema.TensorArgument)
            else schema.Argument.create(as_none=True) for one in elements
        ]

    def _elements(self, node):
        """The elements of a value by name; those that nothing reads have names of their own."""
        value, users = node.meta["val"], {}
        for user in node.users:
            if getattr(user.target, "__name__", "") == "getitem":
                users.setdefault(user.args[1], user)
        found = []
        for place, one in enumerate(value):
            if one is None:
                found.append(None)
                continue
            name = users[place].name if place in users else f"{node.name}_unused_{place}"
            self._note(name, one)
            found.append(schema.TensorArgument(name))
        return found

    def _metadata(self, node):
        found = {}
        if node.meta.get("stack_trace"):
            found["stack_trace"] = node.meta["stack_trace"]
        if node.meta.get("nn_module_stack"):
            found["nn_module_stack"] = ";".join(
                f"{key},{path},{kind}" for key, (path, kind) in node.meta["nn_module_stack"].items()
            )
        if node.meta.get("torch_fn"):
            found["torch_fn"] = ";".join(node.meta["torch_fn"])
        return found

    def _graph(self, graph):
        for node in graph.nodes:
            if node.op == "placeholder":
                value = node.meta.get("val")
                self._note(node.name, value) if isinstance(value, (corten.Tensor, *_SYMBOLIC)) else None
                plain = value is None or isinstance(value, (int, float, bool, str)) and not _is_symbolic(value)
                self.graph.inputs.append(self.argument(value) if plain else self.node_argument(node))
            elif node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem":
                self._call(node)
            elif node.op == "output":
                values = node.args[0]
                self.graph.is_single_tensor_return = isinstance(values, Node)
                values = [values] if isinstance(values, Node) else values
                self.graph.outputs.extend(self.argument(one) for one in values)
        return self.graph

    # Signatures

    def _input_spec(self, spec):
        kinds, create = signatures.InputKind, schema.InputSpec.create
        tensor = schema.TensorArgument(spec.arg.name)
        if spec.kind == kinds.PARAMETER:
            return create(parameter=schema.InputToParameterSpec(tensor, spec.target))
        if spec.kind == kinds.BUFFER:
            return create(buffer=schema.InputToBufferSpec(tensor, spec.target, spec.persistent))
        if spec.kind == kinds.CONSTANT_TENSOR:
            return create(tensor_constant=schema.InputToTensorConstantSpec(tensor, spec.target))
        if spec.kind == kinds.TOKEN:
            return create(token=schema.InputTokenSpec(schema.TokenArgument(spec.arg.name)))
        if spec.kind == kinds.CUSTOM_OBJ:
            raise SerializeError("objects of custom classes cannot be written")
        if isinstance(spec.arg, signatures.ConstantArgument):
            name, value = self._field(spec.arg.value, "")
            return create(constant_input=schema.InputToConstantInputSpec(
                spec.arg.name, schema.ConstantValue.create(**{name: value})
            ))
        return create(user_input=schema.UserInputSpec(self._specified(spec.arg)))

    def _specified(self, arg):
        create = schema.Argument.create
        if isinstance(arg, signatures.ConstantArgument):
            return self.argument(arg.value)
        for kind, field, made in (
            (signatures.SymIntArgument, "as_sym_int", schema.SymIntArgument),
            (signatures.SymFloatArgument, "as_sym_float", schema.SymFloatArgument),
            (signatures.SymBoolArgument, "as_sym_bool", schema.SymBoolArgument),
        ):
            if isinstance(arg, kind):
                return create(**{field: made.create(as_name=arg.name)})
        return create(as_tensor=schema.TensorArgument(arg.name))

    def _output_spec(self, spec):
        kinds, create = signatures.OutputKind, schema.OutputSpec.create
        if spec.kind == kinds.USER_OUTPUT:
            return create(user_output=schema.UserOutputSpec(self._specified(spec.arg)))
        tensor = schema.TensorArgument(spec.arg.name)
        if spec.kind == kinds.LOSS_OUTPUT:
            return create(loss_output=schema.LossOutputSpec(tensor))
        if spec.kind == kinds.TOKEN:
            return create(token=schema.OutputTokenSpec(schema.TokenArgument(spec.arg.name)))
        field, made = {
            kinds.BUFFER_MUTATION: ("buffer_mutation", schema.BufferMutationSpec),
            kinds.PARAMETER_MUTATION: ("parameter_mutation", schema.ParameterMutationSpec),
            kinds.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", schema.GradientToParameterSpec),
            kinds.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", schema.GradientToUserInputSpec),
            kinds.USER_INPUT_MUTATION: ("user_input_mutation", schema.UserInputMutationSpec),
        }[spec.kind]
        return create(**{field: made(tensor, spec.target)})

    def _call_entry(self, entry):
        found = entry.signature
        if found is None:
            return schema.ModuleCallEntry(entry.fqn)
        return schema.ModuleCallEntry(entry.fqn, schema.ModuleCallSignature(
            inputs=[self._specified(arg) for arg in found.inputs],
            outputs=[self._specified(arg) for arg in found.outputs],
            in_spec=treespec_dumps(found.in_spec, schema.TREESPEC_VERSION),
            out_spec=treespec_dumps(found.out_spec, schema.TREESPEC_VERSION),
            forward_arg_names=found.forward_arg_names,
        ))

    def serialize(self, graph_module):
        """The graph with its signature."""
        return schema.GraphModule(
            graph=self._graph(graph_module.graph),
            signature=schema.GraphSignature(
                [self._input_spec(spec) for spec in self.signature.input_specs],
                [self._output_spec(spec) for spec in self.signature.output_specs],
            ),
            module_call_graph=[self._call_entry(entry) for entry in self.calls],
        )


def _returns_list(target):
    return str(target._schema).rpartition(" -> ")[2].endswith("]")


class ExportedProgramSerializer:
    """Writes programs."""

    def __init__(self, opset_version=None, pickle_protocol=2):
        self.opset = {**OPSET, **(opset_version or {})}

    def serialize(self, program):
        """The program as a value of the schema, without its tensors."""
        from corten._as_torch import TORCH_VERSION
        from corten._export.serde import _expressions

        module = GraphModuleSerializer(program.graph_signature, program.module_call_graph).serialize(program.graph_module)
        return schema.ExportedProgram(
            graph_module=module, opset_version=self.opset,
            range_constraints={
                str(name): schema.RangeConstraint(*_expressions.bounds(found))
                for name, found in program.range_constraints.items()
            },
            schema_version=schema.SchemaVersion(*schema.SCHEMA_VERSION),
            verifiers=[one.dialect for one in program.verifiers], torch_version=TORCH_VERSION,
            guards_code=list(program._guards_code),
        )


def serialize(exported_program, opset_version=None, pickle_protocol=2):
    """The program as JSON."""
    return to_bytes(ExportedProgramSerializer(opset_version, pickle_protocol).serialize(exported_program))


def deserialize(artifact, state_dict, constants, example_inputs=None, expected_opset_version=None):
    """The program of JSON and its tensors."""
    from corten._export.serde.deserialize import ExportedProgramDeserializer

    found = from_bytes("ExportedProgram", artifact)
    return ExportedProgramDeserializer(expected_opset_version).deserialize(found, state_dict, constants, example_inputs)
