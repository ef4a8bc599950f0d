"""Models as plain values, which the extension module writes."""

from __future__ import annotations

from corten.onnx._graph import DTYPE_NAMES, Graph, Node

#: Where files say that inputs and outputs come from.
_KINDS = {"inputs": "InputSpec", "outputs": "OutputSpec"}


def model(found, *, include_initializers=True, keep_initializers_as_inputs=False, make=None):
    """A dictionary of a model: what :func:`corten._C._onnx_write` takes."""
    graph = found.graph
    weights = _initializers(graph)
    inputs = list(graph.inputs)
    if keep_initializers_as_inputs:
        inputs.extend(weights)
    described = _graph(graph, inputs)
    if include_initializers:
        described["initializers"] = [(value.name, tensor_of(value, make)) for value in weights]
    domains = {"": found.opset, **graph.domains}
    return {
        "ir_version": found.ir_version, "opset": domains, "producer_name": "pytorch",
        "producer_version": found.producer_version, "graph": described, "metadata": dict(found.metadata),
    }


def initializers(graph):
    """The named tensors and constants that a graph uses, the named ones first."""
    return _initializers(graph)


def _initializers(graph):
    used = graph.used()
    named = [value for value in graph.initializers.values() if id(value) in used]
    constants = [value for value in graph._constants.values() if id(value) in used]
    return named + constants


def tensor_of(value, make=None):
    """The tensor of an initializer."""
    if make is not None:
        return make(value)
    import corten

    if value.tensor is not None:
        return value.tensor.detach().cpu().contiguous()
    dtype = getattr(corten, DTYPE_NAMES[value.dtype])
    return corten.tensor(list(value.data), dtype=dtype).reshape(value.shape)


def _graph(graph, inputs=None):
    outer = {id(value) for value in (*graph.inputs, *graph.outputs)}
    values = [output for node in graph.nodes for output in node.outputs if id(output) not in outer and _whole(output)]
    return {
        "name": graph.name,
        "nodes": [_node(node) for node in graph.nodes],
        "inputs": [_value(value) for value in (graph.inputs if inputs is None else inputs)],
        "outputs": [_value(value) for value in graph.outputs],
        "values": [_value(value) for value in values],
        "initializers": [],
    }


def _whole(value):
    """Whether type and shape are known and worth a line."""
    return value.dtype is not None and value.shape is not None and None not in value.shape


def _value(value):
    shape = None if value.shape is None else list(value.shape)
    return {"name": value.name, "type": value.dtype, "shape": shape}


def _node(node: Node):
    return {
        "op_type": node.op_type, "domain": node.domain, "name": node.name,
        "inputs": ["" if value is None else value.name for value in node.inputs],
        "outputs": [value.name for value in node.outputs],
        "attributes": {name: _attribute(attribute) for name, attribute in node.attributes.items()},
        "metadata": node.metadata,
    }


def _attribute(attribute):
    if isinstance(attribute, Graph):
        return _graph(attribute)
    if isinstance(attribute, bool):
        return int(attribute)
    return list(attribute) if isinstance(attribute, (tuple, range)) else attribute
