"""Models of ONNX that are read: what files hold, without the package onnx."""

from __future__ import annotations

import os

from corten.onnx._graph import DTYPE_NAMES


def load(path):
    """The description of a file: a dictionary of its fields, with tensors, as :mod:`corten.onnx._describe` makes it."""
    from corten._C import _onnx_read

    path = os.fsdecode(path)
    with open(path, "rb") as file:
        return _onnx_read(file.read(), os.path.dirname(os.path.abspath(path)))


class Weights(dict):
    """The tensors of a model by name, with what the file says beside them."""

    metadata = {}


def weights(path):
    """The tensors of a file."""
    model = load(path)
    graph = model["graph"]
    found = Weights(graph["initializers"])
    counts = {}
    for node in graph["nodes"]:
        counts[node["op_type"]] = counts.get(node["op_type"], 0) + 1
    found.metadata = {
        "ir_version": model["ir_version"], "opset": ", ".join(f"{domain or 'ai.onnx'} {n}" for domain, n in model["opset"].items()),
        "producer": f"{model['producer_name']} {model['producer_version']}".strip(), **model["metadata"],
        "inputs": [_shown(value) for value in graph["inputs"]], "outputs": [_shown(value) for value in graph["outputs"]],
        "nodes": [f"{name}: {count}" for name, count in sorted(counts.items())],
    }
    return found


def _shown(value):
    sizes = "" if value["shape"] is None else f"[{', '.join('?' if size is None else str(size) for size in value['shape'])}]"
    return f"{value['name']}: {DTYPE_NAMES.get(value['type'], value['type'])}{sizes}"
