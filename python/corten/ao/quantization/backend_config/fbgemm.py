"""The backend FBGEMM."""

from __future__ import annotations

from .native import _INT8, _LINEAR, backend, weighted_op_quint8_dtype_config

__all__ = ["get_fbgemm_backend_config"]


def get_fbgemm_backend_config():
    """What FBGEMM supports."""
    return backend(
        "fbgemm", conv=[weighted_op_quint8_dtype_config], linear=_LINEAR, binary=_INT8, default=_INT8,
        fixed=_INT8, share=_INT8, info=_INT8,
    )
