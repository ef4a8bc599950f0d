"""What the parts of :mod:`corten.cuda` share."""

from __future__ import annotations

from corten import _C

__all__ = []


def _get_device_index(device, optional=False, allow_cpu=False):
    """The index that a device, its text or a number names; ``None`` is the current one if it is optional."""
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    from corten import cuda

    if isinstance(device, cuda.device):
        return device.idx
    if isinstance(device, str):
        device = _C.device(device)
    if isinstance(device, _C.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "cuda":
            wanted = "cuda or cpu" if allow_cpu else "cuda"
            raise ValueError(f"Expected a {wanted} device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got:{device}"
        )
    if not optional:
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got:{device}"
        )
    # Without GPUs there is no current one.
    return cuda.current_device() if cuda.is_available() or device is not None else None


#: Names of errors of the driver, for what others than this package report by number.
_ERRORS = {
    0: "no error", 1: "invalid argument", 2: "out of memory", 3: "initialization error",
    4: "driver shutting down", 35: "CUDA driver version is insufficient for CUDA runtime version",
    46: "all CUDA-capable devices are busy or unavailable", 98: "invalid device function",
    100: "no CUDA-capable device is detected", 101: "invalid device ordinal",
    200: "device kernel image is invalid", 201: "invalid device context",
    209: "no kernel image is available for execution on the device",
    400: "invalid resource handle", 600: "device not ready",
    700: "an illegal memory access was encountered",
    701: "too many resources requested for launch", 702: "the launch timed out and was terminated",
    710: "device-side assert triggered", 712: "part or all of the requested memory range is already mapped",
    713: "pointer does not correspond to a registered memory region", 716: "misaligned address",
    719: "unspecified launch failure", 801: "operation not supported",
    900: "operation not permitted when stream is capturing", 999: "unknown error",
}
