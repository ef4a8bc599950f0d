"""cuDNN: convolutions on GPUs are computed by it where it is found (``pip install nvidia-cudnn-cu13``)."""

import sys
import types

from corten import _C
from corten.backends._flags import Precision, flags_of

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True
benchmark_limit = 10
fp32_precision = "none"


def _changed():
    """Tells the back end for GPUs, where this build has one."""
    setter = getattr(_C, "_cudnn_set", None)
    if setter is not None:
        asked = next((one for one in (conv.fp32_precision, fp32_precision) if one != "none"), None)
        tf32 = allow_tf32 if asked is None else asked == "tf32"
        setter(bool(enabled), bool(benchmark), bool(deterministic), bool(tf32))


class _Precision(Precision):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if "conv" in globals():
            _changed()


conv, rnn = _Precision(), _Precision()


def is_available():
    """Whether the library is found, beside a GPU."""
    return version() is not None


def version():
    """Its version as 10000 * major + 100 * minor + patch; none where it is not found or there is no GPU."""
    find = getattr(_C, "_cudnn_version", None)
    return None if find is None else find()


def is_acceptable(tensor):
    """Whether it could compute with a tensor."""
    import corten as torch

    floating = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    return bool(enabled) and tensor.is_cuda and tensor.dtype in floating and is_available()


flags = flags_of(
    globals(), enabled=False, benchmark=False, benchmark_limit=10, deterministic=False,
    allow_tf32=True, fp32_precision="none", _changed=_changed,
)


class _Module(types.ModuleType):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name in ("enabled", "benchmark", "deterministic", "allow_tf32", "fp32_precision"):
            _changed()


sys.modules[__name__].__class__ = _Module
