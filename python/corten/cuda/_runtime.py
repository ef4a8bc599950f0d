"""The functions of CUDA's runtime library that programs call through PyTorch, on top of the driver."""

from __future__ import annotations

import enum

from corten import _C
from corten.cuda._utils import _ERRORS

__all__ = []


class cudaError(enum.IntEnum):
    """Results."""

    success = 0


def cudaGetErrorString(error):
    """What a result means."""
    return _ERRORS.get(int(error), "unrecognized error code")


def cudaMemGetInfo(device):
    """Free and total bytes of a GPU."""
    return _C._cuda_memGetInfo(device)


def cudaDeviceSynchronize():
    """Waits for the current GPU."""
    _C._cuda_synchronize()
    return cudaError.success


def cudaStreamSynchronize(stream):
    """Waits for a stream, given by its address."""
    device = _C._cuda_getDevice()
    _C._cuda_streamSynchronize(device, _C._cuda_getStreamFromExternal(stream, device)[0])
    return cudaError.success


def cudaProfilerStart():
    """Starts NVIDIA's profilers; nothing listens through this library."""
    return cudaError.success


def cudaProfilerStop():
    """Stops NVIDIA's profilers."""
    return cudaError.success
