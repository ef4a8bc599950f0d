"""Settings of GPU kernels; kept, and without effect on the host."""

__all__ = ["is_built", "matmul"]


def is_built():
    """Whether this build has GPU kernels."""
    return False


class _Matmul:
    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    fp32_precision = "none"


matmul = _Matmul()
_sdp = {"flash": True, "math": True, "efficient": True}


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
