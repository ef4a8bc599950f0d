"""The backend of x86 processors."""

from __future__ import annotations

from .native import _INT8, _LINEAR, backend, weighted_op_quint8_dtype_config

__all__ = ["get_x86_backend_config"]


def get_x86_backend_config():
    """What FBGEMM and oneDNN support together."""
    weights = [weighted_op_quint8_dtype_config]
    return backend(
        "x86", conv=weights, linear=_LINEAR, binary=weights, default=_INT8, fixed=weights, share=_INT8,
        info=_INT8,
    )
