"""Settings of GPU kernels; kept, and without effect on the host."""

import contextlib

__all__ = ["is_built", "matmul", "sdp_kernel"]


def is_built():
    """Whether this build has GPU kernels."""
    return False


class _Matmul:
    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    fp32_precision = "none"


matmul = _Matmul()
_sdp = {"flash": True, "math": True, "efficient": True, "cudnn": True}


def flash_sdp_enabled():
    """Whether fused attention may be used."""
    return _sdp["flash"]


def enable_flash_sdp(enabled):
    """Allows or forbids fused attention."""
    _sdp["flash"] = bool(enabled)


def math_sdp_enabled():
    """Whether attention by its formula may be used."""
    return _sdp["math"]


def enable_math_sdp(enabled):
    """Allows or forbids attention by its formula."""
    _sdp["math"] = bool(enabled)


def mem_efficient_sdp_enabled():
    """Whether memory-saving attention may be used."""
    return _sdp["efficient"]


def enable_mem_efficient_sdp(enabled):
    """Allows or forbids memory-saving attention."""
    _sdp["efficient"] = bool(enabled)


def cudnn_sdp_enabled():
    """Whether cuDNN's attention may be used."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled):
    """Allows or forbids cuDNN's attention."""
    _sdp["cudnn"] = bool(enabled)


def is_flash_attention_available():
    """Whether this build has fused attention for GPUs."""
    return False


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Allows some kernels of attention only, in a ``with`` block."""
    wanted = (enable_flash, enable_math, enable_mem_efficient, enable_cudnn)
    before = dict(_sdp)
    _sdp.update(zip(("flash", "math", "efficient", "cudnn"), map(bool, wanted)))
    try:
        yield {}
    finally:
        _sdp.update(before)
