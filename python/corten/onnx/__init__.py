"""Models in the format ONNX. This build cannot write it: programs that name the module run, and an
export says that it is missing."""

from __future__ import annotations

from corten.onnx import errors
from corten.onnx.errors import OnnxExporterError

__all__ = ["OnnxExporterError", "errors", "export", "is_in_onnx_export"]


def export(model, args=(), f=None, **options):
    """Refused: there is no exporter.

    Raises:
        OnnxExporterError: Always.
    """
    raise OnnxExporterError("models cannot be exported to ONNX: this build has no exporter")


def is_in_onnx_export():
    """Whether the calling code runs because a model is being exported."""
    return False


#: Functions that say how operators are written, by name and version. They are kept for an exporter.
_symbolics = {}


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Keeps a function that says how an operator is written."""
    space, _, name = symbolic_name.partition("::")
    if not (space and name):
        raise ValueError(
            f"Failed to register operator {symbolic_name}. The symbolic name must match the format "
            "'domain::name'"
        )
    _symbolics[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Forgets what :func:`register_custom_op_symbolic` kept."""
    _symbolics.pop((symbolic_name, opset_version), None)
