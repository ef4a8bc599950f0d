"""What NVIDIA's management library measures, where ``nvidia-ml-py`` is installed."""

from __future__ import annotations

__all__ = [
    "clock_rate", "device_memory_used", "memory_usage", "power_draw", "temperature", "utilization",
]


def _library():
    try:
        import pynvml
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "nvidia-ml-py does not seem to be installed or it can't be imported."
        ) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_DriverNotLoaded as error:
        raise RuntimeError("cuda driver can't be loaded, is cuda enabled?") from error
    return pynvml


def _device(device):
    library = _library()
    from corten import cuda

    # By identity, since the management library does not see CUDA_VISIBLE_DEVICES.
    identity = f"GPU-{cuda.get_device_properties(device).uuid}"
    return library, library.nvmlDeviceGetHandleByUUID(identity.encode())


def device_memory_used(device=None):
    """Bytes of a GPU's memory that all processes together use."""
    library, handle = _device(device)
    return library.nvmlDeviceGetMemoryInfo(handle).used


def memory_usage(device=None):
    """Percent of the last time in which a GPU's memory was read or written."""
    library, handle = _device(device)
    return library.nvmlDeviceGetUtilizationRates(handle).memory


def utilization(device=None):
    """Percent of the last time in which a GPU ran kernels."""
    library, handle = _device(device)
    return library.nvmlDeviceGetUtilizationRates(handle).gpu


def temperature(device=None):
    """Degrees Celsius of a GPU."""
    library, handle = _device(device)
    return library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)


def power_draw(device=None):
    """Milliwatts that a GPU draws."""
    library, handle = _device(device)
    return library.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device=None):
    """MHz of a GPU's multiprocessors."""
    library, handle = _device(device)
    return library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)


def list_gpu_processes(device=None):
    """The processes that use a GPU and their memory, as text."""
    try:
        library, handle = _device(device)
    except ModuleNotFoundError:
        return "pynvml module not found, please install nvidia-ml-py"
    except RuntimeError:
        return "cuda driver can't be loaded, is cuda enabled?"
    from corten import cuda

    lines = [f"GPU:{cuda._get_device_index(device, optional=True)}"]
    processes = library.nvmlDeviceGetComputeRunningProcesses(handle)
    for process in processes:
        used = process.usedGpuMemory / (1 << 20)
        lines.append(f"process {process.pid:>10d} uses {used:>12.3f} MB GPU memory")
    return "\n".join(lines if processes else [*lines, "no processes are running"])
