"""Choice among the kernels of attention."""

from __future__ import annotations

import contextlib
import enum

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


_allowed = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH,
            SDPBackend.CUDNN_ATTENTION, SDPBackend.OVERRIDEABLE]


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Allows some kernels only, in a ``with`` block. On the CPU the shapes choose the kernel, and all
    of them give the same result, so this is a wish.

    Raises:
        AssertionError: ``backends`` are none.
    """
    global _allowed
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of them")
    before = _allowed
    _allowed = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    try:
        yield {}
    finally:
        _allowed = before


def _cur_sdpa_kernel_backends(with_priority=False):
    return list(_allowed)
