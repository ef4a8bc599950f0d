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


#: Instruction sets as the system names them, in families.
_SETS = {
    "SSE4.2": ("sse4_2",), "AVX": ("avx",), "AVX2": ("avx2",), "FMA": ("fma",), "F16C": ("f16c",),
    "AVX-512": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    "AMX": ("amx_tile", "amx_bf16", "amx_int8", "amx_fp16"),
    "AVX-VNNI": ("avx_vnni",), "NEON": ("asimd",), "dot products": ("asimddp",), "I8MM": ("i8mm",), "BF16": ("bf16",),
    "SVE": ("sve", "sve2"), "SME": ("sme",),
}


def _cpu():
    from corten import cpu

    has = cpu.get_capabilities()
    yield "processor", f"{platform.machine()}, {_model()}"
    found = []
    for family, names in _SETS.items():
        there = [name for name in names if has.get(name)]
        if there:
            found.append(family if len(names) == 1 else f"{family} ({', '.join(there)})")
    yield "instruction sets that were found", ", ".join(found) or "none beyond those of every processor"
    level, products = corten.backends.cpu.get_cpu_capability(), corten._C._product_instructions()
    yield "instruction sets that are used", f"{level} for elements, {products} for products of matrices"
    if platform.machine() in ("x86_64", "AMD64"):
        yield "AMX", _amx(has, products)


def _model():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "Processor", "CPU part"):
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or "of an unknown model"


def _amx(has, products):
    if products == "AMX":
        return "used for products of bfloat16"
    if has.get("amx_tile"):
        return "found but not used: the system does not save its registers, or a setting forbids it"
    return "not found"


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


def tell_of_debug_build():
    """Says on stderr that this is a debug build, unless ``CORTEN_QUIET`` is set."""
    if not os.environ.get("CORTEN_QUIET"):
        print(
            f"corten: {corten._C.__file__} is a debug build, 10 to 100 times slower than a release build",
            file=sys.stderr,
        )


def report():
    """Pairs of a subject and what was found."""
    yield "corten", f"{corten.__version__} at {os.path.dirname(corten.__file__)}"
    yield "build", "debug: 10 to 100 times slower" if corten._C._is_debug else "release"
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
