"""Exported models as objects: saved, run and checked."""

from __future__ import annotations

import os
import tempfile
import warnings

from corten.onnx import _describe
from corten.onnx._graph import DTYPE_NAMES, Graph, Value
from corten.onnx.errors import OnnxExporterError, OnnxExporterWarning

#: Weights of more bytes are written to a file of their own.
_LARGE = 1_536_000_000
#: How many bytes of weights a file has at least beside the model: smaller ones stay in it.
_LEAST = 256


class ONNXProgram:
    """A model of ONNX with the program that it was made of.

    ``model`` is the model while it is in memory: its graph has nodes, inputs, outputs and initializers.
    """

    def __init__(self, model, exported_program=None):
        self.model, self.exported_program = model, exported_program
        self._inference_session, self._folder = None, None

    def __repr__(self):
        graph = self.model.graph
        lines = [f"ONNXProgram(opset={self.model.opset}, inputs={graph.inputs}, outputs={graph.outputs})"]
        for node in graph.nodes:
            attributes = {name: "graph" if isinstance(part, Graph) else part for name, part in node.attributes.items()}
            inputs = ", ".join("" if value is None else f"%{value.name}" for value in node.inputs)
            shown = ", ".join(f"{name}={part}" for name, part in attributes.items())
            lines.append(f"    {', '.join(map(repr, node.outputs))} = {node.op_type}({inputs}) {{{shown}}}")
        return "\n".join(lines)

    # Writing.

    @property
    def model_proto(self):
        """The model as an ``onnx.ModelProto`` where the package onnx is installed, else as the bytes of a file."""
        try:
            import onnx
        except ImportError:
            return self.serialize()
        return onnx.load_model_from_string(self.serialize())

    def serialize(self, **options):
        """The bytes of a file."""
        from corten._C import _onnx_write

        pieces = []
        _onnx_write(_describe.model(self.model, **options), pieces.append)
        return b"".join(pieces)

    def save(self, destination, *, include_initializers=True, keep_initializers_as_inputs=False, external_data=None):
        """Writes the model to a file, which appears under its name only when it is complete.

        Args:
            destination: The path of the file, or a file that is open for writing bytes.
            include_initializers: Whether weights are written.
            keep_initializers_as_inputs: Whether weights are inputs, too, so that callers may give others.
            external_data: Whether weights are written to a file of their own beside the model. Those of more than
                1.5 GB always are.

        Raises:
            TypeError: Weights are to be in a file of their own, and ``destination`` is no path.
        """
        described = _describe.model(
            self.model, include_initializers=include_initializers, keep_initializers_as_inputs=keep_initializers_as_inputs
        )
        external = bool(external_data) or _nbytes(described) > _LARGE
        if hasattr(destination, "write"):
            if external:
                raise TypeError("weights in a file of their own need a path to save to, not a file")
            _write(described, destination.write)
            return
        _save(described, os.fsdecode(destination), external)

    def apply_weights(self, state_dict):
        """Replaces weights by those of a state dict."""
        graph = self.model.graph
        for name, tensor in state_dict.items():
            value = graph.initializers.get(name)
            if value is None:
                warnings.warn(f"Weight '{name}' not found in the model. Skipped applying.", OnnxExporterWarning, stacklevel=2)
                continue
            value.tensor, value.shape = tensor, tuple(int(size) for size in tensor.shape)
        self.release()

    def optimize(self):
        """Removes nodes that change nothing."""
        from corten.onnx._passes import optimize

        optimize(self.model.graph)
        self.release()

    def rename_axes(self, rename_mapping):
        """Gives sizes that are known when the model runs other names."""
        names = {str(name): new for name, new in rename_mapping.items()}
        for value in _values(self.model.graph):
            if value.shape is not None:
                value.shape = tuple(names.get(size, size) if isinstance(size, str) else size for size in value.shape)

    # Running.

    def __call__(self, *args, **kwargs):
        """Runs the model in ONNX Runtime with the arguments that the module takes."""
        if self._inference_session is None:
            self.initialize_inference_session()
        return tuple(_from_array(array) for array in self._inference_session.run(None, self._feed(args, kwargs)))

    def call_reference(self, *args, **kwargs):
        """Runs the model in the reference evaluator of the package onnx."""
        try:
            from onnx.reference import ReferenceEvaluator
        except ImportError as error:
            raise OnnxExporterError("the reference evaluator is part of the package onnx, which is not installed") from error
        found = ReferenceEvaluator(self.model_proto).run(None, self._feed(args, kwargs))
        return tuple(_from_array(array) for array in found)

    def compute_values(self, value_names, args=(), kwargs=None):
        """The values of some names within the model."""
        graph, known = self.model.graph, {value.name: value for value in _values(self.model.graph)}
        for name in value_names:
            if name not in known:
                raise ValueError(f"Value '{name}' not found in the model. Please provide a valid value name.")
        kept, graph.outputs = graph.outputs, [known[name] for name in value_names]
        self.release()
        try:
            return self(*args, **(kwargs or {}))
        finally:
            graph.outputs = kept
            self.release()

    def _feed(self, args, kwargs):
        from corten.utils._pytree import tree_leaves

        leaves = [leaf for leaf in tree_leaves((args, kwargs)) if leaf is not None]
        inputs = self.model.graph.inputs
        if len(leaves) > len(inputs):
            # Numbers of Python became part of the model.
            leaves = [leaf for leaf in leaves if hasattr(leaf, "dtype")]
        return {value.name: _to_array(leaf, value) for value, leaf in zip(inputs, leaves)}

    def initialize_inference_session(self, initializer=None):
        """Makes the session of ONNX Runtime that calls run in.

        Args:
            initializer: What makes a session of the bytes or the path of a model.
        """
        initializer = _session if initializer is None else initializer
        if _nbytes(_describe.model(self.model)) > _LARGE:
            self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            path = os.path.join(self._folder.name, "model.onnx")
            self.save(path, external_data=True)
            self._inference_session = initializer(path)
        else:
            self._inference_session = initializer(self.serialize())

    def release(self):
        """Ends the session; the next call makes another."""
        self._inference_session = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _session(model):
    try:
        import onnxruntime
    except ImportError as error:
        raise OnnxExporterError(
            "models of ONNX run in ONNX Runtime, which is not installed: pip install onnxruntime"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=onnxruntime.get_available_providers())


def _to_array(leaf, value):
    """An argument as an array of NumPy."""
    if hasattr(leaf, "detach"):
        leaf = leaf.detach().cpu()
        if DTYPE_NAMES.get(value.dtype) == "bfloat16":
            raise OnnxExporterError("arrays of NumPy have no bfloat16: inputs of that type cannot be given to ONNX Runtime")
        return leaf.contiguous().numpy()
    import numpy

    return numpy.asarray(leaf, DTYPE_NAMES[value.dtype])


def _from_array(array):
    import corten

    return corten.from_numpy(array.copy()) if hasattr(array, "shape") else array


def _values(graph):
    """All values of a graph and of those within it."""
    found = [*graph.inputs, *graph.outputs]
    for node in graph.nodes:
        found.extend(node.outputs)
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                found.extend(_values(attribute))
    return [value for value in found if isinstance(value, Value)]


def _nbytes(described):
    return sum(tensor.numel() * tensor.element_size() for _, tensor in described["graph"]["initializers"])


def _write(described, write, *external):
    from corten._C import _onnx_write

    _onnx_write(described, write, *external)


def _save(described, path, external):
    from corten._atomic import replaced

    with replaced(path) as file:
        if not external:
            _write(described, file.write)
            return
        with replaced(f"{path}.data") as data:
            _write(described, file.write, f"{os.path.basename(path)}.data", data.write, _LEAST)
