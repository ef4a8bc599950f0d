"""Names of PyTorch's first exporter that programs still import."""

from __future__ import annotations

from contextlib import contextmanager

from corten.onnx import export, is_in_onnx_export, register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = [
    "export", "is_in_onnx_export", "register_custom_op_symbolic", "select_model_mode_for_export", "unregister_custom_op_symbolic",
]


@contextmanager
def select_model_mode_for_export(model, mode):
    """Puts a module into the mode of an export for the time of a block."""
    wanted = {0: False, 2: True}.get(int(mode)) if mode is not None else None
    before = getattr(model, "training", None)
    if wanted is not None and before is not None and wanted != before:
        model.train(wanted)
    try:
        yield
    finally:
        if wanted is not None and before is not None and wanted != before:
            model.train(before)
