"""Settings of GPU kernels."""

import contextlib
import enum
import warnings

from corten import _C
from corten.backends._cublas import Matmul

__all__ = ["is_built", "matmul", "preferred_blas_library", "preferred_linalg_library", "sdp_kernel"]


def is_built():
    """Whether this build has the back end for GPUs."""
    return "_cuda_init" in vars(_C)


class cuFFTPlanCacheAttrContextProp:
    """A setting of a cache of plans, which is kept and has no effect: transforms here keep no plans."""

    def __init__(self, value, writable):
        self.value, self.writable, self.name = value, writable, None

    def __set_name__(self, owner, name):
        self.name = f"_{name}"

    def __get__(self, instance, owner=None):
        return self if instance is None else vars(instance).get(self.name, self.value)

    def __set__(self, instance, value):
        if not self.writable:
            raise RuntimeError(f".{self.name[1:]} is a read-only property showing the number of plans "
                               "currently in the cache. To change the cache capacity, set cufft_plan_cache."
                               "max_size.")
        vars(instance)[self.name] = value


class cuFFTPlanCache:
    """The cache of plans of one GPU."""

    size = cuFFTPlanCacheAttrContextProp(0, writable=False)
    max_size = cuFFTPlanCacheAttrContextProp(4096, writable=True)

    def __init__(self, device_index=0):
        self.device_index = device_index

    def clear(self):
        """Forgets all plans."""


class cuFFTPlanCacheManager:
    """The caches of plans of all GPUs: by index, and that of the current one by attribute."""

    def __init__(self):
        vars(self).update(caches=[])

    def __getitem__(self, device):
        from corten import cuda

        index = cuda._get_device_index(device)
        count = cuda.device_count()
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with index {index}"
            )
        while len(self.caches) < count:
            self.caches.append(cuFFTPlanCache(len(self.caches)))
        return self.caches[index]

    def _current(self):
        from corten import cuda

        return self[cuda.current_device()]

    def __getattr__(self, name):
        if name in ("size", "max_size", "clear"):
            return getattr(self._current(), name)
        raise AttributeError(f"cufft_plan_cache has no attribute {name!r}")

    def __setattr__(self, name, value):
        setattr(self._current(), name, value)


cufft_plan_cache = cuFFTPlanCacheManager()


class _LinalgBackend(enum.Enum):
    """Libraries of decompositions on GPUs."""

    Default = 0
    Cusolver = 1
    Magma = 2


class _BlasBackend(enum.Enum):
    """Libraries of matrix products on GPUs."""

    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


class _ROCmFABackend(enum.Enum):
    """Implementations of fused attention on AMD's GPUs."""

    Default = 0
    AOTriton = 1
    Ck = 2


_preferred = {
    "linalg": _LinalgBackend.Default, "blas": _BlasBackend.Cublas, "attention": _ROCmFABackend.Default,
}


def _prefer(kind, backend, names):
    if isinstance(backend, str):
        if backend not in names:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(names)}.")
        backend = names[backend]
    if backend is not None:
        if not isinstance(backend, type(_preferred[kind])):
            raise RuntimeError("Unknown input value type.")
        _preferred[kind] = backend
    return _preferred[kind]


def preferred_linalg_library(backend=None):
    """The library of decompositions on GPUs: ``default``, ``cusolver`` or ``magma``."""
    return _prefer("linalg", backend, {
        "default": _LinalgBackend.Default, "cusolver": _LinalgBackend.Cusolver,
        "magma": _LinalgBackend.Magma,
    })


def preferred_blas_library(backend=None):
    """The library of matrix products on GPUs: ``cublas``, ``cublaslt`` or ``ck``.

    It is cuBLASLt where that is found, and kernels of this package otherwise, of which a program is warned that
    asks for ``cublaslt``.
    """
    chosen = _prefer("blas", backend, {
        "default": _BlasBackend.Default, "cublas": _BlasBackend.Cublas, "hipblas": _BlasBackend.Cublas,
        "cublaslt": _BlasBackend.Cublaslt, "hipblaslt": _BlasBackend.Cublaslt, "ck": _BlasBackend.Ck,
    })
    if backend is not None and chosen is _BlasBackend.Cublaslt and is_built():
        try:
            _C._cuda_checkCublasLt()
        except RuntimeError as error:
            warnings.warn(f"products of matrices are computed without cuBLASLt: {error}", stacklevel=2)
    return chosen


def preferred_rocm_fa_library(backend=None):
    """The implementation of fused attention on AMD's GPUs: ``default``, ``aotriton`` or ``ck``."""
    return _prefer("attention", backend, {
        "default": _ROCmFABackend.Default, "aotriton": _ROCmFABackend.AOTriton, "ck": _ROCmFABackend.Ck,
    })


_reduced_precision_attention = False


def fp16_bf16_reduction_math_sdp_allowed():
    """Whether attention by its formula may add up in float16 and bfloat16."""
    return _reduced_precision_attention


def allow_fp16_bf16_reduction_math_sdp(enabled):
    """Allows attention by its formula to add up in float16 and bfloat16; kept, and without effect."""
    global _reduced_precision_attention
    _reduced_precision_attention = bool(enabled)


matmul = Matmul()


def flash_sdp_enabled():
    """Whether fused attention may be used."""
    return _C._get_flash_sdp_enabled()


def enable_flash_sdp(enabled):
    """Allows or forbids fused attention."""
    _C._set_sdp_use_flash(bool(enabled))


def math_sdp_enabled():
    """Whether attention by its formula may be used."""
    return _C._get_math_sdp_enabled()


def enable_math_sdp(enabled):
    """Allows or forbids attention by its formula."""
    _C._set_sdp_use_math(bool(enabled))


def mem_efficient_sdp_enabled():
    """Whether memory-saving attention may be used."""
    return _C._get_mem_efficient_sdp_enabled()


def enable_mem_efficient_sdp(enabled):
    """Allows or forbids memory-saving attention."""
    _C._set_sdp_use_mem_efficient(bool(enabled))


def cudnn_sdp_enabled():
    """Whether cuDNN's attention may be used."""
    return _C._get_cudnn_sdp_enabled()


def enable_cudnn_sdp(enabled):
    """Allows or forbids cuDNN's attention, which is never used."""
    _C._set_sdp_use_cudnn(bool(enabled))


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Allows some kernels of attention only, in a ``with`` block."""
    before = [enabled() for enabled, _ in _SDP_SWITCHES]
    wanted = (enable_flash, enable_math, enable_mem_efficient, enable_cudnn)
    try:
        for (_, enable), on in zip(_SDP_SWITCHES, wanted):
            enable(on)
        yield {}
    finally:
        for (_, enable), on in zip(_SDP_SWITCHES, before):
            enable(on)


_SDP_SWITCHES = (
    (flash_sdp_enabled, enable_flash_sdp), (math_sdp_enabled, enable_math_sdp),
    (mem_efficient_sdp_enabled, enable_mem_efficient_sdp), (cudnn_sdp_enabled, enable_cudnn_sdp),
)


class SDPAParams:
    """The arguments of attention, for which a kernel is chosen."""

    def __init__(
        self, query, key, value, attn_mask=None, dropout=0.0, is_causal=False, enable_gqa=False
    ):
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def can_use_efficient_attention(params, debug=False):
    """Whether the kernel of fused attention for GPUs takes the arguments."""
    query, key, value = params.query, params.key, params.value
    widest = max(query.shape[-1], value.shape[-1])
    return (
        query.device.type == "cuda" and query.is_floating_point() and query.dim() in (3, 4)
        and query.shape[-1] == key.shape[-1] and key.shape[:-1] == value.shape[:-1]
        and widest <= 256 and widest * query.itemsize <= 1024
    )


def can_use_flash_attention(params, debug=False):
    """As `can_use_efficient_attention`, of what PyTorch's flash attention takes: 16-bit floats and no mask."""
    half = params.query.itemsize == 2 and params.attn_mask is None
    return half and can_use_efficient_attention(params, debug)


def can_use_cudnn_attention(params, debug=False):
    """Whether cuDNN's attention takes the arguments: it is never used."""
    return False


def is_flash_attention_available():
    """Whether GPUs have a kernel of fused attention."""
    return is_built()


def is_ck_sdpa_available():
    """Whether GPUs of AMD have a kernel of fused attention: they are not supported."""
    return False
