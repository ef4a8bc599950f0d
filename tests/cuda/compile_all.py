"""Compiles with NVIDIA's NVRTC every kernel that the tests have run on the emulator.

    python tests/cuda/compile_all.py [--sample N] [--architectures 80,90,100,120]

The kernels are those in the cache of the emulator's tests (cuda_under_test.py). NVRTC needs no GPU; it comes from
`pip install nvidia-cuda-nvrtc==13.0.*`, from CORTEN_CUDA_LIB_DIR or from the interpreter's site-packages.
"""

import argparse
import ctypes
import os
import site
import sys
import time
from pathlib import Path

from emulator import build

MAGIC = b"cortenK1"


def kernels(folder):
    """The text and the instantiation of every kernel in a cache."""
    found = {}
    for path in sorted(Path(folder).glob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if not data.startswith(MAGIC):
            continue
        length = int.from_bytes(data[8:16], "little")
        head, text = data[16:16 + length].decode().split("\n", 1)
        expression = head.split(" ", 4)[4]
        found[expression] = text
    return sorted(found.items())


def open_nvrtc():
    """NVRTC, or None. It opens its built-in headers by name, so that they are opened before."""
    folders = [os.environ.get("CORTEN_NVRTC_DIR")]
    folders += [f"{root}/nvidia/{name}/lib" for root in site.getsitepackages() for name in ("cu13", "cuda_nvrtc")]
    for folder in filter(None, folders):
        for builtins in sorted(Path(folder).glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        for library in sorted(Path(folder).glob("libnvrtc.so.1?")):
            return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    return None


def compile(nvrtc, text, expression, architecture):
    """A kernel's symbol and cubin, or what NVRTC says is wrong."""
    program, name, size = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"corten.cu", 0, None, None)
    nvrtc.nvrtcAddNameExpression(program, expression.encode())
    options = (ctypes.c_char_p * 3)(f"--gpu-architecture=sm_{architecture}".encode(), b"--std=c++17", b"--minimal")
    if nvrtc.nvrtcCompileProgram(program, len(options), options) == 0:
        nvrtc.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name))
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, image)
        answer = name.value, image.raw
    else:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        answer = log.value.decode()
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=0, help="only so many kernels, spread over all")
    parser.add_argument("--architectures", default="80,90,100,120")
    given = parser.parse_args()
    nvrtc = open_nvrtc()
    if nvrtc is None:
        print("compile_all did not run: NVRTC is not installed (pip install nvidia-cuda-nvrtc==13.0.*)")
        return 0
    everything = kernels(os.environ.get("CORTEN_KERNEL_CACHE", build() / "loaded"))
    step = max(1, len(everything) // given.sample) if given.sample else 1
    chosen, begun, refused, total = everything[::step], time.monotonic(), 0, 0
    for expression, text in chosen:
        for architecture in given.architectures.split(","):
            answer = compile(nvrtc, text, expression, architecture)
            if isinstance(answer, str):
                refused += 1
                print(f"sm_{architecture} {expression}: {answer[:2000]}")
            else:
                total += len(answer[1])
    print(f"compile_all: {len(chosen)} of {len(everything)} kernels for {given.architectures}, {refused} refused, "
          f"{total / 1e6:.1f} MB, {time.monotonic() - begun:.0f} s")
    return 1 if refused or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
