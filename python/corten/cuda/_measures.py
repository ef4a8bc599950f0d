"""What NVIDIA's management library measures."""

from __future__ import annotations

from corten.cuda import _nvml

__all__ = [
    "clock_rate", "device_memory_used", "memory_usage", "power_draw", "temperature", "utilization",
]


def _device(device):
    from corten import cuda

    return _nvml.device(cuda.get_device_properties(device).uuid)


def device_memory_used(device=None):
    """Bytes of a GPU's memory that all processes together use."""
    return _nvml.memory_used(_device(device))


def memory_usage(device=None):
    """Percent of the last time in which a GPU's memory was read or written."""
    return _nvml.utilization(_device(device))[1]


def utilization(device=None):
    """Percent of the last time in which a GPU ran kernels."""
    return _nvml.utilization(_device(device))[0]


def temperature(device=None):
    """Degrees Celsius of a GPU."""
    return _nvml.temperature(_device(device))


def power_draw(device=None):
    """Milliwatts that a GPU draws."""
    return _nvml.power_usage(_device(device))


def clock_rate(device=None):
    """MHz of a GPU's multiprocessors."""
    return _nvml.clock(_device(device))


def list_gpu_processes(device=None):
    """The processes that use a GPU and their memory, as text."""
    from corten import cuda

    try:
        found = _nvml.processes(_device(device))
    except RuntimeError:
        return "cuda driver can't be loaded, is cuda enabled?"
    lines = [f"GPU:{cuda._get_device_index(device, optional=True)}"]
    for number, used in found:
        lines.append(f"process {number:>10d} uses {used / (1 << 20):>12.3f} MB GPU memory")
    return "\n".join(lines if found else [*lines, "no processes are running"])
