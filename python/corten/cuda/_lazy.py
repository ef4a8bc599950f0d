"""The start of the driver: at the first use of a device, never at import."""

from __future__ import annotations

import threading
import traceback

from corten import _C

__all__ = ["DeferredCudaCallError"]

#: Reentrant, since what was put off may use a device.
_lock = threading.RLock()
_queued_calls = []
_native = vars(_C)
_state = {"drained": False}


class DeferredCudaCallError(Exception):
    """An error of something that was put off until the driver's start."""


def _is_compiled():
    return "_cuda_init" in _native


def _is_in_bad_fork():
    return _is_compiled() and _C._cuda_isInBadFork()


def is_initialized():
    """Whether a device has been used."""
    return _is_compiled() and _C._cuda_hasContext()


def _lazy_init():
    if is_initialized() and _state["drained"]:
        return
    if not _is_compiled():
        raise _C._DeviceError("Torch not compiled with CUDA enabled")
    with _lock:
        if _is_in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
                "use the 'spawn' start method"
            )
        _C._cuda_init()
        if _state["drained"]:
            return
        _state["drained"] = True
        while _queued_calls:
            call, lines = _queued_calls.pop(0)
            try:
                call()
            except Exception as error:
                raise DeferredCudaCallError(
                    f"CUDA call failed lazily at initialization with error: {error}\n\n"
                    f"CUDA call was originally invoked at:\n\n{''.join(lines)}"
                ) from error


def init():
    """Starts the driver and makes the context of the current device.

    Raises:
        RuntimeError: There is no driver or no GPU, or the process was forked from one that used a GPU.
    """
    _lazy_init()


def _lazy_call(call, **kwargs):
    """Calls now if the driver was started, and otherwise when it is."""
    with _lock:
        if not (is_initialized() and _state["drained"]):
            _queued_calls.append((call, traceback.format_stack()))
            return
    call()
