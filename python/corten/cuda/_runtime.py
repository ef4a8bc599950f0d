"""The functions of CUDA's runtime library that programs call through PyTorch, on top of the driver."""

from __future__ import annotations

import ctypes
import enum

from corten import _C
from corten.cuda._utils import _ERRORS

__all__ = []


class cudaError(enum.IntEnum):
    """Results."""

    success = 0
    errorInvalidValue = 1
    errorMemoryAllocation = 2
    errorHostMemoryAlreadyRegistered = 712
    errorHostMemoryNotRegistered = 713
    errorNotSupported = 801


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
    """Lets NVIDIA's profilers collect."""
    _C._cuda_profiler(True)
    return cudaError.success


def cudaProfilerStop():
    """Lets NVIDIA's profilers stop collecting."""
    _C._cuda_profiler(False)
    return cudaError.success


#: For :func:`cudaHostRegister`: for all GPUs, in their addresses.
cudaHostRegisterDefault, cudaHostRegisterPortable, cudaHostRegisterMapped = 0, 1, 2


def cudaHostRegister(ptr, size, flags=0):
    """Pins memory of the host that somebody else has allocated, until :func:`cudaHostUnregister`."""
    return _result(_C._cuda_hostRegister(ptr, size, flags))


def cudaHostUnregister(ptr):
    """Ends what :func:`cudaHostRegister` began."""
    return _result(_C._cuda_hostUnregister(ptr))


def cudaStreamCreate(ptr):
    """Writes the address of a new stream of the current GPU to an address. Streams are taken from a pool."""
    device = _C._cuda_getDevice()
    made = _C._cuda_newStream(device, 0)
    ctypes.c_void_p.from_address(ptr).value = _C._cuda_streamHandle(device, made[0])
    return cudaError.success


def cudaStreamDestroy(stream):
    """Gives a stream up. Those of the pool stay."""
    return cudaError.success


def _result(code):
    try:
        return cudaError(code)
    except ValueError:
        return code
