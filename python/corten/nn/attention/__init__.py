"""Choice among the kernels of attention."""

from __future__ import annotations

import contextlib
import enum

from corten.backends import cuda

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """The kernels of ``scaled_dot_product_attention``."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_switches = {
    SDPBackend.CUDNN_ATTENTION: (cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp),
    SDPBackend.FLASH_ATTENTION: (cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
    SDPBackend.EFFICIENT_ATTENTION: (cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp),
    SDPBackend.MATH: (cuda.math_sdp_enabled, cuda.enable_math_sdp),
}


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Allows some kernels only, in a ``with`` block; among those allowed the arguments choose.

    Raises:
        AssertionError: ``backends`` are none.
    """
    if not isinstance(backends, (list, SDPBackend)):
        given = type(backends).__name__
        raise AssertionError(f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {given}")
    allowed = [backends] if isinstance(backends, SDPBackend) else backends
    before = _cur_sdpa_kernel_backends()
    try:
        _allow(allowed)
        yield {}
    finally:
        _allow(before)


def _allow(backends):
    for backend, (_, enable) in _switches.items():
        enable(backend in backends)


def _cur_sdpa_kernel_backends(with_priority=False):
    return [backend for backend, (enabled, _) in _switches.items() if enabled()]
