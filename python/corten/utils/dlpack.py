"""Tensors that libraries exchange without copies."""

from __future__ import annotations

import enum

import corten

__all__ = ["DLDeviceType", "ReadOnlyTensorWrapper", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """Kinds of devices as DLPack numbers them."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of another library's tensor, or of a capsule."""
    options = {name: v for name, v in (("device", device), ("copy", copy)) if v is not None}
    return corten.from_dlpack(ext_tensor, **options)


def to_dlpack(tensor):
    """A capsule for other libraries, to be taken once."""
    return tensor.__dlpack__()


def __getattr__(name):
    if name == "ReadOnlyTensorWrapper":
        from corten.utils._read_only import ReadOnlyTensorWrapper

        return ReadOnlyTensorWrapper
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
