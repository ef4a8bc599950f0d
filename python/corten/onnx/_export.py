"""``torch.onnx.export``: captures a module, writes it as a graph of ONNX and saves it."""

from __future__ import annotations

import inspect
import os
import warnings
from contextlib import contextmanager

from corten.onnx import _dimensions, _from_program, _passes
from corten.onnx._custom import table
from corten.onnx._lowering import label_of, missing
from corten.onnx._program import ONNXProgram
from corten.onnx.errors import OnnxExporterError

#: The versions of ONNX's operators that can be written.
OPSETS = range(18, 24)
DEFAULT_OPSET = 20

_exporting = [0]


def is_exporting():
    """Whether a model is being captured for an export."""
    return bool(_exporting[0])


@contextmanager
def exporting():
    """Lets code of models know that they are captured for an export."""
    _exporting[0] += 1
    try:
        yield
    finally:
        _exporting[0] -= 1


def export(model, args=(), kwargs=None, *, input_names=None, output_names=None, opset_version=None, dynamic_shapes=None,
           dynamic_axes=None, custom_translation_table=None, optimize=True, say=lambda text: None):
    """The program of a module, an exported program, or a scripted or traced function."""
    opset = DEFAULT_OPSET if opset_version is None else opset_version
    if opset < OPSETS[0]:
        warnings.warn(
            f"version {opset} of ONNX's operators was asked for, and version {OPSETS[0]} is the first that is written: the model has it",
            stacklevel=3,
        )
        opset = OPSETS[0]
    if opset > OPSETS[-1]:
        raise ValueError(f"opset_version {opset} is not supported: {OPSETS[0]} to {OPSETS[-1]} are")
    args = args if isinstance(args, tuple) else (args,)
    if args and isinstance(args[-1], dict) and kwargs is None and _is_module(model) and _ends_with_names(model, args):
        args, kwargs = args[:-1], args[-1]
    kwargs = kwargs or {}
    given = _Given(model, args, kwargs, input_names, dynamic_shapes, dynamic_axes)
    say("Obtain model graph with `torch.export.export(..., strict=False)`...")
    program = _captured(model, args, kwargs, given.hints)
    custom = table(custom_translation_table, opset)
    program = _supported(program, custom, say)
    say("Translate the graph into ONNX...")
    return _translated(program, opset, given, input_names, output_names, custom, optimize)


def _is_module(model):
    return hasattr(model, "forward")


def _ends_with_names(model, args):
    """Whether the last positional argument has keyword arguments, as callers of old give them."""
    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return False
    named = {parameter.name for parameter in parameters}
    keys = args[-1].keys()
    return len(args) > 1 and all(isinstance(key, str) and key in named for key in keys) and len(args) > len(parameters) or (
        len(args) > 1 and bool(keys) and all(key in named for key in keys)
        and not any(parameter.name in keys for parameter in parameters[: len(args) - 1])
    )


class _Given:
    """What the caller said of sizes: hints for the capture, and names."""

    def __init__(self, model, args, kwargs, input_names, dynamic_shapes, dynamic_axes):
        self.specs, self.axes, self.hints = dynamic_shapes, {}, None
        if dynamic_shapes is None and not dynamic_axes:
            return
        from corten.export import Dim

        if dynamic_shapes is not None:
            self.hints = _dimensions.with_hints(dynamic_shapes, Dim.DYNAMIC)
            if isinstance(self.hints, list):
                self.hints = tuple(self.hints)
        else:
            names = list(input_names or ()) or _parameters(model, args, kwargs)
            values = [*args, *kwargs.values()]
            specs, self.axes = _dimensions.of_axes(dynamic_axes, names, values, Dim.DYNAMIC)
            self.hints = _by_arguments(model, args, kwargs, specs)

    def name(self, names, inputs):
        """Gives the symbols of inputs, pairs of a name and a shape, the names that the caller gave."""
        if self.specs is not None:
            _dimensions.name_inputs(names, self.specs, [shape for _, shape in inputs])
        for name, shape in inputs:
            for dim, axis in self.axes.get(name, {}).items():
                if dim < len(shape) and not isinstance(shape[dim], int):
                    names.give(shape[dim], axis)


def _parameters(model, args, kwargs):
    function = model.forward if _is_module(model) else model
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return [*names[: len(args)], *kwargs]


def _by_arguments(model, args, kwargs, specs):
    """Specifications as the capture takes them: by the names of arguments where some are given by name."""
    if not kwargs:
        return tuple(specs)
    return dict(zip([*_parameters(model, args, {}), *kwargs], specs))


def _captured(model, args, kwargs, hints):
    import corten
    from corten.export import ExportedProgram

    if isinstance(model, ExportedProgram):
        return model
    if not _is_module(model):
        model = _wrapped(model)
    try:
        with exporting(), corten.no_grad():
            return corten.export.export(model, args, kwargs, dynamic_shapes=hints, strict=False)
    except Exception as error:
        raise OnnxExporterError(
            f"Failed to export the model with torch.export: {type(error).__name__}: {error}"
        ) from error


def _wrapped(function):
    import corten

    if not callable(function):
        raise TypeError(f"a module, a function or an exported program is expected, not {type(function).__name__}")

    class Function(corten.nn.Module):
        def forward(self, *args, **kwargs):
            return function(*args, **kwargs)

    return Function().eval()


def _supported(program, custom, say):
    """The program over operators that have translations."""
    lacking = missing(program.graph_module, custom)
    if not lacking:
        return program
    say("Run decompositions...")
    try:
        program = program.run_decompositions()
    except (ImportError, NotImplementedError, AttributeError):
        # What cannot be decomposed is told by its name below.
        pass
    lacking = missing(program.graph_module, custom)
    if lacking:
        names = sorted({label_of(node.target) for node in lacking})
        trace = (lacking[0].meta.get("stack_trace") or "").strip()
        where = f"\n{label_of(lacking[0].target)} is called here:\n{trace}" if trace else ""
        raise OnnxExporterError(
            f"No ONNX function found for {', '.join(names)}. Translations can be given in custom_translation_table, or with "
            f"torch.onnx.register_custom_op_symbolic.{where}"
        )
    return program


def _translated(program, opset, given, input_names, output_names, custom, optimize):
    import corten

    names = _dimensions.Names()
    nodes = {node.name: node for node in program.graph_module.graph.nodes if node.op == "placeholder"}
    inputs = []
    for spec in program.graph_signature.input_specs:
        val = nodes[spec.arg.name].meta.get("val") if spec.kind.name == "USER_INPUT" else None
        if spec.kind.name == "USER_INPUT":
            shape = tuple(val.shape) if hasattr(val, "shape") else None
            position = len(inputs)
            name = (input_names or ())[position] if input_names and position < len(input_names) else spec.arg.name
            inputs.append((name, shape))
    given.name(names, inputs)
    model = _from_program.build(
        program, opset, names, input_names=input_names or (), output_names=output_names or (), custom=custom,
        producer_version=str(corten.__version__),
    )
    _name_axes(model.graph, given.axes)
    if optimize:
        _passes.optimize(model.graph)
    return ONNXProgram(model, program)


def _name_axes(graph, axes):
    """Names of open sizes of outputs that the caller gave."""
    for value in graph.outputs:
        for dim, axis in axes.get(value.name, {}).items():
            if value.shape is not None and dim < len(value.shape) and not isinstance(value.shape[dim], int):
                value.shape = (*value.shape[:dim], axis, *value.shape[dim + 1 :])


def write_report(folder, program, error=None):
    """Writes what an export did as a page of Markdown; gives its path."""
    import time

    state = "success" if error is None else "conversion"
    path = os.path.join(os.fsdecode(folder), f"onnx_export_{time.strftime('%Y-%m-%d_%H-%M-%S')}_{state}.md")
    lines = ["# Export to ONNX", ""]
    if error is not None:
        lines += ["The model could not be exported:", "", "```", str(error), "```"]
    else:
        counts = {}
        for node in program.model.graph.nodes:
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
        lines += ["The model was exported.", "", "| operator | nodes |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in sorted(counts.items())]
        lines += ["", "```", repr(program), "```"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path
