"""Builds the CUDA emulator once per state of its sources, and drives it through ctypes."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "crates/corten-cuda/emulator"
CXX = os.environ.get("CXX", "g++")
AVAILABLE = shutil.which(CXX) is not None and platform.machine() == "x86_64" and sys.platform == "linux"
MISSING = f"the CUDA emulator did not run: it takes Linux on x86-64 and a C++ compiler, here {CXX}"
SETTINGS = ["SEED", "DEVICES", "MEM", "STRICT", "FAIL", "COMPUTE", "VERSION", "RACES"]


def build():
    """The folder with the emulated driver, NVRTC and cuBLASLt."""
    texts = b"".join(file.read_bytes() for file in sorted(SOURCES.iterdir()) if file.is_file())
    state = hashlib.sha256(texts + CXX.encode()).hexdigest()[:16]
    out = Path(tempfile.gettempdir()) / f"corten-emulator-{os.getuid()}-{state}"
    libraries = ["libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcudnn.so.9",
                 "libnccl.so.2", "libnvidia-ml.so.1"]
    if not all((out / name).exists() for name in libraries):
        remove_old(out.parent)
        subprocess.run([SOURCES / "build.sh", out], check=True)
    os.utime(out)
    # Kernels are compiled by g++: once per state of their texts, for all tests.
    os.environ.setdefault("CUSIM_CACHE", str(out / "kernels"))
    return out


def remove_old(folder):
    """Removes the emulators of other states of the sources that have not been used for a day."""
    for other in folder.glob(f"corten-emulator-{os.getuid()}-*"):
        if other.stat().st_mtime < time.time() - 86400:
            shutil.rmtree(other, ignore_errors=True)


class CudaError(Exception):
    def __init__(self, call, code):
        super().__init__(f"{call}: error {code}")
        self.code = code


class Library:
    """Calls raise `CudaError`; integers beyond 32 bits and pointers are passed as 64 bits."""

    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))

    def __getattr__(self, name):
        function = getattr(self._library, name)

        def call(*args):
            code = function(*[ctypes.c_void_p(a) if isinstance(a, int) and a >= 2**31 else a for a in args])
            if code:
                raise CudaError(name, code)

        return call


class CompileError(Exception):
    pass


def compile(text, names=(), options=()):
    """The image of a program and the lowered names of its name expressions."""
    nvrtc = Library(build() / "libnvrtc.so.13")
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"test.cu", 0, None, None)
    for name in names:
        nvrtc.nvrtcAddNameExpression(program, name.encode())
    given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    size = ctypes.c_size_t()
    try:
        nvrtc.nvrtcCompileProgram(program, len(options), given)
    except CudaError as error:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise CompileError(error.code, log.value.decode()) from None
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, image)
    lowered = []
    for name in names:
        out = ctypes.c_char_p()
        nvrtc.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(out))
        lowered.append(out.value)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return image, lowered


class Sim:
    """A driver of its own: the library is loaded from a copy, so that each test has fresh settings."""

    def __init__(self, **settings):
        for name in SETTINGS:
            os.environ.pop(f"CUSIM_{name}", None)
        os.environ.update({f"CUSIM_{name.upper()}": str(value) for name, value in settings.items()})
        with tempfile.NamedTemporaryFile(suffix="-libcuda.so.1") as copy:
            shutil.copyfile(build() / "libcuda.so.1", copy.name)
            self.cu = Library(copy.name)
        self.cu.cuInit(0)
        self.use(0)

    def use(self, device):
        self.cu.cuCtxSetCurrent(self.out(self.cu.cuDevicePrimaryCtxRetain, ctypes.c_void_p, device))

    def out(self, call, kind, *args):
        """The value of a call's first, outgoing argument."""
        result = kind()
        call(ctypes.byref(result), *args)
        return result.value

    def alloc(self, size):
        return self.out(self.cu.cuMemAlloc_v2, ctypes.c_void_p, ctypes.c_size_t(size))

    def pinned(self, size):
        """Page-locked memory as a ctypes array of bytes."""
        address = self.out(self.cu.cuMemHostAlloc, ctypes.c_void_p, ctypes.c_size_t(size), 0)
        return (ctypes.c_char * size).from_address(address)

    def upload(self, code, values, stream=None):
        data = array(code, values)
        address, size = data.buffer_info()[0], len(data) * data.itemsize
        pointer = self.alloc(size)
        self.cu.cuMemcpyHtoDAsync_v2(pointer, address, ctypes.c_size_t(size), stream)
        return pointer

    def download(self, code, pointer, count, stream=None):
        data = array(code, bytes(array(code).itemsize * count))
        size = ctypes.c_size_t(len(data) * data.itemsize)
        self.cu.cuMemcpyDtoHAsync_v2(data.buffer_info()[0], pointer, size, stream)
        return data

    def stream(self, flags=1):
        return self.out(self.cu.cuStreamCreateWithPriority, ctypes.c_void_p, flags, 0)

    def event(self, flags=0):
        return self.out(self.cu.cuEventCreate, ctypes.c_void_p, flags)

    def functions(self, text, names=(), plain=()):
        """Kernels of a program, by name expressions and by names of `extern "C"` kernels."""
        image, lowered = compile(text, names)
        module = self.module = self.out(self.cu.cuModuleLoadData, ctypes.c_void_p, image)
        found = [self.out(self.cu.cuModuleGetFunction, ctypes.c_void_p, module, name)
                 for name in lowered + [name.encode() for name in plain]]
        return found if len(found) > 1 else found[0]

    def launch(self, function, grid, block, *args, shared=0, stream=None):
        """Arguments are ctypes values, or integers for pointers."""
        values = [ctypes.c_void_p(a) if isinstance(a, int) else a for a in args]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        grid, block = [size if isinstance(size, tuple) else (size, 1, 1) for size in (grid, block)]
        self.cu.cuLaunchKernel(function, *grid, *block, shared, stream, pointers, None)

    def sync(self):
        self.cu.cuCtxSynchronize()
