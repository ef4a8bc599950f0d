"""What goes wrong with exports."""

from __future__ import annotations

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError"]


class OnnxExporterWarning(UserWarning):
    """Something about an export that its caller should know."""


class OnnxExporterError(RuntimeError):
    """A model could not be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator has no translation in a version of ONNX's operators."""

    def __init__(self, name, version, supported_version=None):
        advice = "" if supported_version is None else f"; it is supported from version {supported_version} on"
        super().__init__(f"Exporting the operator '{name}' to ONNX opset version {version} is not supported{advice}")


class SymbolicValueError(OnnxExporterError):
    """A translation was given a value that it cannot take."""

    def __init__(self, msg, value=None):
        super().__init__(msg if value is None else f"{msg}  [Caused by the value '{value}']")
