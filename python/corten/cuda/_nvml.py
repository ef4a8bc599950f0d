"""NVIDIA's management library, ``libnvidia-ml``, which comes with the driver."""

from __future__ import annotations

import ctypes
import functools
import os

__all__ = []

_NAME = "libnvidia-ml.so.1"
_INSUFFICIENT_SIZE = 7


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong), ("gpuInstanceId", ctypes.c_uint),
        ("computeInstanceId", ctypes.c_uint),
    ]


@functools.cache
def _library():
    """The library, started.

    Raises:
        RuntimeError: It is not there, or finds no driver.
    """
    folder = os.environ.get("CORTEN_CUDA_LIB_DIR")
    for path in ([os.path.join(folder, _NAME)] if folder else []) + [_NAME]:
        try:
            found = ctypes.CDLL(path)
            break
        except OSError as error:
            missing = error
    else:
        raise RuntimeError(
            f"NVIDIA's management library cannot be loaded ({missing}): it comes with the driver as {_NAME}. "
            "cuda driver can't be loaded, is cuda enabled?")
    _check(found, found.nvmlInit_v2())
    return found


def _check(library, status):
    if status:
        library.nvmlErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"NVML: {library.nvmlErrorString(status).decode()} ({status})")


def _call(name, handle, *arguments):
    library = _library()
    function = getattr(library, name, None)
    if function is None:
        raise RuntimeError(f"this driver's management library has no {name}")
    _check(library, function(handle, *arguments))


def device_count():
    """How many GPUs there are, whatever ``CUDA_VISIBLE_DEVICES`` says."""
    library, found = _library(), ctypes.c_uint()
    _check(library, library.nvmlDeviceGetCount_v2(ctypes.byref(found)))
    return found.value


def identities():
    """The identities of all GPUs, as ``GPU-...``."""
    library, names = _library(), []
    for index in range(device_count()):
        handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        _check(library, library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)))
        _check(library, library.nvmlDeviceGetUUID(handle, text, 96))
        names.append(text.value.decode("ascii"))
    return names


def device(uuid):
    """The handle of a GPU by its identity: the library does not see CUDA_VISIBLE_DEVICES."""
    library, handle = _library(), ctypes.c_void_p()
    _check(library, library.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode(), ctypes.byref(handle)))
    return handle


def _number(name, handle, *before):
    found = ctypes.c_uint()
    _call(name, handle, *before, ctypes.byref(found))
    return found.value


def utilization(handle):
    """Percent of the last time in which kernels ran, and in which memory was used."""
    found = _Utilization()
    _call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(found))
    return found.gpu, found.memory


def memory_used(handle):
    """Bytes in use by all processes."""
    found = _Memory()
    _call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(found))
    return found.used


def temperature(handle):
    """Degrees Celsius."""
    return _number("nvmlDeviceGetTemperature", handle, 0)


def power_usage(handle):
    """Milliwatts."""
    return _number("nvmlDeviceGetPowerUsage", handle)


def clock(handle):
    """MHz of the multiprocessors."""
    return _number("nvmlDeviceGetClockInfo", handle, 1)


def processes(handle):
    """Numbers and bytes of the processes that compute on a GPU."""
    library, count = _library(), ctypes.c_uint(0)
    function = library.nvmlDeviceGetComputeRunningProcesses_v3
    status = function(handle, ctypes.byref(count), None)
    if status not in (0, _INSUFFICIENT_SIZE):
        _check(library, status)
    # Others may start meanwhile.
    count.value += 8
    found = (_Process * count.value)()
    _check(library, function(handle, ctypes.byref(count), found))
    return [(one.pid, one.usedGpuMemory) for one in found[:count.value]]
