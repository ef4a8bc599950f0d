"""Models in the format ONNX: :func:`export` captures a module with ``torch.export`` and writes it as a graph of ONNX's
operators."""

from __future__ import annotations

from corten.onnx import errors
from corten.onnx.errors import OnnxExporterError

__all__ = ["ONNXProgram", "OnnxExporterError", "errors", "export", "is_in_onnx_export", "ops"]

producer_name = "pytorch"


def export(
    model, args=(), f=None, *, kwargs=None, verbose=None, input_names=None, output_names=None, opset_version=None, dynamo=True,
    external_data=True, dynamic_shapes=None, custom_translation_table=None, report=False, optimize=True, verify=False,
    profile=False, dump_exported_program=False, artifacts_dir=".", export_params=True, keep_initializers_as_inputs=False,
    dynamic_axes=None, fallback=False, **deprecated,
):
    """Captures a module with example inputs and gives it as an :class:`ONNXProgram`.

    Args:
        model: A module, a function, or a ``torch.export.ExportedProgram``.
        args: Example positional inputs: tensors become inputs of the model, all else a part of it.
        f: A path to save the model to.
        kwargs: Example inputs by name.
        verbose: Whether the steps are told.
        input_names: Names of the inputs in order.
        output_names: Names of the outputs in order.
        opset_version: The version of ONNX's operators, 18 to 23; 20 without it.
        dynamo: Both ways of PyTorch are this one; ``False`` gives no program back where ``f`` is given.
        external_data: Whether ``f`` has its weights in a file of their own, ``<f>.data``.
        dynamic_shapes: Which sizes are known when the model runs only, as for ``torch.export.export``, or by names.
        custom_translation_table: Functions that write operators, by these: ``{torch.ops.aten.relu.default: write}``, with
            ``def write(g, x): return g.op("Relu", x)``, or functions of ONNX Script.
        report: Whether a page about the export is written to ``artifacts_dir``.
        optimize: Whether nodes that change nothing are removed.
        verify: Whether results of ONNX Runtime for the example inputs are compared with those of the module.
        profile: Not used: an export has no profile.
        dump_exported_program: Whether the captured program is saved to ``artifacts_dir``.
        artifacts_dir: The folder of reports.
        export_params: Whether ``f`` has the weights.
        keep_initializers_as_inputs: Whether weights are inputs of ``f``, too.
        dynamic_axes: Sizes that are known when the model runs only, by names of inputs: ``{"x": {0: "batch"}}``.
        fallback: Not used: there is one exporter.

    Raises:
        OnnxExporterError: The module cannot be captured, or calls an operator that ONNX cannot express.

    Example::

        model = torch.nn.Linear(4, 2).eval()
        program = torch.onnx.export(model, (torch.randn(3, 4),), "linear.onnx", input_names=["x"], external_data=False)
    """
    from corten.onnx import _export

    _check_deprecated(deprecated)
    say = (lambda text: print(f"[torch.onnx] {text}")) if verbose else (lambda text: None)
    try:
        program = _export.export(
            model, args, kwargs, input_names=input_names, output_names=output_names, opset_version=opset_version,
            dynamic_shapes=dynamic_shapes, dynamic_axes=dynamic_axes, custom_translation_table=custom_translation_table,
            optimize=optimize, say=say,
        )
    except OnnxExporterError as error:
        if report:
            _export.write_report(artifacts_dir, None, error)
        raise
    if report:
        say(f"The report is at {_export.write_report(artifacts_dir, program)}")
    if dump_exported_program:
        import os

        import corten

        corten.export.save(program.exported_program, os.path.join(artifacts_dir, "onnx_export.pt2"))
    if verify:
        _verify(program, args if isinstance(args, tuple) else (args,), kwargs)
    if f is not None:
        program.save(f, include_initializers=export_params, keep_initializers_as_inputs=keep_initializers_as_inputs,
                     external_data=external_data and dynamo and not hasattr(f, "write"))
    return program if dynamo or f is None else None


_DEPRECATED = frozenset((
    "training", "operator_export_type", "do_constant_folding", "custom_opsets", "export_modules_as_functions",
    "autograd_inlining", "example_outputs", "enable_onnx_checker", "use_external_data_format",
))


def _check_deprecated(options):
    """Options without effect are taken, others are not."""
    for name in options:
        if name not in _DEPRECATED:
            raise TypeError(f"export() got an unexpected keyword argument {name!r}")


def _verify(program, args, kwargs):
    from corten.onnx.verification import verify_onnx_program

    for found in verify_onnx_program(program, args, kwargs):
        print(f"{found.name}: max_abs_diff={found.max_abs_diff}, max_rel_diff={found.max_rel_diff}")


def is_in_onnx_export():
    """Whether the calling code runs because a model is being exported."""
    from corten.onnx._export import is_exporting

    return is_exporting()


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Lets a function write an operator, from a version of ONNX's operators on.

    Args:
        symbolic_name: The operator: ``"mylib::norm"``.
        symbolic_fn: Called with ``g`` and the operator's arguments; ``g.op("Relu", x)`` calls an operator of ONNX.
        opset_version: The first version of ONNX's operators for which it is meant.
    """
    from corten.onnx._custom import REGISTERED

    space, _, name = symbolic_name.partition("::")
    if not (space and name):
        raise ValueError(
            f"Failed to register operator {symbolic_name}. The symbolic name must match the format "
            "'domain::name'"
        )
    REGISTERED[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Forgets what :func:`register_custom_op_symbolic` kept."""
    from corten.onnx._custom import REGISTERED

    REGISTERED.pop((symbolic_name, opset_version), None)


def __getattr__(name):
    import importlib

    if name == "ONNXProgram":
        from corten.onnx._program import ONNXProgram

        return ONNXProgram
    if name in ("ops", "utils", "verification", "symbolic_helper", "testing"):
        return importlib.import_module(f"corten.onnx.{name}")
    if name == "producer_version":
        import corten

        return str(corten.__version__)
    raise AttributeError(f"module 'torch.onnx' has no attribute {name!r}")
