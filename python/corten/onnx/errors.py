"""What goes wrong with exports."""

from __future__ import annotations

__all__ = ["OnnxExporterError"]


class OnnxExporterError(RuntimeError):
    """A model could not be exported."""
