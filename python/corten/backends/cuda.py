"""Settings of GPU kernels; kept, and without effect on the host."""

import contextlib
import enum

__all__ = ["is_built", "matmul", "preferred_blas_library", "preferred_linalg_library", "sdp_kernel"]


def is_built():
    """Whether this build has GPU kernels."""
    return False


class _Matmul:
    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    fp32_precision = "none"


class _Library(enum.Enum):
    """Libraries of linear algebra on GPUs."""

    Default = 0
    Cusolver = 1
    Magma = 2
    Cublas = 3
    Cublaslt = 4
    Ck = 5


_preferred = {"linalg": _Library.Default, "blas": _Library.Cublas}


def _prefer(kind, backend, names):
    if isinstance(backend, str):
        if backend not in names:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(names)}.")
        backend = names[backend]
    if backend is not None:
        if not isinstance(backend, _Library):
            raise RuntimeError("Unknown input value type.")
        _preferred[kind] = backend
    return _preferred[kind]


def preferred_linalg_library(backend=None):
    """The library of decompositions on GPUs: ``default``, ``cusolver`` or ``magma``."""
    return _prefer("linalg", backend, {
        "default": _Library.Default, "cusolver": _Library.Cusolver, "magma": _Library.Magma,
    })


def preferred_blas_library(backend=None):
    """The library of matrix products on GPUs: ``cublas``, ``cublaslt`` or ``ck``."""
    return _prefer("blas", backend, {
        "default": _Library.Default, "cublas": _Library.Cublas, "hipblas": _Library.Cublas,
        "cublaslt": _Library.Cublaslt, "hipblaslt": _Library.Cublaslt, "ck": _Library.Ck,
    })


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


class SDPAParams:
    """The arguments of attention, for which a kernel is chosen."""

    def __init__(
        self, query, key, value, attn_mask=None, dropout=0.0, is_causal=False, enable_gqa=False
    ):
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def can_use_flash_attention(params, debug=False):
    """Whether a GPU's kernel of fused attention takes the arguments: there is none."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


def is_flash_attention_available():
    """Whether GPUs have a kernel of fused attention."""
    return False


is_ck_sdpa_available = is_flash_attention_available
