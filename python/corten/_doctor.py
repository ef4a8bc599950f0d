"""``corten doctor``: what this machine offers and what stands in the way."""

from __future__ import annotations

import ctypes
import os
import platform
import sys

import corten


def _first_line(path):
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return None


def _cpu():
    from corten import cpu

    wanted = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512_bf16", "amx_tile", "asimd")
    has = cpu.get_capabilities()
    yield "processor", f"{platform.machine()}: {' '.join(n for n in wanted if has.get(n)) or 'plain'}"


def _threads():
    yield "processors for this process", str(len(os.sched_getaffinity(0)))
    limit = _first_line("/sys/fs/cgroup/cpu.max")
    if limit and not limit.startswith("max"):
        quota, period = map(int, limit.split())
        yield "limit of the control group", f"{quota / period:g} processors"
    yield "threads that are used", str(corten.get_num_threads())


def _gib(nbytes):
    return f"{nbytes / 2**30:.1f} GiB"


def _memory():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield "memory", _gib(pages)
    limit = _first_line("/sys/fs/cgroup/memory.max")
    if limit and limit != "max":
        yield "limit of the control group for memory", _gib(int(limit))
    try:
        shared = os.statvfs("/dev/shm")
    except OSError:
        yield "/dev/shm", "absent: strategy file_system cannot share tensors"
        return
    free, size = shared.f_bavail * shared.f_frsize, shared.f_blocks * shared.f_frsize
    note = "" if free > 2**28 else " (little: workers that share by file_system may fail)"
    yield "/dev/shm", f"{_gib(free)} free of {_gib(size)}{note}"


def _limits():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield "open files", f"{soft}, at most {hard}"


def _gpu():
    if os.path.exists("/proc/driver/nvidia/version"):
        yield "NVIDIA driver", _first_line("/proc/driver/nvidia/version") or "there"
    else:
        try:
            ctypes.CDLL("libcuda.so.1")
            yield "NVIDIA driver", "the library is there, the driver is not loaded"
        except OSError:
            yield "NVIDIA driver", "not found: no libcuda.so.1, no /proc/driver/nvidia"
    yield "CUDA", "not used: this build computes on the CPU"


def report():
    """Pairs of a subject and what was found."""
    yield "corten", f"{corten.__version__} at {os.path.dirname(corten.__file__)}"
    yield "Python", f"{sys.version.split()[0]} on {platform.platform()}"
    for part in (_cpu, _threads, _memory, _limits, _gpu):
        yield from part()
    from importlib.util import find_spec

    numpy = "there" if find_spec("numpy") else "absent: .numpy() and .npz need it"
    yield "numpy", numpy
    a = corten.arange(6.0).reshape(2, 3)
    right = (a @ a.T).tolist() == [[5.0, 14.0], [14.0, 50.0]]
    yield "a product of matrices", "right" if right else "WRONG"


def main(arguments):
    """``corten doctor``"""
    for subject, found in report():
        print(f"{subject}: {found}")
