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
