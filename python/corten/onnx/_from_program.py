"""From exported programs to models: inputs, parameters, outputs and their names."""

from __future__ import annotations

from corten.onnx._builder import Meta
from corten.onnx._graph import BOOL, FLOAT, INT64, Graph, Model, Value
from corten.onnx._lowering import Folded, Lowering
from corten.onnx.errors import OnnxExporterError

#: What is no input of a model.
_TENSORS = {"PARAMETER": "state_dict", "BUFFER": "state_dict", "CONSTANT_TENSOR": "constants"}


def build(program, opset, names, *, input_names=(), output_names=(), custom=None, producer_version=""):
    """The model of an exported program.

    Args:
        program: An ``ExportedProgram``.
        opset: The version of the operators.
        names: What calls sizes that are known when the model runs by names.
        input_names: Names of the first inputs.
        output_names: Names of the first outputs.
        custom: Translations of the caller, by what nodes call.
    """
    lowering = Lowering(opset, names, custom)
    module = program.graph_module
    wanted = {str(name) for name in (*input_names, *output_names) if name}
    placeholders = _inputs(lowering, program, list(input_names), wanted)
    results = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            if node not in placeholders:
                raise OnnxExporterError(f"the input {node.name} is not in the signature of the program")
        elif node.op == "output":
            results = node.args[0]
        else:
            lowering.visit(module, node)
    _outputs(lowering, program, results, list(output_names))
    simplify(lowering.graph)
    return Model(lowering.graph, opset, producer_version)


def _inputs(lowering, program, input_names, wanted):
    """Enters parameters, buffers and inputs; gives their nodes."""
    graph = lowering.graph
    graph._taken.update(wanted)
    nodes = {node.name: node for node in program.graph_module.graph.nodes if node.op == "placeholder"}
    known, found = {}, set()
    for spec in program.graph_signature.input_specs:
        node = nodes[spec.arg.name]
        found.add(node)
        kind = spec.kind.name
        if kind in _TENSORS:
            lowering.values[node] = _weight(lowering, program, spec, kind, known)
        elif kind == "USER_INPUT":
            lowering.values[node] = _user_input(lowering, node, input_names)
        elif kind != "TOKEN":
            raise OnnxExporterError(f"inputs of the kind {kind} cannot be exported: {spec.target}")
    return found


def _weight(lowering, program, spec, kind, known):
    """A parameter, a buffer or a constant: one initializer for those that share their memory."""
    target = spec.target
    tensor = program.constants.get(target) if kind == "CONSTANT_TENSOR" else program.state_dict.get(target)
    tensor = program.constants.get(target) if tensor is None else tensor
    if kind == "CONSTANT_TENSOR" and tensor.numel() <= 64:
        return Folded(tensor)
    key = _identity(tensor)
    if key not in known:
        val = Meta(tensor, lowering.names)
        value = lowering.graph.initializer(target, tensor, val.dtype, val.shape)
        known[key] = value if kind != "CONSTANT_TENSOR" else Folded(tensor, target)
        if kind == "CONSTANT_TENSOR":
            known[key].value = value
    return known[key]


def _identity(tensor):
    try:
        return tensor.data_ptr() or id(tensor), tuple(tensor.shape), tuple(tensor.stride()), str(tensor.dtype)
    except Exception:  # noqa: BLE001
        # Tensors without memory are none but themselves.
        return id(tensor)


def _user_input(lowering, node, input_names):
    """An input of the model; what is no tensor and no size was part of the program when it was captured."""
    val = node.meta.get("val")
    if val is None or isinstance(val, (int, float, bool, str)) and not hasattr(val, "node"):
        return val
    if not hasattr(val, "dtype") and not hasattr(val, "node"):
        return val
    meta = Meta(val, lowering.names)
    graph = lowering.graph
    name = input_names[len(graph.inputs)] if len(graph.inputs) < len(input_names) else None
    value = Value(name, meta.dtype) if name else graph.value(node.name, meta.dtype)
    value.shape = () if meta.is_size else meta.shape
    graph.inputs.append(value)
    if not meta.is_size:
        return value
    size = lowering.g.op("Reshape", value, lowering.g.vector([1]), shape=(1,))
    size.is_size = True
    return size


def _outputs(lowering, program, results, output_names):
    """Enters what the model gives to its user, each under a name of its own."""
    graph, g = lowering.graph, lowering.g
    g.out, g.metadata = None, {}
    taken = {id(value) for value in graph.inputs}
    kinds = [spec.kind.name for spec in program.graph_signature.output_specs]
    for node, kind in zip(results, kinds):
        if kind not in ("USER_OUTPUT", "LOSS_OUTPUT"):
            continue
        value = lowering.argument(node)
        if value is None:
            continue
        g.label = "output"
        value = _output(lowering, node, value, taken)
        taken.add(id(value))
        graph.outputs.append(value)
    for value, name in zip(graph.outputs, output_names):
        value.name = name


def _output(lowering, node, value, taken):
    g = lowering.g
    name = getattr(node, "name", "output")
    if not isinstance(value, Value):
        value = g.scalar(value, BOOL if isinstance(value, bool) else INT64 if isinstance(value, int) else FLOAT)
    if value.is_size:
        value = g.op("Squeeze", value, g.vector([0]), shape=())
        lowering.graph.rename(value, name)
    elif id(value) in taken or value.data is not None or value.tensor is not None:
        value = g.op("Identity", value, shape=value.shape)
        lowering.graph.rename(value, name)
    return value


def simplify(graph):
    """Removes nodes whose results are not used."""
    kept, used = [], {id(value) for value in graph.outputs}
    for node in reversed(graph.nodes):
        if not any(id(output) in used for output in node.outputs):
            continue
        kept.append(node)
        used.update(id(value) for value in node.inputs if value is not None)
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                simplify(attribute)
                used.update(attribute.used())
    graph.nodes = kept[::-1]
