"""Errors of devices: their class, number and words, and what the driver's failures do."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import ON_GPU, CudaTest, torch, usable  # noqa: E402

SEARCH = "in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information."


@usable
class Errors(CudaTest):
    def test_class_and_words(self):
        with self.assertRaises(torch.AcceleratorError) as raised:
            torch.ones(1, device="cuda:9")
        error = raised.exception
        self.assertIsInstance(error, RuntimeError)
        self.assertEqual(error.error_code, 101)
        self.assertTrue(str(error).startswith(
            "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?\n"
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
            "might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"))
        self.assertIs(torch.AcceleratorError, torch.cuda.AcceleratorError)
        self.assertIs(torch.OutOfMemoryError, torch.cuda.OutOfMemoryError)

    def test_device_side_assert(self):
        x = torch.arange(3, device="cuda")
        with self.assertRaises(torch.AcceleratorError) as raised:
            x[torch.tensor([5], device="cuda")].sum().item()
            torch.cuda.synchronize()
        self.assertEqual(raised.exception.error_code, 710)
        self.assertIn(f"device-side assert triggered\nSearch for `cudaErrorAssert' {SEARCH}\n", str(raised.exception))

    def run_program(self, text, **environment):
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\n")[:-1]

    @unittest.skipIf(ON_GPU, "the emulator injects errors")
    def test_sticky_errors(self):
        text = (
            "import corten as torch\n"
            "x = torch.ones(3, device='cuda')\n"
            "for attempt in range(2):\n"
            "    try:\n"
            "        torch.cuda.synchronize()\n"
            "        print('none')\n"
            "    except torch.AcceleratorError as error:\n"
            "        print(error.error_code, str(error).split(chr(10))[0])\n"
            "        print(str(error).split(chr(10))[1][:40])\n")
        found = self.run_program(text, CUSIM_FAIL="cuCtxSynchronize:0:700")
        self.assertEqual(found, [
            "700 CUDA error: an illegal memory access was encountered", "Search for `cudaErrorIllegalAddress' in "[:40],
        ] * 2)

    @unittest.skipIf(ON_GPU, "the emulator injects errors")
    def test_memory_of_the_driver(self):
        text = (
            "import corten as torch\n"
            "try:\n"
            "    torch.ones(1 << 28, device='cuda')\n"
            "except torch.OutOfMemoryError as error:\n"
            "    print(str(error)[:18])\n")
        self.assertEqual(self.run_program(text, CUSIM_MEM="100000000"), ["CUDA out of memory"])

    def test_blocking_launches(self):
        text = (
            "import corten as torch\n"
            "x = torch.arange(3, device='cuda')\n"
            "try:\n"
            "    x[torch.tensor([5], device='cuda')]\n"
            "    print('none')\n"
            "except torch.AcceleratorError as error:\n"
            "    print('asynchronously' in str(error))\n"
            "record = torch.cuda.CUDAGraph()\n"
            "x + 1\n"
            "with torch.cuda.graph(record):\n"
            "    y = x + 1\n"
            "record.replay()\n"
            "print(y.tolist())\n")
        self.assertEqual(self.run_program(text, CUDA_LAUNCH_BLOCKING="1"), ["False", "[1, 2, 3]"])


if __name__ == "__main__":
    unittest.main()
