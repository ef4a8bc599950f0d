"""Errors of the driver, injected by the emulator, as programs see them; each in a process of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from emulator import AVAILABLE, CXX, MISSING, build  # noqa: E402

START = "import corten as torch\n"
NO_DRIVER = ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
             "http://www.nvidia.com/Download/index.aspx")


@unittest.skipUnless(AVAILABLE and os.environ.get("CORTEN_TEST_GPU") != "1", MISSING)
class InjectedErrors(unittest.TestCase):
    def run_program(self, text, **settings):
        libraries = build()
        environment = dict(os.environ, CORTEN_QUIET="1", CORTEN_CUDA_LIB_DIR=str(libraries), CUSIM_DEVICES="1",
                           CUSIM_CACHE=str(libraries / "kernels"), CORTEN_KERNEL_CACHE=str(libraries / "loaded"))
        environment.update({name: str(value) for name, value in settings.items()})
        return subprocess.run([sys.executable, "-c", START + text], env=environment, capture_output=True, text=True)

    def prints(self, text, *lines, **settings):
        done = self.run_program(text, **settings)
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, list(lines)), done.stderr)

    def raises(self, text, *parts, kind="Error: ", **settings):
        done = self.run_program(text, **settings)
        self.assertEqual(done.returncode, 1, f"{done.returncode} {done.stdout} {done.stderr}")
        for part in (kind, *parts):
            self.assertIn(part, done.stderr)

    def test_allocations_fail(self):
        self.raises("torch.empty(1 << 20, device='cuda')", "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a "
                    "total capacity of 4.00 GiB of which", kind="OutOfMemoryError", CUSIM_FAIL="cuMemAlloc_v2:0")
        # What is cached is given back, and the allocation is tried again.
        self.prints("x = torch.empty(1 << 20, device='cuda'); del x; print(torch.empty(1 << 23, device='cuda').numel()); "
                    "print(torch.cuda.memory_stats()['num_alloc_retries'])", "8388608", "1", CUSIM_FAIL="cuMemAlloc_v2:2")
        self.raises("torch.empty(5).pin_memory()", "out of memory", kind="", CUSIM_FAIL="cuMemHostAlloc:0")

    def test_launches_fail(self):
        self.raises("torch.ones(5, device='cuda') + 1; torch.cuda.synchronize()", "CUDA error: unspecified launch failure",
                    "CUDA_LAUNCH_BLOCKING=1", kind="AcceleratorError", CUSIM_FAIL="cuLaunchKernel:2:719")
        self.raises("torch.ones(5).cuda()", "CUDA error: an illegal memory access was encountered",
                    kind="AcceleratorError", CUSIM_FAIL="cuMemcpyHtoDAsync_v2:1:700")

    def test_an_error_stays(self):
        """An error that is no call's own comes back from every call until the process ends, which it does in order."""
        text = """
for _ in range(3):
    try:
        torch.ones(5, device="cuda").sum().item()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
print(torch.ones(3).sum().item())
"""
        self.prints(text, *["CUDA error: unspecified launch failure"] * 3, "3.0", CUSIM_FAIL="cuLaunchKernel:0:719")

    def test_synchronisation_reports(self):
        self.raises("x = torch.ones(5, device='cuda'); torch.cuda.synchronize()", "CUDA error: an illegal memory access",
                    kind="AcceleratorError", CUSIM_FAIL="cuCtxSynchronize:1:700")
        self.raises("torch.cuda.current_stream().synchronize()", "CUDA error: unspecified launch failure",
                    kind="AcceleratorError", CUSIM_FAIL="cuStreamSynchronize:1:719")

    def test_no_driver(self):
        with tempfile.TemporaryDirectory() as empty:
            text = "print(torch.cuda.is_available(), torch.cuda.device_count())\n"
            self.prints(text, "False 0", CORTEN_CUDA_LIB_DIR=empty)
            for use in ("torch.ones(5).cuda()", "torch.zeros(5, device='cuda')", "torch.cuda.current_device()",
                        "torch.ones(5).to('cuda:0')", "torch.cuda.init()", "torch.cuda.synchronize()"):
                self.raises(use, NO_DRIVER, CORTEN_CUDA_LIB_DIR=empty)

    def test_no_devices(self):
        text = "print(torch.cuda.is_available(), torch.cuda.device_count())\n"
        self.prints(text, "False 0", CUDA_VISIBLE_DEVICES="")
        self.raises("torch.ones(5).cuda()", "No CUDA GPUs are available", CUDA_VISIBLE_DEVICES="")
        self.raises("torch.ones(5).cuda()", "No CUDA GPUs are available", CUDA_VISIBLE_DEVICES="7")

    def test_an_old_driver(self):
        self.raises("torch.ones(5).cuda()", "The NVIDIA driver on your system is too old (found version 11040). Please update "
                    "your GPU driver by downloading and installing a new version from the URL: "
                    "http://www.nvidia.com/Download/index.aspx", CUSIM_VERSION="11040")
        # A driver of CUDA 12 does not load what NVRTC 13 compiles.
        with tempfile.TemporaryDirectory() as empty:
            self.raises("torch.ones(5).cuda() + 1", "NVRTC for a driver of CUDA 12 was not found",
                        "pip install nvidia-cuda-nvrtc-cu12", CUSIM_VERSION="12080", CORTEN_KERNEL_CACHE="",
                        CORTEN_KERNEL_PACK=empty)

    def test_a_driver_without_a_function(self):
        with tempfile.TemporaryDirectory() as folder:
            text = 'extern "C" int cuInit(unsigned) { return 0; }\n'
            subprocess.run([CXX, "-x", "c++", "-", "-shared", "-fPIC", "-o", f"{folder}/libcuda.so.1"], input=text, text=True, check=True)
            self.raises("torch.ones(5).cuda()", "libcuda.so.1 does not export cu", "it is too old for this program",
                        CORTEN_CUDA_LIB_DIR=folder)

    def test_a_driver_that_does_not_start(self):
        self.raises("torch.ones(5).cuda()", "Unexpected error from cuInit", CUSIM_FAIL="cuInit:1:999")

    def test_a_file_that_is_no_library(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copyfile(__file__, f"{folder}/libcuda.so.1")
            self.raises("torch.ones(5).cuda()", NO_DRIVER, "libcuda.so.1", CORTEN_CUDA_LIB_DIR=folder)


if __name__ == "__main__":
    unittest.main()
